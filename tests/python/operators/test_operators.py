"""Every operator of PyTorch's own database on the CPU: traced on one set of values, replayed on another."""

import os

import pytest
import torch
from gaps import FORWARD, GRADIENT, MORE
from opinfo_replay import check, float32_operators, operator_name, operators_of

OPERATORS = float32_operators()
DIFFERENTIABLE = [op for op in OPERATORS if op.supports_autograd]
FULL = os.environ.get("FIRESTEEL_FULL") == "1"
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64, torch.bool]


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


@pytest.mark.skipif(not FULL, reason="all samples: only with FIRESTEEL_FULL=1")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_forward_of_all_samples(dtype):
    check_all_samples("forward", dtype, FORWARD)


@pytest.mark.skipif(not FULL, reason="all samples: only with FIRESTEEL_FULL=1")
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_floating_point or d.is_complex], ids=str)
def test_gradient_of_all_samples(dtype):
    check_all_samples("gradient", dtype, GRADIENT)


def check_all_samples(kind, dtype, gaps):
    gaps = {**gaps, **MORE}
    outcomes = [check(op, kind, dtype, limit=None) for op in operators_of(dtype, kind)]
    unexpected = [
        outcome
        for outcome in outcomes
        if outcome.status not in ("equal", "nothing to check")
        and not (outcome.op in gaps and outcome.status == gaps[outcome.op].status)
    ]
    assert unexpected == []


def test_enough_operators_work():
    forward = [op for op in OPERATORS if operator_name(op) not in FORWARD]
    gradient = [op for op in DIFFERENTIABLE if operator_name(op) not in GRADIENT]
    assert len(forward) >= 640
    assert len(gradient) >= 0.95 * len(DIFFERENTIABLE)
