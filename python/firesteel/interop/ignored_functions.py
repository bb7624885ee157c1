"""torch._dynamo.config.ignore_logging_functions: calls of these do nothing in compiled code, and break no graph."""

from .. import _C

_ignored = []


def follow(functions):
    """From now on calls of these functions, and of these methods whoever has them, are left out; of others not."""
    wanted = [getattr(function, "__func__", function) for function in functions]
    if _same(wanted, _ignored):
        return
    for function in _ignored:
        _C._set_mark(function, "None")
    for function in wanted:
        _C._set_mark(function, "Substituted", _nothing)
    _ignored[:] = wanted


def _same(some, others):
    return len(some) == len(others) and all(any(one is other for other in others) for one in some)


def _nothing(*args, **kwargs):
    return None
