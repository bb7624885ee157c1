"""Tells whoever waits for kernels for longer than two seconds how far it is: one line that is written anew."""

import os
import sys

from . import _C

_BETWEEN_LINES = 5.0  # seconds, where stderr is no terminal
_last = 0.0


def start():
    """On, unless FIRESTEEL_PROGRESS=0."""
    quiet = os.environ.get("FIRESTEEL_PROGRESS") == "0"
    _C._set_progress_listener(None if quiet else show)


def show(made, asked, seconds):
    global _last
    left = seconds / made * (asked - made)
    text = f"firesteel: compiling kernels, {made} of {asked}, {seconds:.0f} s so far, about {left:.0f} s left"
    if sys.stderr is None:
        return
    if sys.stderr.isatty():
        done = made == asked
        sys.stderr.write(f"\r\x1b[K{'' if done else text}")
        sys.stderr.flush()
    elif seconds - _last >= _BETWEEN_LINES or seconds < _last:
        _last = seconds
        print(text, file=sys.stderr, flush=True)
