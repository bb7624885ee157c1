"""Functions of numpy on Python's own numbers are computed at capture, and the numbers guarded."""

import numpy as np
import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def log_uniform(x, scale):
    reach = np.log(scale)
    return x * torch.empty(1).uniform_(-reach, reach).exp()


def powers(x, scale):
    return x * np.power(np.sqrt(scale), 3) + np.exp2(1.0)


@pytest.mark.parametrize("program", [log_uniform, powers], ids=lambda program: program.__name__)
def test_captured_whole(program, backend):
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for scale in (2.0, 2.0, 3.0, 2.0):
        results = []
        for function in (compiled, program):
            torch.manual_seed(1)
            x = torch.linspace(1, 2, 4, requires_grad=True)
            result = function(x, scale)
            results.append((result, torch.autograd.grad(result.sum(), x), torch.rand(2)))
        torch.testing.assert_close(*results)
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"]) == (2, 4)
    assert counters["breaks"] == counters["fallbacks"] == {}


def test_what_numpy_warns_of_runs_as_it_is(backend):
    compiled = firesteel.compile(lambda x, scale: x.sin() * float(np.log(scale)), backend=backend)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            assert torch.equal(compiled(torch.ones(2), 0.0), torch.full((2,), -torch.inf))


def test_arrays_are_not_followed(backend):
    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(lambda x, a: x * float(np.log(a)[0]), backend=backend, fullgraph=True)(
            torch.ones(2), np.ones(1)
        )
