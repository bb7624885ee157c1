"""Compiled modules in training, nonstrict functions, and the modes of torch around them."""

import pytest
import torch
import torch.nn.functional as F
from against_eager import BACKENDS, same
from torch import nn

import firesteel


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()
    torch.manual_seed(0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def inputs():
    return torch.randn(3, 8), torch.randn(3, 8, requires_grad=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.rest = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.0))
        self.heads = nn.ModuleList([nn.Linear(16, 4) for _ in range(2)])
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x):
        x = self.norm(F.relu(self.first(x)))
        x = x + self.rest(x)
        return sum_of([head(x) for head in self.heads]) + self.offset


def sum_of(tensors):
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def train(model, step, seed=1):
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        x, target = torch.randn(5, 8), torch.randn(5, 4)
        loss = F.mse_loss(step(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_module_trains_like_eager(backend):
    torch.manual_seed(0)
    model, twin = Block(), Block()
    twin.load_state_dict(model.state_dict())
    compiled = firesteel.compile(twin, backend=backend, fullgraph=True)
    assert train(model, model) == train(twin, compiled)
    assert firesteel.counters() == {"captured": 1, "hits": 20, "misses": 1, "breaks": {}, "fallbacks": {}}
    assert isinstance(compiled, Block)
    assert compiled.state_dict().keys() == model.state_dict().keys()
    assert compiled.eval() is compiled
    assert not twin.training


@firesteel.nonstrict_trace
def traced(x):
    return (x * 2).tanh()


def test_nonstrict_function_in_training(backend):
    def function(x):
        return x.sin() + traced(x)

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(5, requires_grad=True)
        (expected,) = torch.autograd.grad(function(x).sum(), x)
        y = compiled(x)
        y.sum().backward()
        assert torch.equal(y, function(x))
        assert torch.equal(x.grad, expected)
    assert firesteel.counters() == {"captured": 1, "hits": 3, "misses": 1, "breaks": {}, "fallbacks": {}}
    assert "traced(%x)" in firesteel._C._entries(compiled)[0]["graph"]
    x = torch.randn(6)
    assert torch.equal(compiled(x), function(x))
    assert firesteel.counters()["captured"] == 2


def test_nonstrict_arguments(backend):
    @firesteel.nonstrict_trace
    def body(pair, options, module, *, power=2):
        x, y = pair
        # Generators and try: nothing that the interpreter would have to know.
        total = sum(t for t in (x, y))
        try:
            {}["missing"]
        except KeyError:
            total = module(total) * options["scale"]
        return {"total": total**power, "list": [x, 3]}

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x, y, scale):
            return body((x, y), {"scale": scale}, self.inner, power=3)

    model = Holder()
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    for scale in (2.0, 2.0, 4.0):
        x, y = inputs()
        assert same(model(x, y, scale), compiled(x, y, scale))
    assert firesteel.counters()["captured"] == 2
    x, y = inputs()
    model.inner.weight = nn.Parameter(torch.randn(8, 8))
    assert same(model(x, y, 4.0), compiled(x, y, 4.0))
    compiled(x, y, 4.0)["total"].sum().backward()
    assert model.inner.weight.grad is not None


def test_nonstrict_function_that_changes_its_list_is_a_break(backend):
    @firesteel.nonstrict_trace
    def grow(items):
        items.append(items[0] * 2)
        return items[0] + 1

    def function(x):
        items = [x]
        return grow(items), len(items)

    compiled = firesteel.compile(function, backend=backend)
    for call in range(1, 4):
        x = torch.randn(3)
        assert same(compiled(x), (x + 1, 2))
        assert firesteel.counters()["breaks"] == {"FS-NONSTRICT-MUTATION": call}
    assert firesteel.counters()["fallbacks"] == {}


def test_random_operators_follow_the_generator(backend):
    def function(x):
        return F.dropout(x, 0.5) + torch.rand(3, 8)

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for seed in (1, 2):
        x = torch.randn(3, 8)
        torch.manual_seed(seed)
        expected = function(x)
        torch.manual_seed(seed)
        assert torch.equal(compiled(x), expected)


def test_grad_mode_and_inference_mode(backend):
    model = nn.Linear(4, 4)
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(2, 4)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert compiled(x).is_inference()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16
    assert compiled(x).requires_grad
    assert firesteel.counters()["captured"] == 4
    assert firesteel.counters()["fallbacks"] == {}


def test_under_detect_anomaly(backend):
    def steps(function, values):
        x = torch.tensor(values, requires_grad=True)
        function(x).sum().backward()
        return x.grad

    def roots(x):
        return (x * 0).sqrt() * x.exp()

    compiled = firesteel.compile(roots, backend=backend, fullgraph=True)
    sines = firesteel.compile(torch.sin, backend=backend, fullgraph=True)
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        watching = torch.autograd.detect_anomaly()
    with watching:
        torch.testing.assert_close(steps(sines, [0.5, 1.0]), steps(torch.sin, [0.5, 1.0]))
        for function in roots, compiled, compiled:
            with pytest.raises(RuntimeError, match="nan"):
                steps(function, [0.5, 1.0])
    assert firesteel.counters()["fallbacks"] == {}
