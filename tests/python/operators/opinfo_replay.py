"""Runs PyTorch's operator database through trace and replay: recorded on one set of values, compared on fresh ones."""

import collections
import itertools
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import set_rng_seed
from torch.utils import _pytree as pytree

import firesteel

SAMPLES = 3

Outcome = collections.namedtuple("Outcome", "op kind status detail")  # kind: forward | gradient; status: equal | reason


def float32_operators():
    return [op for op in op_db if torch.float32 in op.dtypes]


def operators_of(dtype, kind):
    """Those that take that type on the CPU, and are differentiated in it where gradients are asked for."""
    if kind == "gradient":
        return [op for op in op_db if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")]
    return [op for op in op_db if dtype in op.dtypes]


def operator_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def is_uninitialised(op):
    return op.name.startswith(("empty", "new_empty")) or op.name in {"empty_like", "empty_strided", "new_empty_strided"}


def samples(op, dtype, requires_grad, seed, limit):
    """The database's samples with values drawn from that seed.

    Its own `sample_inputs` seeds anew before each sample, so that all seeds would give the same values, and it walks
    the whole Python stack every time.
    """
    set_rng_seed(seed)
    return list(itertools.islice(op.sample_inputs_func(op, "cpu", dtype, requires_grad), limit))


def call_of(sample):
    return (sample.input, *sample.args), sample.kwargs


def alike(a, b):
    """Two calls of the same structure: they may differ in the values of their tensors only."""
    leaves_a, spec_a = pytree.tree_flatten(a)
    leaves_b, spec_b = pytree.tree_flatten(b)
    if spec_a != spec_b:
        return False
    for x, y in zip(leaves_a, leaves_b, strict=False):
        if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
            return False
        if not isinstance(x, torch.Tensor):
            if type(x) is not type(y) or (x != y and type(x).__eq__ is not object.__eq__):
                return False
        elif x.shape != y.shape or x.dtype != y.dtype or (x.layout == torch.strided and x.stride() != y.stride()):
            return False
    return True


def with_constants_of(call, traced):
    """The call with the traced one's constants: an object made anew (a module) would be another constant."""
    leaves, spec = pytree.tree_flatten(call)
    constants = pytree.tree_leaves(traced)
    given = [x if isinstance(x, torch.Tensor) or x == c else c for x, c in zip(leaves, constants, strict=False)]
    if len(leaves) != len(constants) or all(x is y for x, y in zip(given, leaves, strict=False)):
        return call
    return pytree.tree_unflatten(given, spec)


def meaningful_strides(tensor):
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def same(a, b, tolerance=None):
    leaves_a, _spec_a = pytree.tree_flatten(a)
    leaves_b, _spec_b = pytree.tree_flatten(b)
    if len(leaves_a) != len(leaves_b):
        return f"{len(leaves_a)} results instead of {len(leaves_b)}"
    for x, y in zip(leaves_a, leaves_b, strict=False):
        if not isinstance(y, torch.Tensor):
            if x != y and not (x != x and y != y):
                return f"{x!r} instead of {y!r}"
            continue
        if x.dtype != y.dtype or x.shape != y.shape or x.layout != y.layout:
            return f"{x.dtype}{list(x.shape)} instead of {y.dtype}{list(y.shape)}"
        if x.layout == torch.strided and x.numel() > 0 and meaningful_strides(x) != meaningful_strides(y):
            return f"strides {x.stride()} instead of {y.stride()}"
        if x.layout != torch.strided:
            x, y = x.to_dense(), y.to_dense()
        if x.dtype == torch.complex32:
            x, y = x.to(torch.complex64), y.to(torch.complex64)
        if tolerance is None:
            equal = (
                torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) if x.is_floating_point() else torch.equal(x, y)
            )
            if not equal and not torch.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True):
                return "values differ"
        elif not torch.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
            return "values differ"
    return ""


def with_seed(function):
    torch.manual_seed(7)
    return function()


def replay_forward(op, traced, eager, replayed):
    graph = firesteel.trace(op.op, *traced[0], **traced[1])
    expected = with_seed(lambda: op.op(*eager[0], **eager[1]))
    args, kwargs = with_constants_of(replayed, traced)
    actual = with_seed(lambda: graph(*args, **kwargs))
    if is_uninitialised(op):
        expected, actual = without_values(expected), without_values(actual)
    return same(actual, expected) or same(only_tensors(replayed), only_tensors(eager))


def only_tensors(call):
    return [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]


def without_values(result):
    return pytree.tree_map(lambda t: torch.zeros_like(t) if isinstance(t, torch.Tensor) else t, result)


def differentiable(result):
    return [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]


def gradients(function, process, args, kwargs):
    result = process(with_seed(lambda: function(*args, **kwargs)))
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = differentiable(result)
    if not outputs or not leaves:
        return None
    generator = torch.Generator().manual_seed(3)
    tangents = [torch.randn(o.shape, dtype=o.dtype, generator=generator) for o in outputs]
    return result, with_seed(lambda: torch.autograd.grad(outputs, leaves, tangents, allow_unused=True))


def replay_gradient(op, traced, eager, replayed, process):
    expected = gradients(op.op, process, *eager)
    if expected is None:
        return None
    graph = firesteel.trace(op.op, *traced[0], grad=True, **traced[1])
    actual = gradients(graph, process, *with_constants_of(replayed, traced))
    if actual is None:
        return "no gradient"
    for a, e in zip(actual[1], expected[1], strict=True):
        if (a is None) != (e is None):
            # A gradient that is all zeros may be given as none, and the other way round.
            given = a if a is not None else e
            if given.abs().sum() != 0:
                return "a gradient is missing"
            continue
        if a is not None:
            difference = same(a.contiguous(), e.contiguous(), tolerance=2e-2 if a.dtype == torch.bfloat16 else 1e-5)
            if difference:
                return difference
    return ""


def replay(op, kind, dtype, limit):
    """For each sample: why its replay differs from eager, "" where it does not, None where there is nothing to see."""
    grad = kind == "gradient"
    # The last three lists have the same values: operators may write to their arguments, so each run needs its own.
    others, *lists = (samples(op, dtype, grad, seed, limit) for seed in (0, 1, 1, 1))
    for index, same_values in enumerate(zip(*lists, strict=True)):
        traced, eager, replayed = (call_of(sample) for sample in same_values)
        if index < len(others) and alike(call_of(others[index]), eager):
            traced = call_of(others[index])  # else shapes or constants are random too, and the values stay the same
        if grad:
            process = same_values[1].output_process_fn_grad or (lambda result: result)
            yield replay_gradient(op, traced, eager, replayed, process)
        else:
            yield replay_forward(op, traced, eager, replayed)


def check(op, kind, dtype=torch.float32, limit=SAMPLES):
    """An Outcome: `equal`, or why not."""
    name = operator_name(op)
    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for difference in replay(op, kind, dtype, limit):
                if difference:
                    return Outcome(name, kind, "differs", difference)
                checked += difference is not None
        except firesteel.DataDependentError as error:
            return Outcome(name, kind, "data-dependent", str(error).splitlines()[0])
        except Exception as error:  # every failure is an outcome to report
            return Outcome(name, kind, type(error).__name__, str(error).strip()[:300])
    return Outcome(name, kind, "equal" if checked else "nothing to check", "")
