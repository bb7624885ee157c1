"""The controls: what a capture looks into, what it leaves alone, and what it puts in the graph as it is."""

import functools
import inspect
import types

import torch

from . import _C, _backends
from ._compiled_module import CompiledModule

# ---- one function


def nonstrict_trace(traceable_fn):
    """Marks a function so that a capture takes a call of it as one operation and does not look inside.

    Its tensor operations are traced, so the backends `aot_eager` and `firesteel` hold them. Arguments and results are
    tensors, constants, modules (arguments only), registered classes, and containers of these. Outside a compiled
    function it just calls the function.
    """
    if isinstance(traceable_fn, (staticmethod, classmethod)):
        return type(traceable_fn)(nonstrict_trace(traceable_fn.__func__))
    _need_function("nonstrict_trace", traceable_fn)
    if _C._function_mark(traceable_fn) == "Nonstrict":
        return traceable_fn
    return _wrap(traceable_fn, "Nonstrict")


def disable(fn=None, recursive=True, *, reason=None):
    """Leaves a function alone: inside a compiled function a call of it is a graph break, and it runs eagerly.

    `@disable`, `@disable(recursive=False, reason="...")` or `disable(fn)`, for functions, methods, classes (making
    their objects, and calling these) and modules. recursive=False: only the function itself runs eagerly; what it calls
    is compiled again. reason: what errors and explain() say.
    """
    if not isinstance(recursive, bool):
        raise TypeError(f"disable(recursive=...) is True or False, not {recursive!r}")
    if not (reason is None or isinstance(reason, str)):
        raise TypeError(f"disable(reason=...) is text or None, not {reason!r}")
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(disable(fn.__func__, recursive, reason=reason))
    if not callable(fn):
        raise TypeError(f"disable() needs a function, method, class or module, not {fn!r}")
    if isinstance(fn, type):
        _C._set_mark(fn, "Disabled", None, reason or "")
        return fn
    mark = "Disabled" if recursive else "Skipped"
    if isinstance(fn, torch.nn.Module):
        return CompiledModule.disabled(fn, functools.partial(_C._marked_function, mark=mark, reason=reason or ""))
    if isinstance(fn, _C.CompiledFunction):
        fn = fn.__dict__.get("__wrapped__", fn._callable)
    if _C._function_mark(fn) in ("Disabled", "Skipped"):
        fn = fn._callable
    return _wrap(fn, mark, reason or "")


def run(fn=None):
    """A function inside which compiled functions use what is compiled already, and run eagerly where nothing fits."""
    if fn is None:
        return run
    if not callable(fn) or isinstance(fn, type):
        raise TypeError(f"run() needs a function, method or module, not {fn!r}")
    if isinstance(fn, torch.nn.Module):
        return CompiledModule.disabled(fn, functools.partial(_C._marked_function, mark="RunOnly"))
    return _wrap(fn, "RunOnly")


def _wrap(fn, mark, reason=""):
    return functools.update_wrapper(_C._marked_function(fn, mark, reason), fn)


def _need_function(control, fn):
    if isinstance(fn, type):
        raise TypeError(f"{control}() needs a function, not the class {fn.__qualname__}; use it on its methods")
    if not callable(fn):
        raise TypeError(f"{control}() needs a function, not {fn!r}")


# ---- what is said about a callable, by its identity


