"""compile(): the forms a user may write it in, around the native callable."""

import copyreg
import dataclasses
import functools
import types

import torch

from . import _C, _backends
from ._compiled_module import CompiledModule, is_compiled_module

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# What compile(options=...) may hold for a built-in backend.
OPTIONS = ("freeze",)


@dataclasses.dataclass(frozen=True)
class Options:
    """All that compile() may be told, checked."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: object = None
    mode: str | None = None
    options: dict | None = None
    name: str | None = None
    recompile_limit: int | None = None
    isolate_recompiles: bool = False
    shapes_spec: object = None
    wait: bool = False
    guard_filter: object = None  # gets the guards of a piece, says which of them are kept
    notes_recompiles: bool = False  # for explain()

    def __post_init__(self):
        for field in ("fullgraph", "isolate_recompiles", "wait"):
            if not isinstance(getattr(self, field), bool):
                raise TypeError(f"compile({field}=...) is True or False, not {getattr(self, field)!r}")
        if not (self.dynamic is None or isinstance(self.dynamic, bool)):
            raise TypeError(f"compile(dynamic=...) is True, False or None, not {self.dynamic!r}")
        if not (self.name is None or isinstance(self.name, str)):
            raise TypeError(f"compile(name=...) is text or None, not {self.name!r}")
        self._check_limit()
        if self.shapes_spec is not None:
            if self.dynamic is not None:
                raise ValueError("compile() takes dynamic or shapes_spec, not both: each says which sizes are open")
            from .interop import shapes_spec  # loads much of PyTorch

            object.__setattr__(self, "shapes_spec", shapes_spec.checked(self.shapes_spec))
        object.__setattr__(self, "backend", _backends.get_default_backend() if self.backend is None else self.backend)
        self._check_mode_and_options(_backends.resolve(self.backend))

    def _check_limit(self):
        limit = self.recompile_limit
        if limit is None:
            return
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise TypeError(f"compile(recompile_limit=...) is a number or None, not {limit!r}")
        if limit < 1:
            raise ValueError(f"compile(recompile_limit=...) is at least 1, not {limit}")

    def _check_mode_and_options(self, backend):
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"there is no mode {self.mode!r}; those there are: {', '.join(map(repr, MODES))}")
        if self.options is None:
            return
        if not isinstance(self.options, dict):
            raise TypeError(f"compile(options=...) is a dict, not {self.options!r}")
        if self.mode is not None:
            raise ValueError("compile() takes mode or options, not both: a mode stands for a set of options")
        unknown = [key for key in self.options if key not in OPTIONS]
        if isinstance(backend, str) and unknown:
            known = ", ".join(map(repr, OPTIONS))
            raise ValueError(f'the backend "{self.backend}" has no option {unknown[0]!r}; those there are: {known}')
        if isinstance(backend, str):
            self._check_freeze(backend)

    def _check_freeze(self, backend):
        freeze = self.options.get("freeze", False)
        if not isinstance(freeze, bool):
            raise TypeError(f'compile(options={{"freeze": ...}}) is True or False, not {freeze!r}')
        if freeze and backend != "firesteel":
            raise ValueError(f'compile(options={{"freeze": True}}) is for native code, not for the backend "{backend}"')

    def native(self, function):
        """The compiled function for a Python function or a method."""
        backend = _backends.native(self.backend, self.mode, self.options)
        limit = self.recompile_limit or 0  # the usual one
        spec = None
        if self.shapes_spec is not None:
            from .interop import shapes_spec

            spec = shapes_spec.places(self.shapes_spec, *_described_by_parameters(function))
        freeze = isinstance(backend, str) and bool(self.options and self.options.get("freeze"))
        # explain() shows what a function takes by itself, a shapes_spec speaks of this one, and weights are its own.
        isolated = self.isolate_recompiles or self.notes_recompiles or spec is not None or freeze
        isolated = isolated or self.guard_filter is not None
        return _C._compile_function(
            function,
            backend,
            self.fullgraph,
            limit,
            self.notes_recompiles,
            self.wait,
            isolated,
            self.dynamic,
            spec,
            freeze,
            self.guard_filter,
        )


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    name=None,
    disable=False,
    recompile_limit=None,
    isolate_recompiles=False,
    shapes_spec=None,
    wait=False,
    guard_filter=None,
):
    """Compiles a function, method or module: `@compile`, `@compile(backend=...)`, or `compile(f)`.

    fullgraph: a graph break is an error. backend: a name of list_backends(), or a function `(graph_module,
    example_inputs) -> callable`. disable: gives `model` back as it is. recompile_limit: how often one piece of code is
    compiled before it runs eagerly. name: what explain() calls it. wait: the first call waits for native code, where
    ATen runs the calls otherwise until another thread has compiled it. isolate_recompiles: does not share what it
    compiles with other compiled functions of the same code, as layers of a model are. dynamic: None leaves a size open
    in the graph once it has changed, True every size from the first call on, False none. shapes_spec: names the
    sizes to leave open instead, in the terms of torch.fx.experimental.dynamic_spec. guard_filter: is shown the
    guards of each piece, and says which are kept. mode is checked, and has no effect yet.
    options={"freeze": True} prepares weights once for calls without gradients (native code; see docs/native.md). A
    backend that is a function gets mode and options as keywords.
    """
    asked = Options(
        fullgraph, dynamic, backend, mode, options, name, recompile_limit, isolate_recompiles, shapes_spec, wait,
        guard_filter,
    )  # fmt: skip
    if not isinstance(disable, bool):
        raise TypeError(f"compile(disable=...) is True or False, not {disable!r}")
    apply = _unchanged if disable else functools.partial(compile_with, asked)
    return apply if model is None else apply(model)


def compile_module_(module, **options):
    """Compiles a module in place: its calls run compiled from now on. Takes compile()'s options; gives the module.

    As `nn.Module.compile` does it: the module keeps its class and its names, and copies and pickles of it are plain.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"compile_module_() needs a module, not {module!r}")
    module = module._orig_mod if is_compiled_module(module) else module
    compiled = compile(module._call_impl, **options)
    module._compiled_call_impl = None if options.get("disable") else compiled
    return module


