"""What follows from constants that the code makes itself may decide branches, bounds and sizes; data may not."""

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
CALLS = 3
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def bounds(x):
    span = torch.tensor(min(x.size(0), 3))
    return x[4 - span : 4 + span].sin()


def branch(x):
    scale = torch.tensor(3.0) * 2
    return x * scale if scale > 5 and not scale.isnan() else x - scale


def number(x):
    count = (torch.tensor([1, 2, 3]).sum() // 2).item()
    return x.repeat(count)


def written(x):
    limits = torch.zeros(2)
    limits[1] = 3
    total = torch.tensor([1.0, 2.0])
    total += 1
    return x + 1 if total.sum() == 5 else x - 1


def distribution(x):
    noise = torch.distributions.Uniform(torch.tensor(0.0), torch.tensor(2.0)).sample(x.shape)
    return (x + noise).softmax(0)


def given_back(x):
    steps = torch.tensor([1, 2, 3]) * 2
    return x * int(steps[1]), steps


def of_numbers(x):
    rows = torch.div(x.size(0), 3, rounding_mode="trunc")
    share = torch.div(x.size(0), 3)
    return x.view(rows * 2, -1) * share + torch.add(7, 4)


KNOWN = [of_numbers, bounds, branch, number, written, distribution, given_back]


@pytest.mark.parametrize("program", KNOWN, ids=lambda program: program.__name__)
def test_known(program, backend):
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for seed in range(CALLS):
        results = []
        for function in (compiled, program):
            torch.manual_seed(seed)
            x = torch.randn(8, requires_grad=True)
            result = function(x)
            first = result[0] if isinstance(result, tuple) else result
            results.append((result, torch.autograd.grad(first.square().sum(), x), torch.rand(2)))
        torch.testing.assert_close(*results)
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"]) == (1, CALLS)
    assert counters["breaks"] == counters["fallbacks"] == {}


UNKNOWN = {
    "an argument": lambda x: x + 1 if x.sum() * torch.tensor(0.0) > 0 else x,
    "a draw": lambda x: x + 1 if torch.randn(()) * torch.tensor(2.0) > 0 else x,
    "written with data": lambda x: x + 1 if torch.zeros(1).add_(x.sum()) > 0 else x,
    "large": lambda x: x + 1 if torch.tensor([1.0] * 100).cumsum(0).sum() > 0 else x,
}


@pytest.mark.parametrize("program", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown(program, backend):
    with pytest.raises(firesteel.GraphBreakError, match=r"FS-DATA-DEPENDENT|FS-TRACE"):
        firesteel.compile(program, backend=backend, fullgraph=True)(torch.randn(8))


def test_a_bound_that_data_gives(backend):
    def bounded(x):
        return x[: torch.tensor(3) * (x.sum() > 0)] * 2

    compiled = firesteel.compile(bounded, backend=backend, fullgraph=True)
    for sign in (1, -1, 1):
        x = torch.rand(8) * sign
        torch.testing.assert_close(compiled(x), bounded(x))
