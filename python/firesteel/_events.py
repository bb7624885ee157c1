"""Who is told what compiled functions do besides serving calls. With nobody listening, nothing is told."""

from . import _C

_listeners = []


def add(listener):
    """From now on `listener(kind, facts)` is called at each event: "capture", "recompile", "fallback", "error"."""
    if listener not in _listeners:
        _listeners.append(listener)
    _C._set_event_listener(_tell)


def remove(listener):
    """Undoes add()."""
    if listener in _listeners:
        _listeners.remove(listener)
    if not _listeners:
        _C._set_event_listener(None)


def _tell(kind, facts):
    for listener in tuple(_listeners):
        listener(kind, facts)
