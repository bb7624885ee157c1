"""Random programs: traced on one set of values, replayed on another, compared with eager in all that a caller sees."""

import itertools
import os

import pytest
import torch
from aten_programs import make_inputs, programs
from hypothesis import HealthCheck, given, note, settings

import firesteel

FULL = os.environ.get("FIRESTEEL_FULL") == "1"
EXAMPLES = 20_000 if FULL else 800
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}

# What is refused with a clear error, by us or by PyTorch's functionalization.
REFUSALS = (
    "changes both the data and the shape of a tensor",
    "changes the shape of a tensor that shares the memory of another one",
    "writes a value that needs a gradient to one of two tensors that share memory",
    "being mutated that has internal overlap",
    "as_strided() is non-compositional",
)

# The same programs every time, but new ones in the long run.
random_programs = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=not FULL, suppress_health_check=list(HealthCheck), print_blob=True
)


def run(function, program, seed):
    """What a caller sees of one call: results, inputs afterwards, the generator's state, memory shared, gradients."""
    leaves, arguments = make_inputs(program.inputs, seed)
    torch.manual_seed(seed)
    results = function(*arguments)
    state = torch.get_rng_state()
    values = [*results, *arguments]
    shared = {
        (i, j)
        for i, j in itertools.combinations(range(len(values)), 2)
        if values[i].numel() and values[i].untyped_storage().data_ptr() == values[j].untyped_storage().data_ptr()
    }
    seen = [value.detach().clone() for value in values]
    # Of requires_grad eager makes no sense for views made under no_grad: it is true, and there is no history.
    needs_grad = [value.grad_fn is not None for value in values]
    return seen, needs_grad, state, shared, gradients(values, leaves)


def gradients(values, leaves):
    outputs = [value for value in values if value.grad_fn is not None]
    if not outputs or not leaves:
        return []
    generator = torch.Generator().manual_seed(3)
    tangents = [torch.randn(o.shape, dtype=o.dtype, generator=generator) for o in outputs]
    return torch.autograd.grad(outputs, leaves, tangents, allow_unused=True)


def close(actual, expected, dtype):
    tolerance = TOLERANCE[dtype] if expected.dtype.is_floating_point else 0
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(program):
    function = program.function()
    dtype = program.inputs[0].dtype
    grad = any(one.kind in ("leaf", "inner") for one in program.inputs)
    try:
        expected, needs_grad, state, shared, expected_gradients = run(function, program, seed=2)
    except RuntimeError:
        return  # eager itself cannot differentiate this one: what its backward needs has been written to
    try:
        graph = firesteel.trace(function, *make_inputs(program.inputs, seed=1)[1], grad=grad)
    except (firesteel.MutationError, RuntimeError) as error:
        if any(refusal in str(error) for refusal in REFUSALS):
            return
        raise
    note(str(graph))
    actual, needs_grad_too, state_too, shared_too, actual_gradients = run(graph, program, seed=2)
    for a, e in zip(actual, expected, strict=True):
        assert meaningful(a) == meaningful(e), f"strides {a.stride()} instead of {e.stride()}"
        close(a, e, dtype)
    assert needs_grad_too == needs_grad
    assert torch.equal(state_too, state), "the generator did not advance as eager's does"
    assert shared_too == shared, "memory is shared otherwise than in eager"
    for a, e in zip(actual_gradients, expected_gradients, strict=True):
        if a is None or e is None:  # a gradient of zeros may be given as none
            assert all(one is None or not one.any() for one in (a, e))
        else:
            close(a, e, dtype)
    assert str(firesteel.parse_graph(str(graph))) == str(graph)


def meaningful(tensor):
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


@pytest.mark.filterwarnings("ignore:Tensor.mT is deprecated")
@random_programs
@given(programs())
def test_replay_equals_eager(program):
    check(program)