def compile_with(options, model):
    """The compiled form of whatever compile() may be given."""
    if isinstance(model, type):
        raise TypeError(
            f"compile() needs a function, method or module, not the class {model.__qualname__}; "
            "compile an object of it, or decorate its methods"
        )
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(compile_with(options, model.__func__))
    if not callable(model):
        raise TypeError(f"compile() needs a function, method or module, not {model!r}")
    if isinstance(model, torch.nn.Module):
        return CompiledModule.of(model, options)
    if _C._function_mark(model) in ("Disabled", "Skipped"):  # asked for by name, it is compiled after all
        model = model._callable
    if isinstance(model, _C.CompiledFunction):
        model = model.__dict__.get("__wrapped__", model._callable)
    compiled = options.native(model if _is_python(model) else _forwarder(model))
    functools.update_wrapper(compiled, model)
    compiled._options = options
    return compiled


def _described_by_parameters(function):
    """The function whose parameters a shapes_spec names, and whether it is a module's forward."""
    module = getattr(function, "__self__", None)
    return (module.forward, True) if isinstance(module, torch.nn.Module) else (function, False)


def _unchanged(model):
    return model


def _is_python(model):
    return isinstance(getattr(model, "__func__", model) if isinstance(model, types.MethodType) else model,
                      types.FunctionType)  # fmt: skip


def _forwarder(model):
    """A Python function around a partial, a builtin or any other callable."""

    def call(*args, **kwargs):
        return model(*args, **kwargs)

    return call


def _reduce(compiled):
    """A compiled function is copied and pickled as functions are; a compiled method goes with its object."""
    if isinstance(compiled._callable, types.MethodType):
        return compile_with, (compiled._options, compiled._callable)
    return compiled.__qualname__


copyreg.pickle(_C.CompiledFunction, _reduce)
