"""The user-facing names of torch._dynamo as Firesteel serves them; loaded after torch._dynamo itself."""

import functools
import operator
import traceback

import torch
import torch._dynamo
import torch._dynamo.eval_frame
from torch._dynamo import comptime, decorators
from torch._library import opaque_object

import firesteel

from .. import _value_types
from . import cache_entries, callers, dropin, guard_failures, guard_filters, optimized_modules, torch_names
from .torch_names import misuse_as_pytorch_says

_reset_code = torch._dynamo.reset_code  # in C: its name is exchanged, not its code


class Optimizer:
    """What torch._dynamo.optimize() gives: a decorator, which is no context manager any more."""

    def __init__(self, apply):
        self._apply = apply

    def __call__(self, model):
        return self._apply(model)

    def __enter__(self):
        raise RuntimeError("torch._dynamo.optimize(…) is given to `with`: it decorates functions, torch.compile() does")

    def __exit__(self, *error):
        pass


def optimize(
    backend="inductor",
    *,
    nopython=False,
    disable=False,
    dynamic=None,
    guard_export_fn=None,
    guard_fail_fn=None,
    **more,
):
    """The older form of torch.compile: a decorator. `guard_export_fn` is shown the guards of all that is compiled,
    `guard_fail_fn` is told which one has failed, and its code."""
    if callers.is_pytorch():
        return dropin.original(torch._dynamo.optimize)(
            backend,
            nopython=nopython,
            disable=disable,
            dynamic=dynamic,
            guard_export_fn=guard_export_fn,
            guard_fail_fn=guard_fail_fn,
            **more,
        )
    shown = {"guard_filter": guard_filters.exporting(guard_export_fn)} if guard_export_fn else {}
    apply = functools.partial(
        torch_names.compile, backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic, **shown
    )
    return Optimizer(guard_failures.telling(guard_fail_fn, apply) if guard_fail_fn else apply)


def optimize_assert(backend, **more):
    if callers.is_pytorch():
        return dropin.original(torch._dynamo.optimize_assert)(backend, **more)
    return optimize(backend, nopython=True)


def disallow_in_graph(fn):
    return misuse_as_pytorch_says(firesteel.disallow_in_graph)(fn)


def skip(fn=None):
    return firesteel.disable(fn, recursive=False)


def leaf_function(fn=None, *, mutates_args=None):
    """A function that no compiler looks into: it runs at every call, and what stands in for it is traced."""
    if fn is None:
        return functools.partial(leaf_function, mutates_args=mutates_args)
    leaf = dropin.original(decorators.leaf_function)(fn, mutates_args=mutates_args)
    register = leaf.register_fake

    def register_fake(fake_fn):
        firesteel._C._set_mark(leaf, "Leaf", fake_fn)
        return register(fake_fn)

    def missing(*args, **kwargs):
        raise ValueError(
            f"leaf_function '{leaf.__name__}' requires a fake implementation: @{leaf.__name__}.register_fake"
        )

    firesteel._C._set_mark(leaf, "Leaf", missing)
    leaf.register_fake = register_fake
    return leaf


def register_opaque_type(cls, *, typ, **more):
    """Objects of a value type are constants to functions that are not looked into."""
    dropin.original(opaque_object.register_opaque_type)(cls, typ=typ, **more)
    if typ == "value" and isinstance(cls, type):
        _value_types.add(cls)


def mark_static(t, index=None):
    return dropin.original(decorators.mark_static)(t, index)


def _settle_sizes(t, index=None):
    """mark_static() in compiled code: one graph a size."""
    if isinstance(t, torch.Tensor):
        for dim in range(t.dim()) if index is None else [index] if isinstance(index, int) else index:
            {t.shape[dim]: dim}  # a key is one certain number


mark_static.inside = _settle_sizes


class AsItIs:
    """For decorators and context managers that ask for what Firesteel does anyway."""

    def __new__(cls, fn=None):
        return super().__new__(cls) if fn is None else fn

    def __call__(self, fn):
        return fn

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def patch_dynamo_config(*args, **kwargs):
    """Settings for a while. What they change of PyTorch's tracing has no place in a capture of ours."""
    return dropin.original(decorators.patch_dynamo_config)(*args, **kwargs)


