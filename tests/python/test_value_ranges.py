"""Branches on random numbers that no draw can change are taken at capture; the random stream stays eager's."""

import pytest
import torch
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
CALLS = 3
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


class Layers(nn.Module):
    """As models drop whole layers in training."""

    def __init__(self, layerdrop):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            if self.training:
                probability = torch.rand([])
                if probability < self.layerdrop:
                    continue
            x = nn.functional.dropout(layer(x), 0.3, self.training).tanh()
        return x


def run(model, seed):
    torch.manual_seed(seed)
    x = torch.randn(3, 4, requires_grad=True)
    result = model(x)
    after = torch.rand(2)  # where the generator is now
    return result.detach(), torch.autograd.grad(result.sum(), model.layers[0].weight, allow_unused=True)[0], after


@pytest.mark.parametrize("layerdrop", [0.0, 0, -1.0])
def test_no_layer_is_ever_dropped(layerdrop, backend):
    model = Layers(layerdrop)
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    for seed in range(CALLS):
        torch.testing.assert_close(run(compiled, seed), run(model, seed))
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"]) == (1, CALLS)
    assert counters["breaks"] == counters["fallbacks"] == {}


@pytest.mark.parametrize("layerdrop", [1.0, 2])
def test_all_layers_are_dropped(layerdrop, backend):
    def function(x):
        for _ in range(3):
            if torch.rand(1) < layerdrop:
                continue
            x = x.sin()
        return x * 2

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    x = torch.randn(4)
    for seed in range(CALLS):
        found, expected = [(torch.manual_seed(seed), f(x), torch.rand(2))[1:] for f in (compiled, function)]
        torch.testing.assert_close(found, expected)
    assert firesteel.counters()["captured"] == 1


def test_where_draws_decide_it_breaks(backend):
    model = Layers(0.5)
    with pytest.raises(firesteel.GraphBreakError, match="FS-DATA-DEPENDENT"):
        firesteel.compile(model, backend=backend, fullgraph=True)(torch.randn(3, 4))
    compiled = firesteel.compile(model, backend=backend)
    for seed in range(6):
        torch.testing.assert_close(run(compiled, seed), run(model, seed))
    assert firesteel.counters()["breaks"]["FS-DATA-DEPENDENT"] > 0


def test_another_number_is_noticed(backend):
    model = Layers(0.0)
    compiled = firesteel.compile(model, backend=backend)
    torch.testing.assert_close(run(compiled, 0), run(model, 0))
    model.layerdrop = 0.6
    for seed in range(6):
        torch.testing.assert_close(run(compiled, seed), run(model, seed))
    model.layerdrop = 1.0
    torch.testing.assert_close(run(compiled, 0), run(model, 0))


DECIDED = {
    "less": lambda: torch.rand(()) < 0,
    "less or equal": lambda: torch.rand(1) <= 1,
    "greater": lambda: torch.rand([]) > -0.5,
    "greater or equal": lambda: torch.rand([]) >= 0.0,
    "never one": lambda: torch.rand([]) >= 1.0,
    "equal": lambda: torch.rand([]) == 1,
    "not equal": lambda: torch.rand([]) != -1,
    "like": lambda: torch.rand_like(torch.zeros(1)) < 0,
    "double": lambda: torch.rand(1, dtype=torch.float64) < 1.0,
    "an element": lambda: torch.rand(3)[1] < 0.0,
    "uniform": lambda: torch.empty(1).uniform_(2, 3) > 1.5,
}
OPEN = {
    "inside": lambda: torch.rand([]) < 0.5,
    "above zero": lambda: torch.rand([]) > 0,
    "zero": lambda: torch.rand([]) == 0,
    "too small for its type": lambda: torch.rand([]) > -1e-60,
    "written to": lambda: torch.rand([]).sub_(0.5) < 0,
    "changed": lambda: torch.rand([]) - 0.5 < 0,
    "half": lambda: torch.rand(1, dtype=torch.bfloat16) < 1,
    "upper bound of uniform": lambda: torch.empty(1).uniform_(2, 3) < 3,
    "normal": lambda: torch.randn([]) < 0,
}


@pytest.mark.parametrize("condition", DECIDED.values(), ids=DECIDED)
def test_decided(condition, backend):
    def function(x):
        return x.sin() if condition() else x.cos()

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    x = torch.randn(4)
    for seed in range(CALLS):
        found, expected = [(torch.manual_seed(seed), f(x), torch.rand(2))[1:] for f in (compiled, function)]
        torch.testing.assert_close(found, expected)
    assert firesteel.counters()["breaks"] == {}


@pytest.mark.parametrize("condition", OPEN.values(), ids=OPEN)
def test_not_decided(condition, backend):
    def function(x):
        return x.sin() if condition() else x.cos()

    with pytest.raises(firesteel.GraphBreakError, match="FS-DATA-DEPENDENT"):
        firesteel.compile(function, backend=backend, fullgraph=True)(torch.randn(4))
