"""Tensors and other objects with `__torch_function__`: what is done with them runs as it is, all around is compiled."""

import pytest
import torch
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager"]
CALLS = 3
LOG = []


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


class Plain(torch.Tensor):
    pass


class Noting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        LOG.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


class Doubled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **(kwargs or {}))
            return result * 2 if isinstance(result, torch.Tensor) else result


class Parcel:
    """No tensor, but torch's functions take it."""

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [arg.tensor if isinstance(arg, Parcel) else arg for arg in args]
        return Parcel(function(*args, **(kwargs or {})))


class Weight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [arg.weight if isinstance(arg, Weight) else arg for arg in args]
        return function(*args, **(kwargs or {})) * 3


class OwnParameter(nn.Parameter):
    pass


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = OwnParameter(torch.full((4,), 2.0))
        self.register_buffer("buffer", torch.ones(4).as_subclass(Doubled))

    def forward(self, x):
        return x * self.weight + self.buffer


WEIGHT, HOLDER = Weight(), Holder()
CONSTANT = torch.ones(4).as_subclass(Doubled)

PROGRAMS = {
    "plain": lambda x: (x * 2).as_subclass(Plain) + 1,
    "noting": lambda x: ((x * 2).as_subclass(Noting) * 3).sum() + 1,
    "doubled": lambda x: (x * 2).as_subclass(Doubled) + 1,
    "no tensor": lambda x: torch.add(Parcel(x * 2), 1).tensor * 2,
    "no tensor, second": lambda x: torch.mul(2, Parcel(x + 1)).tensor.sin(),
    "a module": lambda x: torch.add(WEIGHT, x * 2) * 2,
    "from outside": lambda x: x * 2 + CONSTANT,
    "in a module": lambda x: HOLDER(x + 1) * 2,
}


def outcome(function, x):
    LOG.clear()
    WEIGHT.zero_grad()
    HOLDER.zero_grad()
    result = function(x)
    kind, needs = type(result), result.requires_grad
    if needs:
        result.as_subclass(torch.Tensor).sum().backward()
    values = [result, x.grad, WEIGHT.weight.grad, HOLDER.weight.grad]
    plain = [None if value is None else value.detach().as_subclass(torch.Tensor).tolist() for value in values]
    return kind, needs, plain, list(LOG)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, backend):
    program = PROGRAMS[name]
    compiled = firesteel.compile(program, backend=backend)
    for _ in range(CALLS):
        expected = outcome(program, torch.linspace(-1, 1, 4).requires_grad_())
        assert outcome(compiled, torch.linspace(-1, 1, 4).requires_grad_()) == expected
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert counters["captured"] > 0
    assert sum(counters["breaks"].values()) >= CALLS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Plain, Noting, Doubled])
def test_arguments(kind, backend):
    def program(x, y):
        z = y * 2
        return x + z, x.shape, isinstance(x, kind), z.sin()

    compiled = firesteel.compile(program, backend=backend)
    for _ in range(CALLS):
        outcomes = []
        for function in (program, compiled):
            LOG.clear()
            first, shape, is_kind, second = function(torch.ones(4).as_subclass(kind), torch.linspace(-1, 1, 4))
            values = first.as_subclass(torch.Tensor).tolist(), second.tolist()
            outcomes.append((type(first), shape, is_kind, type(second), values, list(LOG)))
        assert outcomes[0] == outcomes[1]
    assert firesteel.counters()["fallbacks"] == {}


def test_under_fullgraph_the_reason_is_told():
    for name in ("no tensor", "a module"):
        with pytest.raises(firesteel.GraphBreakError, match="FS-ARGUMENT"):
            firesteel.compile(PROGRAMS[name], fullgraph=True)(torch.ones(4))
    with pytest.raises(firesteel.GraphBreakError, match="FS-TENSOR-KIND"):
        firesteel.compile(PROGRAMS["from outside"], fullgraph=True)(torch.ones(4))
