"""Tells whoever waits for a compilation for longer than two seconds how far it is: a bar, or now and then a line."""

import contextlib
import os
import sys
import threading

from . import _C
from ._wording import plural

_PATIENCE = 2.0  # seconds that a backend of the user's may take unmentioned
_BETWEEN_LINES = 5.0  # seconds, where stderr is no terminal
_lock = threading.RLock()  # a signal's handler may compile, too
_told = None  # the stage and the second of the last line; None: no line yet
_bar = None  # rich's, while it is shown


def is_quiet():
    return os.environ.get("FIRESTEEL_PROGRESS") == "0"


def start():
    """On, unless FIRESTEEL_PROGRESS=0."""
    _C._set_progress_listener(None if is_quiet() else show)
    os.register_at_fork(after_in_child=_begin_anew)


def _begin_anew():
    global _lock, _told, _bar
    _lock, _told, _bar = threading.RLock(), None, None


def show(stage, done, asked, stage_seconds, seconds):
    """Where a compilation stands; `asked` 0: nobody knows how much there is to do. No stage: it has ended."""
    with _lock:
        if not stage:
            _end()
        elif sys.stderr is not None:
            _tell(stage, *_words(done, asked, stage_seconds, seconds), done, asked, seconds)


@contextlib.contextmanager
def waiting_for(what):
    """Around a call that says nothing of itself: a backend's."""
    if is_quiet():
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(what, over), name="firesteel progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(what, over):
    seconds = _PATIENCE
    while not over.wait(_PATIENCE if seconds == _PATIENCE else 1.0):
        show(what, 0, 0, seconds, seconds)
        seconds += 1.0
    if seconds > _PATIENCE:
        show("", 0, 0, 0.0, seconds)


def _words(done, asked, stage_seconds, seconds):
    """What is done, and the time."""
    spent = f"{seconds:.0f} s so far"
    if not asked:
        return plural(done, "operator") if done else "", spent
    left = stage_seconds / done * (asked - done) if done else 0
    return f"{done} of {asked}", spent + (f", about {left:.0f} s left" if done else "")


def _tell(stage, count, time, done, asked, seconds):
    global _told
    text = ", ".join(part for part in (f"firesteel: {stage}", count, time) if part)
    if sys.stderr.isatty():
        if not _draw(stage, count, time, done, asked):
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
    elif _told is None or _told[0] != stage or not 0 <= seconds - _told[1] < _BETWEEN_LINES:
        _told = stage, seconds
        print(text, file=sys.stderr, flush=True)


def _end():
    """The bar goes; the next compilation tells of itself at once."""
    global _bar, _told
    _told = None
    if _bar is not None:
        _bar.stop()
        _bar = None
    elif sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _draw(stage, count, time, done, asked):
    """The bar, which moves to and fro where nobody knows the end; False where rich is not installed."""
    global _bar
    if _bar is None:
        try:
            from rich import console, progress
        except ImportError:
            return False
        columns = (progress.TextColumn("firesteel: {task.description}"), progress.BarColumn(),
                   progress.TextColumn("{task.fields[count]}"), progress.TextColumn("{task.fields[time]}"))  # fmt: skip
        # The program's own streams stay as they are: code that is being captured may look at them.
        _bar = progress.Progress(*columns, console=console.Console(file=sys.stderr), transient=True,
                                 auto_refresh=False, redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        _bar.add_task(stage, total=None, count=count, time=time)
        _bar.start()
    (task,) = _bar.tasks
    task.total = asked or None  # update() takes None for "as it is"
    _bar.update(task.id, description=stage, completed=done, count=count, time=time, refresh=True)
    return True
