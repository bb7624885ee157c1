"""Small things that libraries do everywhere: members of enums, typing.cast, new tensors like another."""

import enum
import typing

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


class Mode(enum.Enum):
    FAST = 2
    SLOW = 3


class Text(enum.StrEnum):
    SUM = "sum"


class Width(enum.IntEnum):
    THIN = 2
    WIDE = 3


class Share(float, enum.Enum):
    HALF = 0.5
    ALL = 1.0


class Wordy(enum.IntEnum):
    """One that multiplies as it likes."""

    ONE = 1

    def __mul__(self, other):
        return other + 100


FACTOR = 2


class Odd(enum.Enum):
    A = 1

    @property
    def value(self):
        return FACTOR


def value_of_a_member(x, mode):
    return x * Mode.SLOW.value * mode.value + Mode["FAST"].value


def name_of_a_member(x, mode):
    return x * len(mode.name) if mode.name.islower() or Text.SUM.value == "sum" else x


def lookup(x, mode):
    return x.sin() if Mode(3) is Mode.SLOW and mode in (Mode.FAST, Mode.SLOW) else x.cos()


def cast(x, mode):
    return typing.cast(torch.Tensor, x) * typing.cast("int", mode.value)


def new_tensor(x, mode):
    return x + x.new_tensor([1.0, 2.0, 3.0]) * x.new_tensor(mode.value, dtype=torch.float64)


PROGRAMS = [value_of_a_member, name_of_a_member, lookup, cast, new_tensor]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_whole(program, backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for mode in (Mode.FAST, Mode.SLOW, Mode.FAST):
        for seed in range(2):
            torch.manual_seed(seed)
            x = torch.randn(3, requires_grad=True)
            found, expected = compiled(x, mode), program(x, mode)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(*[torch.autograd.grad(y.sum(), x) for y in (found, expected)])
    counters = firesteel.counters()
    assert counters["captured"] <= 2
    assert counters["hits"] == 6
    assert counters["breaks"] == counters["fallbacks"] == {}


def numbers_of_members(x, width, share):
    return x * width + share * x.view(-1, width)[0, 0] + torch.ones(width, 1).sum() * Width.WIDE - width / x


def test_members_that_are_numbers(backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(numbers_of_members, backend=backend, fullgraph=True)
    x = torch.randn(6)
    for width, share in [(Width.THIN, Share.HALF), (Width.WIDE, Share.HALF), (Width.THIN, Share.ALL)] * 2:
        torch.testing.assert_close(compiled(x, width, share), numbers_of_members(x, width, share))
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"]) == (3, 6)
    assert counters["breaks"] == counters["fallbacks"] == {}


def test_members_that_compute_as_they_like(backend):
    x = torch.randn(3)
    compiled = firesteel.compile(lambda x: Wordy.ONE * x, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), x + 100)


def test_a_value_that_the_class_computes_is_never_stale(backend, monkeypatch):
    compiled = firesteel.compile(lambda x: x * Odd.A.value, backend=backend)
    x = torch.ones(3)
    for factor in (2, 3, 2):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert torch.equal(compiled(x), x * factor)
