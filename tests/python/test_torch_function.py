"""Tensors and other objects with `__torch_function__`: what they say is followed, and part of one graph."""

import pytest
import torch
from against_eager import same
from torch import nn
from torch.overrides import TorchFunctionMode

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
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for _ in range(CALLS):
        expected = outcome(program, torch.linspace(-1, 1, 4).requires_grad_())
        assert outcome(compiled, torch.linspace(-1, 1, 4).requires_grad_()) == expected
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert counters["captured"] == 1
    assert counters["breaks"] == {}


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


class Tagged(torch.Tensor):
    """A class with attributes, properties and methods of its own."""

    tag = "none"

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        if isinstance(result, Tagged):
            result.tag = "made"
        return result

    @property
    def doubled(self):
        return self * 2

    def times(self, factor):
        return self * factor

    @classmethod
    def of(cls, tensor):
        return tensor.as_subclass(cls)

    def __getattr__(self, name):
        if name == "invented":
            return 7
        raise AttributeError(name)


def tagged(values, tag):
    tensor = torch.tensor(values).as_subclass(Tagged)
    tensor.tag = tag
    return tensor


@pytest.mark.parametrize("backend", BACKENDS)
def test_classes_with_members_of_their_own(backend):
    def program(x):
        y = x.doubled + x.times(3)
        if x.tag == "first":
            y = y - 1
        return y, y.tag, x.tag, x.invented, hasattr(x, "nothing"), Tagged.of(x.as_subclass(torch.Tensor) + 1).tag

    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for tag in ("first", "second", "first"):
        given = tagged([1.0, 2.0], tag)
        (mine, *mine_rest), (theirs, *their_rest) = compiled(given), program(given)
        assert type(mine) is Tagged
        assert mine.tolist() == theirs.tolist()
        assert mine_rest == their_rest
    assert firesteel.counters()["captured"] == 2


@pytest.mark.parametrize("kind", [Plain, Doubled])
def test_sizes_that_change(kind):
    def program(x, factor):
        rows = factor if kind is Doubled else x.shape[0]
        return x.sin() * rows + factor

    compiled = firesteel.compile(program, fullgraph=True)
    for size in (2, 3, 4, 5):
        x = torch.ones(size).as_subclass(kind)
        assert same(*(f(x, size + 1).as_subclass(torch.Tensor) for f in (compiled, program)))
    assert firesteel.counters()["captured"] == 2


class Counting(TorchFunctionMode):
    def __init__(self, calls):
        self.calls = calls

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.calls.append(getattr(function, "__name__", "?"))
        return function(*args, **(kwargs or {}))


class Subtracting(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return (torch.sub if function is torch.add else function)(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", BACKENDS)
def test_modes_inside(backend):
    def program(x):
        calls = []
        with Subtracting():
            y = torch.add(x, 2)
            with Counting(calls):
                z = torch.add(y, x).sin()
        return y, z, torch.add(y, 1), calls

    def broken(x):
        with Subtracting():
            y = torch.add(x, 2)
            firesteel.graph_break()
            return torch.add(y, x)

    def failing(x):
        with Subtracting():
            raise ValueError(torch.add(x, 2))

    def on_a_device(x):
        with torch.device("cpu"):
            return x + torch.ones(4)

    x = torch.linspace(-1, 1, 4)
    for whole in (program, on_a_device):
        compiled = firesteel.compile(whole, backend=backend, fullgraph=True)
        for _ in range(CALLS):
            assert same(compiled(x), whole(x))
    assert firesteel.counters()["captured"] == 2
    assert same(firesteel.compile(broken, backend=backend)(x), broken(x))
    with pytest.raises(ValueError, match="tensor"):
        firesteel.compile(failing, backend=backend)(x)
    assert torch.overrides._len_torch_function_stack() == 0


def test_what_is_not_looked_into_is_no_part_of_a_graph():
    @firesteel.nonstrict_trace
    def opaque(x):
        return x + 1

    def program(x):
        return opaque(x.as_subclass(Noting))

    with pytest.raises(firesteel.GraphBreakError, match="FS-ARGUMENT"):
        firesteel.compile(program, fullgraph=True)(torch.ones(4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_default_device_around(backend):
    def program(x):
        y = torch.ones(4) + x
        with Subtracting():
            return torch.add(y, torch.zeros(4)), torch.empty(2).device, torch.arange(3)

    def broken(x):
        with torch.device("cpu"):
            y = torch.ones(4) + x
            firesteel.graph_break()
            z = y * torch.ones(4)
        return z + 1

    x = torch.linspace(-1, 1, 4)
    compiled, in_pieces = (firesteel.compile(function, backend=backend) for function in (program, broken))
    captured = []
    for _ in range(CALLS):
        with torch.device("cpu"):
            assert same(compiled(x), program(x))
        assert same(in_pieces(x), broken(x))
        captured.append(firesteel.counters()["captured"])
    assert len(set(captured)) == 1
    torch.set_default_device("meta")
    try:
        assert compiled(x.to("meta"))[1] == torch.device("meta")
        assert torch.overrides._len_torch_function_stack() == 1
    finally:
        torch.set_default_device(None)
    assert same(compiled(x), program(x))
    assert firesteel.counters()["fallbacks"] == {}
    assert torch.overrides._len_torch_function_stack() == 0


def test_an_error_under_a_default_device():
    def program(x):
        raise ValueError(torch.ones(4) + x)

    with torch.device("cpu"):
        with pytest.raises(ValueError, match="tensor"):
            firesteel.compile(program)(torch.ones(4))
        assert torch.overrides._len_torch_function_stack() == 1
