"""What the methods of a torch.autograd.Function read is guarded, what they write is written at every call."""

import pytest
import torch

import firesteel

SETTINGS = {"scale": 2.0}
calls = []
BACKENDS = ["eager", "aot_eager", "firesteel"]
whole = pytest.mark.parametrize("backend", BACKENDS)


class Scaled(torch.autograd.Function):
    shift = 3.0

    @staticmethod
    def forward(ctx, x, power, offset=0.5):
        ctx.save_for_backward(x)
        ctx.power = power
        return x.pow(power) * SETTINGS["scale"] + offset

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * ctx.power * Scaled.shift, None, None


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * SETTINGS["scale"]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = SETTINGS["scale"]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale


class Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        calls.append("forward")
        ctx.place = len(calls)
        return x * ctx.place

    @staticmethod
    def backward(ctx, grad):
        calls.append("backward")
        return grad * ctx.place


class NotedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        calls.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    monkeypatch.setitem(SETTINGS, "scale", 2.0)
    monkeypatch.setattr(Scaled, "shift", 3.0)
    calls.clear()


def step(function, *arguments):
    """The result and the gradient."""
    x = torch.linspace(-1, 2, 5, requires_grad=True)
    result = function(x, *arguments)
    result.sum().backward()
    return result.detach(), x.grad


def same(compiled, function, *arguments):
    for found, expected in zip(step(compiled, *arguments), step(function, *arguments), strict=True):
        torch.testing.assert_close(found, expected)


@whole
def test_what_they_read_is_guarded(backend, monkeypatch):
    def f(x, power):
        return Scaled.apply(x, power).sin()

    compiled = firesteel.compile(f, backend=backend, fullgraph=True)
    same(compiled, f, 2)
    monkeypatch.setitem(SETTINGS, "scale", 5.0)  # the forward's
    same(compiled, f, 2)
    monkeypatch.setattr(Scaled, "shift", 7.0)  # the backward's
    same(compiled, f, 2)
    same(compiled, f, 3)
    monkeypatch.setattr(Scaled.forward, "__defaults__", (1.5,))
    same(compiled, f, 3)


@whole
def test_setup_context_is_followed(backend, monkeypatch):
    def f(x):
        return WithSetup.apply(x) + 1

    compiled = firesteel.compile(f, backend=backend, fullgraph=True)
    same(compiled, f)
    monkeypatch.setitem(SETTINGS, "scale", -1.0)
    same(compiled, f)


@whole
@pytest.mark.parametrize("kind", [Noted, NotedForward])
def test_what_they_write_is_written_at_every_call(backend, kind):
    def f(x):
        return kind.apply(x).sin()

    compiled = firesteel.compile(f, backend=backend)
    found = [step(compiled) for _ in range(3)]
    log = list(calls)
    calls.clear()
    expected = [step(f) for _ in range(3)]
    assert log == calls
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", ["aot_eager", "firesteel"])
@pytest.mark.parametrize("kind", [Noted, NotedForward])
def test_writes_are_part_of_one_graph_of_operators(backend, kind):
    def f(x):
        return kind.apply(x).sin()

    compiled = firesteel.compile(f, backend=backend, fullgraph=True)
    firesteel.reset_counters()
    found = [step(compiled) for _ in range(2)]
    counters = firesteel.counters()
    assert counters["hits"] == 2
    assert not counters["breaks"]
    assert not counters["fallbacks"]
    log = list(calls)
    calls.clear()
    expected = [step(f) for _ in range(2)]
    assert log == calls
    torch.testing.assert_close(found, expected)


def test_a_graph_that_runs_python_again_does_not_write_twice():
    def f(x):
        return NotedForward.apply(x).sin()

    with pytest.raises(firesteel.GraphBreakError, match="forward of `NotedForward`"):
        firesteel.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    assert calls == []
