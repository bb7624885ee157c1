"""Results that no loss uses: what is behind them alone has no gradient, as in eager, rather than one of zeros."""

import copy

import pytest
import torch
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 3)

    def forward(self, x):
        hidden = self.body(x).tanh()
        return self.left(hidden), self.right(hidden)


def presence(module):
    return {name: value.grad is not None for name, value in module.named_parameters()}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_head_that_no_loss_uses_has_no_gradient(backend):
    torch.manual_seed(0)
    eager = TwoHeads()
    ours = copy.deepcopy(eager)
    compiled = firesteel.compile(ours, backend=backend, fullgraph=True, wait=backend == "firesteel")
    firesteel.reset_counters()
    for losses in ([0], [1], [0, 1], [0]):  # one graph serves all
        x = torch.randn(5, 4)
        for model, module in ((eager, eager), (compiled, ours)):
            module.zero_grad()
            results = model(x)
            sum(results[i].square().sum() for i in losses).backward()
        assert presence(ours) == presence(eager)
        for own, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
            if own.grad is not None:
                torch.testing.assert_close(own.grad, theirs.grad)
    assert firesteel.counters()["captured"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_optimizer_leaves_it_alone(backend):
    """Weight decay and momentum of AdamW would move a parameter with a gradient of zeros."""
    torch.manual_seed(0)
    eager = TwoHeads()
    ours = copy.deepcopy(eager)
    compiled = firesteel.compile(ours, backend=backend, fullgraph=True)
    steps = [torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.5) for module in (eager, ours)]
    for _ in range(20):
        x = torch.randn(5, 4)
        for model, optimizer in zip((eager, compiled), steps, strict=True):
            optimizer.zero_grad()
            model(x)[0].square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(dict(ours.named_parameters()), dict(eager.named_parameters()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_autograd_grad_says_what_eager_says(backend):
    def function(x, y):
        return x * 2, y.sin(), x * y

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    x, y = (torch.randn(3, requires_grad=True) for _ in range(2))
    for place, missing in ((0, [False, True]), (1, [True, False]), (2, [False, False])):
        for called in (function, compiled):
            out = called(x, y)[place].sum()
            found = torch.autograd.grad(out, [x, y], allow_unused=True, retain_graph=True)
            assert [gradient is None for gradient in found] == missing
            if any(missing):
                with pytest.raises(RuntimeError, match="appears to not have been used"):
                    torch.autograd.grad(out, [x, y])


class Terms(nn.Module):
    """A shared value with terms of many kinds behind it; the first result overflows."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x, y):
        h = x + y
        wide = (h * 500).exp()
        return wide, h, self.norm(h), self.out(h.t().contiguous().t()), torch.cat([h, -h], 1)[:, 3:11]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_missing_adds_nothing(backend):
    """Zeros in the place of a missing gradient would make NaN of what overflowed."""
    torch.manual_seed(0)
    eager = Terms()
    ours = copy.deepcopy(eager)
    compiled = firesteel.compile(ours, backend=backend, fullgraph=True, wait=backend == "firesteel")
    for used in ([2], [2, 3], [1], [3, 4], [4], [1, 2, 3, 4], [2], [3]):  # more than are kept, and one again
        x, y = torch.rand(6, 8) + 1, torch.rand(6, 8)
        gradients = []
        for model, module in ((eager, eager), (compiled, ours)):
            module.zero_grad()
            inputs = [x.clone().requires_grad_(), y.clone().requires_grad_()]
            results = model(*inputs)
            torch.manual_seed(1)
            torch.autograd.backward([results[i] for i in used], [torch.randn(results[i].shape) for i in used])
            gradients.append([tensor.grad for tensor in [*inputs, *module.parameters()]])
        for own, theirs in zip(*gradients[::-1], strict=True):
            assert (own is None) == (theirs is None)
            if own is not None:
                torch.testing.assert_close(own, theirs)


def test_a_missing_gradient_costs_nothing():
    def normed(x, y, weight):
        h = x + y
        return nn.functional.layer_norm(h, (64,), weight), h

    args = [torch.randn(32, 64, requires_grad=True), torch.randn(32, 64, requires_grad=True), torch.ones(64)]
    compiled = firesteel.compile(normed, wait=True)
    ran = []
    for used in ([0, 1], [0]):
        results = compiled(*args)
        firesteel.reset_native_counters()
        torch.autograd.grad([results[i] for i in used], args[:2], [torch.ones(32, 64)] * len(used))
        counters = firesteel.native_counters()
        ran.append((counters["native_ops"], counters["aten_ops"]))
    assert ran == [(2, 0), (1, 0)]  # the norm's gradient, and a sum where both came back


def test_a_result_is_read_again_rather_than_computed():
    def summed(x, y):
        h = x + y
        return nn.functional.layer_norm(h, (64,)), h

    x, y = torch.randn(32, 64, requires_grad=True), torch.randn(32, 64, requires_grad=True)
    traced = firesteel.trace(summed, x, y, grad=True)
    assert "aten.add" in str(traced.forward)
    assert "(%x" not in str(traced.backward).split("backward:")[1]
