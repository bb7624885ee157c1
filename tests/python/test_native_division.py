"""Whole numbers divided by a number, in native kernels: all signs and types, and what has no quotient."""

import pytest
import torch

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sin() + 1, torch.ones(4), native=True)(torch.ones(4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
DIVISORS = [1, -1, 2, -2, 3, -3, 7, 10, -64, 127]
FORMS = {
    "floor": lambda x, d: x // d,
    "trunc": lambda x, d: torch.div(x, d, rounding_mode="trunc"),
    "floor mode": lambda x, d: torch.div(x, d, rounding_mode="floor"),
    "remainder": lambda x, d: x % d,
    "fmod": lambda x, d: torch.fmod(x, d),
}


@pytest.fixture(autouse=True)
def single_operators_too(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_SMALLEST_KERNEL", "1")


def run(function, *args):
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    return traced(*args), firesteel.native_counters()


def numbers(dtype):
    info = torch.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 6, 7, 8, 99, 100]
    edges += [-n for n in edges if info.min <= -n <= info.max]
    return torch.tensor(edges + list(range(20)), dtype=dtype)


@pytest.mark.parametrize(("dtype", "divisor"), [
    (dtype, divisor) for dtype in INTEGERS for divisor in DIVISORS if dtype != torch.uint8 or divisor > 0
])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_by_a_number(form, dtype, divisor):
    x = numbers(dtype)
    if form == "trunc" and divisor == -1:
        x = x[x != torch.iinfo(dtype).min]  # ends the process in eager
    got, counts = run(lambda x: FORMS[form](x, divisor), x)
    assert (counts["native_ops"], counts["aten_ops"]) == (1, 0)
    wanted = FORMS[form](x, divisor)
    assert got.dtype == wanted.dtype
    assert torch.equal(got, wanted)


def test_the_smallest_by_minus_one_does_not_trap():
    traced = firesteel.trace(lambda x: torch.div(x, -1, rounding_mode="trunc"), torch.ones(9).long(), native=True)
    firesteel.reset_native_counters()
    x = torch.full((9,), -(2**63))
    assert torch.equal(traced(x), x)
    assert firesteel.native_counters()["native_ops"] == 1


@pytest.mark.parametrize("form", FORMS)
def test_by_zero_and_by_tensors_is_atens_matter(form):
    x = torch.arange(-5, 6)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(lambda x: FORMS[form](x, 0), x)
    y = torch.tensor([2, -3, 1, 4, 5, 7, -1, 9, 3, 2, 6])
    got, counts = run(FORMS[form], x, y)
    assert torch.equal(got, FORMS[form](x, y))
    assert counts["native_ops"] == 0
    traced = firesteel.trace(FORMS[form], x, y, native=True)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        traced(x, torch.zeros_like(y))


def test_floats_are_left_to_aten():
    x = torch.randn(33) * 10
    got, counts = run(lambda x: x // 3, x)
    assert torch.equal(got, x // 3)
    assert counts["native_ops"] == 0


def test_between_other_operators():
    x = torch.arange(-40, 41).view(9, 9).t()
    got, counts = run(lambda x: (x // 8 % 3) * 2 + x, x)
    assert torch.equal(got, (x // 8 % 3) * 2 + x)
    assert (counts["native_ops"], counts["kernels_run"]) == (4, 1)
