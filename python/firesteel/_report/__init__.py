"""report(): one self-contained HTML file that shows what was captured, why it broke, and what it cost."""

import atexit
import contextlib
import gc
import os
import sys

from .. import _files
from . import gather, page

VARIABLE = "FIRESTEEL_REPORT"

_recorder = None
_at_exit = {}  # path -> the process that shall write it


def report(path, *, title=None):
    """Writes a report of all that is compiled, and of all that was recorded, into one HTML file; gives its path.

    What is compiled at this moment is always in it. `FIRESTEEL_REPORT=out.html` and `python -m firesteel --report
    out.html script.py` record from the start and write at the end, so that functions that are gone by then, and
    code that never could be compiled, are told of as well.
    """
    path = _files.path_of(path, "report()")
    with _no_collection():
        _files.write(path, page.html(gather.facts(_recorder), title or _title()))
    return path


@contextlib.contextmanager
def _no_collection():
    """A report makes thousands of small objects and no garbage, and a collection goes through all of torch's: it would
    take twice as long as the report itself."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def record(path):
    """Records from now on, and writes the report when the program ends. `%p` in the path is the process's number."""
    global _recorder
    if _recorder is None:
        _recorder = gather.Recorder()
        _recorder.start()
        atexit.register(_write_at_exit)
    _at_exit[os.path.abspath(os.fspath(path))] = os.getpid()


def from_environment():
    """What FIRESTEEL_REPORT asks for, when the package is loaded."""
    path = os.environ.get(VARIABLE, "").strip()
    if path:
        record(path)


def _write_at_exit():
    for path, process in _at_exit.items():
        if process != os.getpid() or _recorder.is_empty():
            continue
        try:
            print(f"firesteel: the report is in {report(path)}", file=sys.stderr)
        except Exception as error:  # the program itself went well
            print(f"firesteel: the report could not be written to {path}: {error}", file=sys.stderr)


def _title():
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else "Python"
