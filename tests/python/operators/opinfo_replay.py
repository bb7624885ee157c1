"""Runs PyTorch's operator database through trace and replay: recorded on one set of values, compared on fresh ones."""

import collections
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import firesteel

SAMPLES = 3

Outcome = collections.namedtuple("Outcome", "op kind status detail")  # kind: forward | gradient; status: equal | reason


def float32_operators():
    return [op for op in op_db if torch.float32 in op.dtypes]


def operator_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def is_uninitialised(op):
    return op.name.startswith(("empty", "new_empty")) or op.name in {"empty_like", "empty_strided", "new_empty_strided"}


def samples(op, requires_grad):
    torch.manual_seed(0)
    found = []
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=requires_grad):
        found.append(sample)
        if len(found) == SAMPLES:
            break
    return found


def fresh(sample_args, seed):
    """The same structure with other values: floats are permuted (so they stay in the operator's domain), the rest kept."""
    generator = torch.Generator().manual_seed(seed)
    copies = {}

    def other(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in copies:
            return copies[id(leaf)]
        with torch.no_grad():
            copy = leaf.detach().clone(memory_format=torch.preserve_format)
            if leaf.layout == torch.strided and leaf.is_floating_point() and leaf.numel() > 1:
                flat = leaf.detach().reshape(-1)
                copy.copy_(flat[torch.randperm(flat.numel(), generator=generator)].reshape(leaf.shape))
                if copy.stride() != leaf.stride() and 0 not in leaf.stride():
                    copy = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).copy_(copy)
                elif copy.stride() != leaf.stride():
                    copy = leaf.detach().clone(memory_format=torch.preserve_format)
        copy.requires_grad_(leaf.requires_grad)
        copies[id(leaf)] = copy
        return copy

    return pytree.tree_map(other, sample_args)


def same(a, b, tolerance=None):
    leaves_a, spec_a = pytree.tree_flatten(a)
    leaves_b, spec_b = pytree.tree_flatten(b)
    if len(leaves_a) != len(leaves_b):
        return f"{len(leaves_a)} results instead of {len(leaves_b)}"
    for x, y in zip(leaves_a, leaves_b):
        if not isinstance(y, torch.Tensor):
            if x != y and not (x != x and y != y):
                return f"{x!r} instead of {y!r}"
            continue
        if x.dtype != y.dtype or x.shape != y.shape or x.layout != y.layout:
            return f"{x.dtype}{list(x.shape)} instead of {y.dtype}{list(y.shape)}"
        if x.layout == torch.strided and x.numel() > 0 and x.stride() != y.stride():
            if any(s > 1 and p != q for s, p, q in zip(y.shape, x.stride(), y.stride())):
                return f"strides {x.stride()} instead of {y.stride()}"
        if tolerance is None:
            equal = torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) if x.is_floating_point() else torch.equal(x, y)
            if not equal and not torch.allclose(x, y, rtol=1e-6, atol=1e-6, equal_nan=True):
                return "values differ"
        elif not torch.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
            return "values differ"
    return ""


def with_seed(function):
    torch.manual_seed(7)
    return function()


def replay_forward(op, sample):
    args = (sample.input, *sample.args)
    graph = with_seed(lambda: firesteel.trace(op.op, *args, **sample.kwargs))
    other_args, other_kwargs = fresh((args, sample.kwargs), 1), None
    other_args, other_kwargs = other_args
    eager_args, eager_kwargs = fresh((other_args, other_kwargs), 2)  # the same permutation for both sides
    replay_args, replay_kwargs = fresh((other_args, other_kwargs), 2)
    expected = with_seed(lambda: op.op(*eager_args, **eager_kwargs))
    actual = with_seed(lambda: graph(*replay_args, **replay_kwargs))
    if is_uninitialised(op):
        strip = lambda tree: pytree.tree_map(lambda t: torch.zeros_like(t) if isinstance(t, torch.Tensor) else t, tree)  # noqa: E731
        expected, actual = strip(expected), strip(actual)
    return same(actual, expected) or same((replay_args, replay_kwargs), (eager_args, eager_kwargs))


def differentiable(result):
    return [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]


def gradients(function, args, kwargs):
    result = with_seed(lambda: function(*args, **kwargs))
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = differentiable(result)
    if not outputs or not leaves:
        return None
    generator = torch.Generator().manual_seed(3)
    tangents = [torch.randn(o.shape, dtype=o.dtype, generator=generator) for o in outputs]
    return result, with_seed(lambda: torch.autograd.grad(outputs, leaves, tangents, allow_unused=True))


def replay_gradient(op, sample):
    args = (sample.input, *sample.args)
    other_args, other_kwargs = fresh((args, sample.kwargs), 1)
    expected = gradients(op.op, *fresh((other_args, other_kwargs), 2))
    if expected is None:
        return None
    graph = with_seed(lambda: firesteel.trace(op.op, *args, grad=True, **sample.kwargs))
    actual = gradients(graph, *fresh((other_args, other_kwargs), 2))
    if actual is None:
        return "no gradient"
    pairs = [(a, e) for a, e in zip(actual[1], expected[1])]
    for a, e in pairs:
        if (a is None) != (e is None):
            # A gradient that is all zeros may be given as none, and the other way round.
            given = a if a is not None else e
            if given.abs().sum() != 0:
                return "a gradient is missing"
            continue
        if a is not None:
            difference = same(a.contiguous(), e.contiguous(), tolerance=1e-5)
            if difference:
                return difference
    return ""


def check(op, kind):
    """An Outcome: `equal`, or why not."""
    replay = replay_forward if kind == "forward" else replay_gradient
    name = operator_name(op)
    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(op, requires_grad=kind == "gradient"):
            try:
                difference = replay(op, sample)
            except firesteel.DataDependentError as error:
                return Outcome(name, kind, "data-dependent", str(error).splitlines()[0])
            except Exception as error:  # noqa: BLE001: every failure is an outcome to report
                return Outcome(name, kind, type(error).__name__, str(error).strip()[:300])
            if difference is None:
                continue
            if difference:
                return Outcome(name, kind, "differs", difference)
            checked += 1
    return Outcome(name, kind, "equal" if checked else "nothing to check", "")
