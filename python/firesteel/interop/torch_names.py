"""torch.compile and torch.compiler as Firesteel serves them."""

import collections
import functools
import sys
import types
import weakref

import torch

import firesteel

from .. import _backends, _branches
from . import callers, dropin, dynamo_config, exceptions, guard_failures, guard_filters, inductor_settings, torch_logs


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    disable=False,
    recompile_limit=None,
    **more,
):
    """torch.compile, by Firesteel: PyTorch's backends are found under their own names, its options are accepted."""
    if callers.is_pytorch() or callers.is_backward(model):
        return callers.compile(model, backend, fullgraph, dynamic, mode, options, disable)
    asked = backend, fullgraph, dynamic, mode, options, disable
    options, guard_filter = guard_filters.taken_from(options)
    if guard_filter:
        more["guard_filter"] = guard_filter
    if backend is None:
        backend = _backends.get_default_backend() if _backends.is_default_set() else "inductor"
    backend = known_backend(backend)
    if isinstance(backend, str) and _backends.resolve(backend) in firesteel._C._backends():
        inductor_settings.check(mode, options)
        mode = options = None
    dynamo_config.refuse_contradiction()
    if dynamic is None:
        dynamic = dynamo_config.dynamic()
    _follow_arrays()
    apply = firesteel.compile(
        fullgraph=bool(fullgraph),
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        disable=bool(disable) or dynamo_config.is_disabled() or _is_of_disabled_class(model),
        recompile_limit=recompile_limit,
        **more,
    )
    if model is not None:
        return apply_to(apply, model)
    return lambda model: callers.compile(model, *asked) if callers.is_backward(model) else apply_to(apply, model)


def compile_inside(model=None, **options):
    """torch.compile in code that is compiled itself: what it would compile is followed anyway."""
    return (lambda function: function) if model is None else model


compile.inside = compile_inside


_disabled_classes = weakref.WeakSet()


def _is_of_disabled_class(model):
    return isinstance(model, torch.nn.Module) and any(kind in _disabled_classes for kind in type(model).__mro__)


def _follow_arrays():
    """Arrays of numpy are followed once a program has both loaded numpy and compiled something."""
    if "numpy" in sys.modules and dynamo_config.value("trace_numpy", True):
        from . import arrays

        arrays.follow_arrays()


# PyTorch keeps what it has compiled with a function's code, so that `torch.compile(f)(x)` may be written in a loop.
# Here it goes with the compiled function: the last ones stay, where that keeps nothing else alive.
_recent = collections.deque(maxlen=64)


def apply_to(apply, model):
    """PyTorch takes a class as well: calls of its objects are compiled. The class is changed, and given back."""
    if isinstance(model, type) and isinstance(model.__call__, types.FunctionType):
        model.__call__ = apply(model.__call__)
        return model
    compiled = apply(model)
    if isinstance(compiled, firesteel._C.CompiledFunction):  # what PyTorch's own tools look for
        compiled._torchdynamo_orig_callable = compiled._torchdynamo_inline = model
        compiled._torchdynamo_wrapper_id = id(compiled)
    if isinstance(model, types.FunctionType) and not model.__closure__ and not model.__defaults__:
        _recent.append(compiled)
    return compiled


def known_backend(backend):
    """A backend's name as Firesteel has it; PyTorch's error where there is none."""
    if not isinstance(backend, str):
        return backend
    for name in (backend, f"torch:{backend}"):
        try:
            _backends.resolve(name)
        except ValueError as error:
            missing = str(error)
        else:
            return name
    raise exceptions.also(ValueError, "InvalidBackend")(missing)


def misuse_as_pytorch_says(function):
    """The same function; its errors also are of the types that PyTorch raises for them."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            raise exceptions.MisuseError(str(error)) from None
        except firesteel.ControlError as error:
            raise exceptions.twin("ControlError")(str(error)) from None

    return call


def allow_in_graph(fn):
    """A torch.autograd.Function is one call of the graph as it is: then nobody looks into its methods, either."""
    if callers.is_pytorch():
        return dropin.original(sys.modules["torch._dynamo"].allow_in_graph)(fn)
    if isinstance(fn, type) and issubclass(fn, torch.autograd.Function):
        firesteel._C._set_mark(fn, "Allowed")
        return fn
    return misuse_as_pytorch_says(firesteel.allow_in_graph)(fn)


def substitute_in_graph(original_fn, **options):
    """What PyTorch's own tools look for is left on what a program calls from then on."""
    register = firesteel.substitute_in_graph(original_fn, **options)

    def wrapper(traceable_fn):
        wrapped = register(traceable_fn)
        wrapped.__torch_dynamo_original__ = original_fn
        wrapped.__torch_dynamo_polyfill__ = traceable_fn
        wrapped.__torch_dynamo_can_constant_fold_through__ = options.get("can_constant_fold_through", False)
        return wrapped

    return wrapper


