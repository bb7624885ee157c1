"""compile() and nonstrict_trace(): the forms a user may write them in, around the native callables."""

import functools
import types

import torch

from . import _C

DEFAULT_BACKEND = "aot_eager"
RECOMPILE_LIMIT = 8


def compile(model=None, *, backend=DEFAULT_BACKEND, fullgraph=False, recompile_limit=RECOMPILE_LIMIT):
    """Compiles a function, method or module: `@compile`, `@compile(backend=...)`, or `compile(f)`."""
    if model is None:
        return functools.partial(compile, backend=backend, fullgraph=fullgraph, recompile_limit=recompile_limit)
    if not callable(model):
        raise TypeError(f"compile() needs a function, method or module, not {model!r}")
    if not isinstance(backend, str):
        raise TypeError(f"compile(backend=...) needs a name, not {backend!r}")
    if isinstance(model, torch.nn.Module):
        return CompiledModule(model, backend, fullgraph, recompile_limit)
    if isinstance(model, _C.CompiledFunction):
        return model
    function = model
    if not isinstance(model, (types.FunctionType, types.MethodType)):

        def function(*args, **kwargs):
            return model(*args, **kwargs)

    compiled = _C._compile_function(function, backend, bool(fullgraph), recompile_limit)
    functools.update_wrapper(compiled, model)
    return compiled


def nonstrict_trace(traceable_fn):
    """Marks a function so that a capture takes a call of it as one operation and does not look inside."""
    if not callable(traceable_fn):
        raise TypeError(f"nonstrict_trace() needs a function, not {traceable_fn!r}")
    if isinstance(traceable_fn, _C.NonstrictFunction):
        return traceable_fn
    return functools.update_wrapper(_C._nonstrict_function(traceable_fn), traceable_fn)


class CompiledModule:
    """A module whose calls are compiled; everything else is the module's own."""

    __slots__ = ("__weakref__", "_compiled", "_orig_mod")

    def __init__(self, module, backend, fullgraph, recompile_limit):
        object.__setattr__(self, "_orig_mod", module)
        call = _C._compile_function(
            types.MethodType(type(module).__call__, module), backend, bool(fullgraph), recompile_limit
        )
        object.__setattr__(self, "_compiled", call)

    def __call__(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    @property
    def __class__(self):
        return type(self._orig_mod)

    def __getattr__(self, name):
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def train(self, mode=True):
        self._orig_mod.train(mode)
        return self

    def eval(self):
        self._orig_mod.eval()
        return self

    def __dir__(self):
        return [*dir(self._orig_mod), "_orig_mod"]

    def __repr__(self):
        return f"compiled {self._orig_mod!r}"

    def __len__(self):
        return len(self._orig_mod)

    def __iter__(self):
        return iter(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]