def allow_in_graph(fn):
    """Puts calls of a function into the graph as they are, without looking inside; AOT traces through it.

    Takes a function or a list of them, and gives it back. Its arguments are tensors and constants, its results tensors
    or nested tuples of them. Also takes back disallow_in_graph().
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    _need_function("allow_in_graph", fn)
    _C._set_mark(fn, "None" if _C._is_torch_function(fn) else "Allowed")
    return fn


def disallow_in_graph(fn):
    """Breaks the graph where code calls an operator of torch (or a list of them): it runs eagerly.

    Holds for all compiled functions, also for those compiled before, until allow_in_graph(). An operator of
    `torch.ops.aten` is met only where code calls it by that name.
    """
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(one) for one in fn]
    _need_function("disallow_in_graph", fn)
    if not _C._is_torch_function(fn) and _C._mark_of(fn) not in ("Allowed", "Disallowed"):
        name = getattr(fn, "__qualname__", repr(fn))
        raise _C.ControlError(
            f"disallow_in_graph() is for operators of torch, and `{name}` is none\n"
            "  try: disable(), which leaves a function alone"
        )
    _C._set_mark(fn, "Disallowed")
    return fn


def forbid_in_graph(fn):
    """Makes it an error to call a function (or one of a list) inside a compiled function."""
    if isinstance(fn, (list, tuple)):
        return [forbid_in_graph(one) for one in fn]
    if not callable(fn):
        raise TypeError(f"forbid_in_graph() needs a function, not {fn!r}")
    _C._set_mark(fn, "Forbidden")
    return fn


def assume_constant_result(fn):
    """Calls a function while capturing, and takes what it gives for a constant: unguarded, the same at every call."""
    _need_function("assume_constant_result", fn)
    _C._set_mark(fn, "Constant")
    return fn


def substitute_in_graph(
    original_fn, *, can_constant_fold_through=False, skip_signature_check=False, is_embedded_type=False
):
    """A decorator: a capture follows the decorated function where code calls `original_fn`, mostly a C function.

    The signatures must agree, unless skip_signature_check. The decorated name calls the original outside a capture.
    can_constant_fold_through is accepted; constants are folded anyway.
    """
    is_class = isinstance(original_fn, type)
    if is_class != bool(is_embedded_type) or not (is_class or _is_function(original_fn)):
        wanted = "a class" if is_embedded_type else "a function"
        raise TypeError(f"substitute_in_graph() needs {wanted}, not {original_fn!r}")

    def register(traceable_fn):
        if not isinstance(traceable_fn, types.FunctionType):
            raise TypeError(f"@substitute_in_graph(...) goes on a Python function, not {traceable_fn!r}")
        if _C._mark_of(original_fn) == "Substituted":
            raise ValueError(f"{original_fn!r} has a substitute already")
        if not skip_signature_check:
            _compare_signatures(original_fn, traceable_fn)
        _C._set_mark(original_fn, "Substituted", traceable_fn)

        @functools.wraps(traceable_fn)
        def original(*args, **kwargs):
            return original_fn(*args, **kwargs)

        return original

    return register


def _is_function(fn):
    return inspect.isroutine(fn) or (callable(fn) and hasattr(fn, "__name__") and not isinstance(fn, type))


def _compare_signatures(original, substitute):
    try:
        theirs = inspect.signature(original)
    except ValueError:  # a C function that does not tell
        return
    ours = inspect.signature(substitute)
    anything = _shape(inspect.signature(lambda *args, **kwargs: None))
    if _shape(theirs) != _shape(ours) and anything not in (_shape(theirs), _shape(ours)):
        raise TypeError(
            f"the signatures differ: {original!r} takes {theirs}, {substitute.__qualname__} takes {ours}\n"
            "  try: the same parameters, or skip_signature_check=True"
        )


def _shape(signature):
    """What two signatures must share: names in order where these may be positions, the others, and the defaults."""
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [p for p in signature.parameters.values() if p.kind not in rest]
    in_order = [p.name for p in named if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    return in_order, {p.name for p in named}, {p.name: p.default for p in named}


# ---- inside a compiled function


def graph_break(msg=""):
    """Breaks the graph here: what comes before and what comes after are compiled, in loops and `with` blocks too."""


def skip_frame(msg=""):
    """Leaves the function that calls this alone: it runs eagerly, and what it calls is compiled."""


class error_on_graph_break:  # noqa: N801 - reads as a function, as PyTorch's does
    """For a stretch of code, makes graph breaks errors, or allows them again: `with`, or a decorator; may nest.

    fullgraph=True stands above it.
    """

    def __init__(self, error_on_graph_break):
        if not isinstance(error_on_graph_break, bool):
            raise TypeError(f"error_on_graph_break() takes True or False, not {error_on_graph_break!r}")
        self.error_on_graph_break = error_on_graph_break
        self._before = []

    def __enter__(self):
        self._before.append(_C._set_break_policy(self.error_on_graph_break))

    def __exit__(self, *exception):
        _C._set_break_policy(self._before.pop())

    def __call__(self, fn):
        if isinstance(fn, (staticmethod, classmethod)):
            return type(fn)(self(fn.__func__))
        _need_function("error_on_graph_break", fn)
        policy = self.error_on_graph_break

        @functools.wraps(fn)
        def in_stretch(*args, **kwargs):
            with error_on_graph_break(policy):
                return fn(*args, **kwargs)

        return in_stretch


# ---- all compiled functions


class set_stance:  # noqa: N801 - reads as a function, as PyTorch's does
    """How all compiled functions behave from now on; as a context manager or a decorator, for a while.

    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile" or
    "aot_eager_then_compile". force_backend: for all functions, whatever they asked for. skip_guard_eval_unsafe is
    accepted, and guards are checked nevertheless: they cost little here.
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        known = _C._stances()
        if not isinstance(stance, str) or stance not in known:
            raise ValueError(f"there is no stance {stance!r}; those there are: {', '.join(map(repr, known))}")
        if not isinstance(skip_guard_eval_unsafe, bool):
            raise TypeError(f"set_stance(skip_guard_eval_unsafe=...) is True or False, not {skip_guard_eval_unsafe!r}")
        if force_backend is not None and stance != "default":
            raise _C.ControlError('set_stance(force_backend=...) goes with the stance "default" only')
        self.stance = stance
        self._backend = None if force_backend is None else _backends.native(force_backend)
        self._before = _C._set_stance(stance, self._backend)

    def __enter__(self):
        _C._set_stance(self.stance, self._backend)

    def __exit__(self, *exception):
        _C._set_stance(*self._before)

    def __call__(self, fn):
        _C._set_stance(*self._before)
        _need_function("set_stance", fn)
        stance, backend = self.stance, self._backend

        @functools.wraps(fn)
        def under_stance(*args, **kwargs):
            before = _C._set_stance(stance, backend)
            try:
                return fn(*args, **kwargs)
            finally:
                _C._set_stance(*before)

        return under_stance


