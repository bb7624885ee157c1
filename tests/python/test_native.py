"""Native kernels from Python: results and gradients against eager, with counters that say what ran where."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import firesteel

PROBE = firesteel.trace(lambda x: x.sin() + 1, torch.ones(4), native=True)
firesteel.reset_native_counters()
PROBE(torch.ones(4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")


def counted(function, *args):
    """The result, and what running it did."""
    firesteel.reset_native_counters()
    result = function(*args)
    return result, firesteel.native_counters()


def close(got, wanted):
    torch.testing.assert_close(got, wanted, equal_nan=True)
    assert got.stride() == wanted.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(), (1,), (8,), (1003,), (3, 0), (17, 31), (4, 5, 6)])
def test_a_chain_is_one_kernel(shape, dtype):
    def f(x, y):
        return (x.sin() + y.cos()) * x

    x, y = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    traced = firesteel.trace(f, x, y, native=True)
    got, counts = counted(traced, x, y)
    close(got, f(x, y))
    assert (counts["native_ops"], counts["aten_ops"], counts["kernels_run"]) == (4, 0, 1)


def test_off_by_default():
    x = torch.randn(8)
    _, counts = counted(firesteel.trace(lambda x: x.sin() + 1, x), x)
    assert (counts["native_ops"], counts["aten_ops"]) == (0, 2)


def test_the_switch_is_a_bool():
    with pytest.raises(TypeError, match="native"):
        firesteel.trace(torch.sin, torch.ones(2), native="yes")


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_and_bias(approximate):
    def f(x, bias):
        return F.gelu(x + bias, approximate=approximate)

    x, bias = torch.randn(33, 257), torch.randn(257)
    got, counts = counted(firesteel.trace(f, x, bias, native=True), x, bias)
    close(got, f(x, bias))
    assert (counts["native_ops"], counts["aten_ops"]) == (2, 0)


def test_transposed_and_expanded_inputs():
    def f(x, y, z):
        return (x.t() * y).relu() + z

    x, y, z = torch.randn(7, 9), torch.randn(9, 1), torch.randn(7).expand(9, 7)
    got, counts = counted(firesteel.trace(f, x, y, z, native=True), x, y, z)
    close(got, f(x, y, z))
    assert (counts["native_ops"], counts["aten_ops"], counts["kernels_run"]) == (3, 0, 1)


def test_masks_and_mixed_types():
    def f(x, i):
        keep = (x > 0) & (i != 3)
        return torch.where(keep, x * i, -1.0), keep.to(torch.float64) / 2

    x, i = torch.randn(5, 13), torch.randint(0, 5, (5, 13))
    got, counts = counted(firesteel.trace(f, x, i, native=True), x, i)
    for ours, theirs in zip(got, f(x, i), strict=True):
        close(ours, theirs)
    assert counts["aten_ops"] == 0


def test_results_that_are_views_and_written_inputs():
    def f(x, y):
        a = x * 2 + y
        y.add_(a)
        return a, a.t(), a.view(-1)

    x, y, again = torch.randn(4, 6), torch.randn(4, 6), None
    traced = firesteel.trace(f, x, y.clone(), native=True)
    again = y.clone()
    wanted, got = f(x, y), traced(x, again)
    for ours, theirs in zip(got, wanted, strict=True):
        close(ours, theirs)
    close(again, y)
    assert got[1].data_ptr() == got[0].data_ptr() == got[2].data_ptr()


class Mlp(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(20, 37), nn.Linear(37, 37), nn.Linear(37, 5)
        self.activation = activation

    def forward(self, x):
        h = self.activation(self.first(x)) * 0.7 + 0.1
        h = self.activation(self.second(h)) + h
        return torch.sigmoid(self.last(h))


@pytest.mark.parametrize("activation", [F.gelu, F.relu, torch.tanh, F.silu, torch.sigmoid], ids=lambda f: f.__name__)
def test_training_a_small_mlp(activation):
    torch.manual_seed(0)
    ours, theirs = Mlp(activation), Mlp(activation)
    theirs.load_state_dict(ours.state_dict())
    x, y = torch.randn(19, 20), torch.rand(19, 5)
    traced = firesteel.trace(lambda x, y: ((ours(x) - y) ** 2).mean(), x, y, grad=True, native=True)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (ours, theirs)]
    for _ in range(5):
        firesteel.reset_native_counters()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss, wanted = traced(x, y), ((theirs(x) - y) ** 2).mean()
        forward = firesteel.native_counters()
        assert forward["native_ops"] >= 5
        loss.backward()
        assert firesteel.native_counters()["native_ops"] >= forward["native_ops"] + 5  # the backward's kernels
        wanted.backward()
        close(loss, wanted)
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad)
        for optimizer in optimizers:
            optimizer.step()


def test_a_native_function_inside_a_trace_is_recorded():
    inner = firesteel.trace(lambda x: x.sin() * 2, torch.ones(5), native=True)
    outer = firesteel.trace(lambda x: inner(x) + 1, torch.ones(5), native=True)
    x = torch.randn(5)
    got, counts = counted(outer, x)
    close(got, x.sin() * 2 + 1)
    assert (counts["native_ops"], counts["aten_ops"]) == (3, 0)


def test_equal_kernels_are_shared():
    def f(x):
        for _ in range(3):
            x = (x * 1.25 + 0.5).flip(0)
        return x

    firesteel.reset_native_counters()
    x = torch.randn(6, 11)
    traced = firesteel.trace(f, x, native=True)
    counts = firesteel.native_counters()
    assert (counts["kernels_compiled"], counts["kernels_shared"]) == (1, 2)
    close(traced(x), f(x))


@pytest.mark.parametrize("target", ["sse", "avx2", "avx512"])
def test_every_target(target):
    program = """
        import torch, firesteel
        f = lambda x, y: torch.tanh(x.exp() + y).to(torch.bfloat16) * 0.3
        x, y = torch.randn(5, 77), torch.randn(77)
        torch.testing.assert_close(firesteel.trace(f, x, y, native=True)(x, y), f(x, y))
        print(firesteel.native_counters()["native_ops"])
    """
    lines = "\n".join(line.strip() for line in program.splitlines())
    environment = {**os.environ, "FIRESTEEL_CPU": target}
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "5"), done.stderr


def test_a_group_that_grew_is_not_depended_on_in_a_circle():
    def program(a, b):
        grows = a + 1
        early = grows.cumsum(1).cumsum(0)  # ends before `late` begins, and yet comes to depend on it
        late = b.cumsum(0).exp()
        return grows * late, late * early[:, :1] + 2

    a, b = torch.randn(4, 6), torch.randn(4, 1)
    graph = firesteel.trace(program, torch.randn(4, 6), torch.randn(4, 1), native=True)
    torch.testing.assert_close(graph(a, b), program(a, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.sin, torch.tanh, torch.erf, torch.neg])
def test_minus_zero_keeps_its_sign(function, dtype):
    x = torch.tensor([-0.0, 0.0] * 20, dtype=dtype)
    got, counts = counted(firesteel.trace(lambda x: function(x * 1.5), x, native=True), x)
    assert torch.equal(got.signbit(), function(x).signbit())
    assert (counts["native_ops"], counts["aten_ops"]) == (2, 0)
