"""Tells whoever waits for kernels for longer than two seconds how far it is: a bar, or now and then a line."""

import os
import sys

from . import _C

_BETWEEN_LINES = 5.0  # seconds, where stderr is no terminal
_STAGE = "firesteel: compiling kernels"
_last = 0.0  # when a line was written; 0: not yet
_bar = None  # rich's, while it is shown


def start():
    """On, unless FIRESTEEL_PROGRESS=0."""
    quiet = os.environ.get("FIRESTEEL_PROGRESS") == "0"
    _C._set_progress_listener(None if quiet else show)


def show(made, asked, seconds):
    global _last
    if sys.stderr is None:
        return
    left = f"{seconds:.0f} s so far, about {seconds / made * (asked - made):.0f} s left"
    text = f"{_STAGE}, {made} of {asked}, {left}"
    if sys.stderr.isatty():
        if not _draw(made, asked, left):
            sys.stderr.write(f"\r\x1b[K{'' if made == asked else text}")
            sys.stderr.flush()
    elif not _last or seconds - _last >= _BETWEEN_LINES or seconds < _last:
        _last = seconds
        print(text, file=sys.stderr, flush=True)


def _draw(made, asked, left):
    """The bar, which goes when all is made; False where rich is not installed."""
    global _bar
    if _bar is None:
        try:
            from rich import console, progress
        except ImportError:
            return False
        columns = (progress.TextColumn(_STAGE), progress.BarColumn(), progress.MofNCompleteColumn(),
                   progress.TextColumn("{task.fields[left]}"))  # fmt: skip
        _bar = progress.Progress(*columns, console=console.Console(file=sys.stderr), transient=True, auto_refresh=False)
        _bar.add_task(_STAGE, total=asked, left=left)
        _bar.start()
    _bar.update(_bar.task_ids[0], completed=made, total=asked, left=left, refresh=True)
    if made == asked:
        _bar.stop()
        _bar = None
    return True
