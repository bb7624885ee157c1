"""Where the largest and smallest are, in native kernels: NaN, ties, types and layouts as in eager."""

import pytest
import torch

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.argmax(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

FUNCTIONS = [torch.argmax, torch.argmin, torch.max, torch.min]


def check(function, x, native_ops):
    traced = firesteel.trace(function, torch.zeros_like(x), native=True)
    firesteel.reset_native_counters()
    got = traced(x)
    counts = firesteel.native_counters()
    assert (counts["native_ops"], counts["aten_ops"]) == (native_ops, 0)
    wanted = function(x)
    got, wanted = ([r] if isinstance(r, torch.Tensor) else list(r) for r in (got, wanted))
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
        assert ours.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_along_a_dimension(function, dim, dtype):
    x = torch.randint(0, 9, (7, 37, 19)).to(dtype)  # many ties
    check(lambda x: function(x, dim), x, 1)
    check(lambda x: function(x, dim, keepdim=True), x, 1)
    check(lambda x: function(x, dim), x.permute(2, 0, 1), 1)


@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_bools(function):
    check(lambda x: function(x, 1), torch.rand(7, 37) > 0.7, 1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nan_comes_first(function):
    x = torch.randn(5, 70)
    x[0, 31] = x[0, 40] = x[1, 0] = x[2, 69] = float("nan")
    x[3, 20], x[3, 60], x[4] = float("inf"), float("inf"), float("-inf")
    check(lambda x: function(x, 1), x, 1)
    check(lambda x: function(x.t(), 0), x, 1)


@pytest.mark.parametrize("function", [torch.argmax, torch.argmin])
def test_of_all_elements(function):
    x = torch.randint(-50, 50, (13, 37)).float()
    check(function, x, 1)
    check(function, x.t(), 1)


def test_with_what_computes_the_row():
    x = torch.randn(33, 129)
    check(lambda x: (x.sin() * 2).argmax(-1), x, 3)
    check(lambda x: (x * 2).max(-1), x, 2)