patch_dynamo_config.inside = lambda *args, **kwargs: AsItIs()


def enter_patch(patch):
    return dropin.original(decorators.DynamoConfigPatchProxy.__enter__)(patch)


def leave_patch(patch, *exception):
    return dropin.original(decorators.DynamoConfigPatchProxy.__exit__)(patch, *exception)


enter_patch.inside = leave_patch.inside = lambda *args: None


def reset_code(code):
    """Forgets what was compiled of a function, and of all others: they are compiled again at their next calls."""
    firesteel.reset()
    _reset_code(code)


def register_backend(compiler_fn=None, name=None, tags=()):
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not getattr(compiler_fn, "__module__", "").startswith("torch."):  # its own register as they are loaded
        firesteel.register_backend(compiler_fn, name, tags)
    return dropin.original(torch._dynamo.register_backend)(compiler_fn, name, tags)


def explain(f, *extra_args, **extra_kwargs):
    """torch._dynamo.explain: what PyTorch's users read of it, from Firesteel's capture."""
    from torch._dynamo.backends.debugging import ExplainOutput
    from torch._dynamo.output_graph import GraphCompileReason

    def inner(*args, **kwargs):
        graphs = []

        def keep(module, examples):
            graphs.append(module)
            return module.forward

        found = firesteel.explain(f, backend=keep)(*args, **kwargs)
        ops = [[n.target for n in g.graph.nodes if n.op.startswith("call") and n.target is not operator.getitem]
               for g in graphs]  # fmt: skip
        reasons = [GraphCompileReason(b.message, [traceback.FrameSummary(b.file, b.line, "")]) for b in found.breaks]
        return ExplainOutput(
            graphs, len(graphs), max(len(graphs) - 1, 0), reasons, sum(map(len, ops)), ops, list(found.guards), ""
        )

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


def routes():
    """Module, name, ours."""
    dynamo, eval_frame = torch._dynamo, torch._dynamo.eval_frame
    functions = {
        "optimize": optimize,
        "optimize_assert": optimize_assert,
        "explain": explain,
        "reset": torch_names.reset,
        "reset_code": reset_code,
        "run": misuse_as_pytorch_says(firesteel.run),
        "disable": torch_names.disable,
        "allow_in_graph": torch_names.allow_in_graph,
        "disallow_in_graph": disallow_in_graph,
        "forbid_in_graph": misuse_as_pytorch_says(firesteel.forbid_in_graph),
        "nonstrict_trace": misuse_as_pytorch_says(firesteel.nonstrict_trace),
        "assume_constant_result": misuse_as_pytorch_says(firesteel.assume_constant_result),
        "substitute_in_graph": torch_names.substitute_in_graph,
        "graph_break": firesteel.graph_break,
        "step_unsupported": firesteel.skip_frame,
        "skip_frame": firesteel.skip_frame,
        "error_on_graph_break": firesteel.error_on_graph_break,
        "set_stance": firesteel.set_stance,
        "dont_skip_tracing": AsItIs,
        "disable_nested_graph_breaks": AsItIs,
        "list_backends": torch_names.list_backends,
        "register_backend": register_backend,
        "OptimizedModule": optimized_modules.OptimizedModule,
    }
    for name, ours in functions.items():
        yield dynamo, name, ours
    yield comptime._Comptime, "graph_break", firesteel.graph_break
    yield decorators, "set_stance", firesteel.set_stance
    yield decorators, "skip", skip
    yield decorators, "patch_dynamo_config", patch_dynamo_config
    yield decorators.DynamoConfigPatchProxy, "__enter__", enter_patch
    yield decorators.DynamoConfigPatchProxy, "__exit__", leave_patch
    yield decorators, "mark_static", mark_static
    yield decorators, "leaf_function", leaf_function
    yield opaque_object, "register_opaque_type", register_opaque_type
    yield eval_frame, "_debug_get_cache_entry_list", cache_entries.entries
    yield eval_frame, "OptimizedModule", optimized_modules.OptimizedModule
