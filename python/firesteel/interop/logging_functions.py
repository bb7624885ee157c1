"""torch._dynamo.config.ignore_logging_functions and reorderable_logging_functions: what calls of these do in compiled
code. Those of the former do nothing, those of the latter come when the graph has run; they break no graph."""

from .. import _C


class Functions:
    """Those that a setting names, and methods whoever has them."""

    def __init__(self, *mark):
        self.mark, self.marked = mark, []

    def follow(self, functions):
        wanted = [getattr(function, "__func__", function) for function in functions]
        if _same(wanted, self.marked):
            return
        for function in self.marked:
            _C._set_mark(function, "None")
        for function in wanted:
            _C._set_mark(function, *self.mark)
        self.marked[:] = wanted


def _same(some, others):
    return len(some) == len(others) and all(any(one is other for other in others) for one in some)


def _nothing(*args, **kwargs):
    return None


ignored, late = Functions("Substituted", _nothing), Functions("Late")