def reset():
    """Forgets all that was compiled: the next call of each compiled function captures it anew."""
    _C._reset()


# ---- classes as arguments and results: one registry, PyTorch's


def register_pytree_node(cls, flatten_fn, unflatten_fn, **keywords):
    """Tells how to take objects of a class apart, and to build them again: as torch.utils._pytree has it."""
    _need_class("register_pytree_node", cls)
    for name, fn in (("flatten_fn", flatten_fn), ("unflatten_fn", unflatten_fn)):
        if not callable(fn):
            raise TypeError(f"register_pytree_node({name}=...) is a function, not {fn!r}")
    torch.utils._pytree.register_pytree_node(cls, flatten_fn, unflatten_fn, **keywords)


def register_dataclass(cls, **keywords):
    """Makes a dataclass's fields the parts of its objects: as torch.utils._pytree has it."""
    _need_class("register_dataclass", cls)
    torch.utils._pytree.register_dataclass(cls, **keywords)


def register_constant(cls):
    """Makes objects of a class constants, compared by their `==`: as torch.utils._pytree has it."""
    _need_class("register_constant", cls)
    if cls in torch.utils._pytree.SUPPORTED_NODES:
        raise ValueError(f"{cls!r} is already registered")
    torch.utils._pytree.register_constant(cls)


def _need_class(control, cls):
    if not isinstance(cls, type):
        raise TypeError(f"{control}() needs a class, not {cls!r}")
