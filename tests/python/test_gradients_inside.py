"""torch.autograd.grad inside compiled functions is captured."""

import pytest
import torch
from against_eager import tensors_in
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
MODEL = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
CALLS = 3


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def of_an_input(x):
    y = (x * x).sum()
    (gradient,) = torch.autograd.grad(y, x)
    return gradient * 2


def with_the_loss(x):
    loss = MODEL(x).square().mean()
    gradients = torch.autograd.grad(loss, list(MODEL.parameters()))
    return loss.detach(), gradients


def penalty(x):
    (gradient,) = torch.autograd.grad(MODEL(x).sum(), x, create_graph=True)
    return (gradient.norm(dim=1) - 1).square().mean()


def of_what_was_made_inside(x):
    y = x * 2
    z = y.sin().sum()
    return torch.autograd.grad(z, y, retain_graph=True)[0] + torch.autograd.grad([z], [x])[0]


def given_gradients(x):
    y = x * x
    return torch.autograd.grad(outputs=y, inputs=x, grad_outputs=torch.ones_like(y) * 3)[0]


def unused(x):
    weight = torch.ones(4, requires_grad=True)
    y = (x * 2).sum()
    return torch.autograd.grad(y, [x, weight], allow_unused=True), torch.autograd.grad(
        (x * 3).sum(), [weight], allow_unused=True, materialize_grads=True
    )


def a_step(x):
    loss = MODEL(x).square().mean()
    gradients = torch.autograd.grad(loss, tuple(MODEL.parameters()))
    return [p.detach() - 0.1 * g for p, g in zip(MODEL.parameters(), gradients, strict=True)]


def outcome(function):
    MODEL.zero_grad()
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    result = function(x)
    for t in tensors_in(result):
        if t.requires_grad and not t.is_leaf:
            t.sum().backward(retain_graph=True)
    kinds = [(t.requires_grad, t.is_leaf) for t in tensors_in(result)]
    return tensors_in(result), kinds, [x.grad, *(p.grad for p in MODEL.parameters())]


def check(program, compiled):
    expected, got = outcome(program), outcome(compiled)
    assert expected[1] == got[1]
    torch.testing.assert_close(got[0], expected[0])
    for a, b in zip(got[2], expected[2], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [of_an_input, with_the_loss, penalty, of_what_was_made_inside, given_gradients, unused, a_step],
    ids=lambda program: program.__name__,
)
def test_gradients_are_captured(program, backend):
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for _ in range(CALLS):
        check(program, compiled)
    assert firesteel.counters()["captured"] == 1
    assert firesteel.counters()["hits"] == CALLS


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_are_seen(backend):
    def program(x):
        return torch.autograd.grad((x * x).sum(), x)[0] + 1

    compiled = firesteel.compile(program, backend=backend)
    x = torch.ones(3, requires_grad=True)
    assert torch.equal(compiled(x), program(x))
    handle = x.register_hook(lambda gradient: gradient * 10)
    assert torch.equal(compiled(x), program(x))
    assert compiled(x)[0] == 21
    handle.remove()
    assert torch.equal(compiled(x), program(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_history_from_before_the_call(backend):
    def program(x, h):
        return torch.autograd.grad((h * 3).sum(), x, allow_unused=True)[0]

    compiled = firesteel.compile(program, backend=backend)
    for _ in range(CALLS):
        x = torch.ones(3, requires_grad=True)
        assert torch.equal(compiled(x, x * 2), torch.full((3,), 6.0))
    assert firesteel.counters()["fallbacks"] == {}
    assert set(firesteel.counters()["breaks"]) == {"FS-AUTOGRAD"}
    with pytest.raises(firesteel.GraphBreakError, match="computed before the call"):
        firesteel.compile(program, backend=backend, fullgraph=True)(x, x * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_are_eagers(backend):
    def program(x):
        return torch.autograd.grad((x * 2).sum(), torch.ones(2, requires_grad=True))

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        firesteel.compile(program, backend=backend)(x)


def test_functional_call_is_captured():
    weights = {"0.weight": torch.ones(8, 4), "2.bias": torch.zeros(1)}

    def program(x):
        return torch.func.functional_call(MODEL, weights, (x * 2,)) + 1

    compiled = firesteel.compile(program, backend="aot_eager", fullgraph=True)
    for _ in range(CALLS):
        x = torch.linspace(-1, 1, 12).reshape(3, 4)
        torch.testing.assert_close(compiled(x), program(x))
    assert firesteel.counters()["captured"] == 1