def disable(fn=None, recursive=True, *, reason=None, wrapping=True):
    if callers.is_pytorch():
        return dropin.original(sys.modules["torch._dynamo"].disable)(fn, recursive, reason=reason, wrapping=wrapping)
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    disabled = misuse_as_pytorch_says(firesteel.disable)(fn, recursive, reason=reason)
    if isinstance(fn, type):
        _disabled_classes.add(fn)
    if isinstance(disabled, firesteel._C.MarkedFunction):  # what PyTorch's own tools look for
        disabled._torchdynamo_disable = True
        disabled._torchdynamo_disable_msg = reason
        disabled._torchdynamo_disable_recursive = recursive
        disabled._torchdynamo_orig_callable = disabled._callable
        disabled._torchdynamo_wrapper_id = id(disabled)
    return disabled


def is_compiling():
    return firesteel.is_compiling() or dropin.original(torch.compiler.is_compiling)()


def is_dynamo_compiling():
    return firesteel.is_dynamo_compiling() or dropin.original(torch.compiler.is_dynamo_compiling)()


def cond(pred, true_fn, false_fn, operands=()):
    if node := _branches.nested(_branches.Choice, true_fn, false_fn):
        return node(pred, operands, ())
    return dropin.original(torch.cond)(pred, true_fn, false_fn, operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    if node := _branches.nested(_branches.Loop, cond_fn, body_fn):
        return node(carried_inputs, ())
    return dropin.original(torch.while_loop)(cond_fn, body_fn, carried_inputs)


def symbolic_trace(root, concrete_args=None):
    """torch.fx's: of a compiled function it cannot make a graph."""
    if isinstance(root, firesteel._C.CompiledFunction):
        dynamo_config.refuse_fx(is_tracing=True)
    return dropin.original(torch.fx.symbolic_trace)(root, concrete_args)


# Capture has rules of its own for these.
is_compiling.keeps_rule = is_dynamo_compiling.keeps_rule = cond.keeps_rule = while_loop.keeps_rule = True
cond.is_followed_by_pytorch = while_loop.is_followed_by_pytorch = True


def reset():
    _recent.clear()
    guard_failures.forget()
    firesteel.reset()
    if "torch._dynamo" in sys.modules:
        dropin.original(sys.modules["torch._dynamo"].reset)()


def list_backends(exclude_tags=("debug", "experimental")):
    import torch._dynamo

    asked = dropin.original(torch._dynamo.list_backends)
    theirs, all_of_theirs = asked(exclude_tags), asked(())
    return sorted({*theirs, *firesteel.list_backends(exclude_tags)} - ({*all_of_theirs} - {*theirs}))


def early_routes():
    """Module, name, ours: what `import torch` has loaded."""
    yield "torch", "compile", compile
    yield "torch", "cond", cond
    yield "torch", "while_loop", while_loop
    yield "torch._logging._internal", "_init_logs", torch_logs.init_logs
    yield "torch.fx._symbolic_trace", "symbolic_trace", symbolic_trace
    controls = {
        "compile": compile,
        "reset": reset,
        "disable": disable,
        "is_compiling": is_compiling,
        "is_dynamo_compiling": is_dynamo_compiling,
        "list_backends": list_backends,
        "set_stance": firesteel.set_stance,
        "set_default_backend": lambda backend: firesteel.set_default_backend(backend and known_backend(backend)),
        "get_default_backend": lambda: _backends.get_default_backend() if _backends.is_default_set() else "inductor",
        "substitute_in_graph": substitute_in_graph,
        "allow_in_graph": allow_in_graph,
        "assume_constant_result": misuse_as_pytorch_says(firesteel.assume_constant_result),
    }
    for name, ours in controls.items():
        yield "torch.compiler", name, ours
    if not hasattr(torch.compiler, "nonstrict_trace"):
        torch.compiler.nonstrict_trace = misuse_as_pytorch_says(firesteel.nonstrict_trace)
        dropin._changes.append(lambda: delattr(torch.compiler, "nonstrict_trace"))
