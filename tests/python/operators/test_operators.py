"""Every operator of PyTorch's own database, float32 on the CPU: traced on one set of values, replayed on another."""

import pytest
from gaps import FORWARD, GRADIENT
from opinfo_replay import check, float32_operators, operator_name

OPERATORS = float32_operators()
DIFFERENTIABLE = [op for op in OPERATORS if op.supports_autograd]


@pytest.mark.parametrize("op", OPERATORS, ids=operator_name)
def test_forward(op):
    expect(check(op, "forward"), FORWARD)


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=operator_name)
def test_gradient(op):
    expect(check(op, "gradient"), GRADIENT)


def expect(outcome, gaps):
    """Equal to eager; or, for an operator listed as a gap, stopped in just the way the list says."""
    if outcome.op in gaps:
        assert outcome.status == gaps[outcome.op].status, f"no longer {gaps[outcome.op].status}: {outcome}"
    else:
        assert outcome.status in ("equal", "nothing to check"), outcome


def test_enough_operators_work():
    forward = [op for op in OPERATORS if operator_name(op) not in FORWARD]
    gradient = [op for op in DIFFERENTIABLE if operator_name(op) not in GRADIENT]
    assert len(forward) >= 640
    assert len(gradient) >= 0.95 * len(DIFFERENTIABLE)
