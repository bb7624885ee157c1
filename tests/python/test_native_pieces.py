"""Results put together of pieces, in native kernels: cat, stack, padding, rotary embeddings, gradients of slices."""

import pytest
import torch
from torch.nn import functional as F

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sin() + 1, torch.ones(4), native=True)(torch.ones(4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


@pytest.fixture(autouse=True)
def single_operators_too(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_SMALLEST_KERNEL", "1")


def values(shape, dtype=torch.float32):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 99, shape, dtype=dtype)


def check(function, *args, native_ops=1, aten_ops=0, kernels=1):
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    got = traced(*args)
    counts = firesteel.native_counters()
    assert (counts["native_ops"], counts["aten_ops"], counts["kernels_run"]) == (native_ops, aten_ops, kernels)
    wanted = function(*args)
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
    assert got.stride() == wanted.stride()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(dim, dtype):
    x, y = values((5, 7, 33), dtype), values((5, 7, 33), dtype)
    check(lambda x, y: torch.cat([x, y], dim), x, y)
    check(lambda x, y: torch.cat([x, y.narrow(dim, 1, 2), x.narrow(dim, 0, 1)], dim), x, y)
    check(lambda x, y: torch.cat([x, x], dim), x, y)
    check(lambda x, y: torch.cat([x.transpose(0, 1), y.transpose(0, 1)], dim), x, y)
    check(lambda x, y: torch.cat([x[:1].expand(5, 7, 33), y], dim), x, y)


def test_cat_of_one_and_of_numbers():
    x = values((3, 17))
    check(lambda x: torch.cat([x]), x)
    check(lambda x: torch.cat([x, torch.zeros(3, 5), x], 1), x)
    check(lambda x: torch.cat([torch.full((2, 17), 3.5), x]) * 2, x, native_ops=2)


def test_what_copies_faster_is_left_to_aten():
    x = values((512, 5))
    check(lambda x: torch.stack([x, x], -1) * 2, x, native_ops=1, aten_ops=1)
    check(lambda x: F.pad(x, (0, 1)), x, native_ops=0, aten_ops=1, kernels=0)


def test_many_pieces_and_empty_ones_are_left_to_aten():
    x = values((3, 4))
    check(lambda x: torch.cat([x] * 5), x, native_ops=0, aten_ops=1, kernels=0)
    check(lambda x: torch.cat([x, x[:0]]), x, native_ops=0, aten_ops=2, kernels=0)
    check(lambda x: torch.cat([x, x.int()]), x, native_ops=1, aten_ops=1, kernels=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_stack(dim, dtype):
    x, y = values((5, 33), dtype), values((33, 5), dtype).t()
    check(lambda x, y: torch.stack([x, y, x], dim), x, y)
    check(lambda x, y: torch.stack([x.amax(), y.amin()]), x, y, native_ops=3, kernels=3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pad", [(1, 2), (0, 0), (3, 0, 0, 1), (-1, 2), (2, -3, -1, -1), (1, 1, 1, 1, 1, 1)])
def test_pad(pad, dtype):
    x = values((5, 7, 33), dtype)
    check(lambda x: F.pad(x, pad, value=1), x)
    check(lambda x: F.pad(x.permute(2, 0, 1), pad), x)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -2.5, 1e5])
def test_pad_values(value):
    check(lambda x: F.pad(x, (1, 2), value=value), values((5, 33)))
    check(lambda x: F.pad(x, (1, 2), value=value), values((5, 33), torch.bfloat16))


def test_pad_values_that_do_not_fit_are_left_to_aten():
    check(lambda x: F.pad(x, (1, 2), value=-1), values((5, 3), torch.int32), native_ops=0, aten_ops=1, kernels=0)
    check(lambda x: F.pad(x, (1, 2), value=2.5), values((5, 3), torch.int64), native_ops=0, aten_ops=1, kernels=0)


def rotated(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


@pytest.mark.parametrize("width", [2, 14, 64, 66])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_embedding_is_one_kernel(dtype, width):
    def f(x, cos, sin):
        return x * cos + rotated(x) * sin

    x, angles = values((2, 13, 3, width), dtype), values((13, width), dtype)
    cos, sin = angles.cos(), angles.sin()
    check(f, x.transpose(1, 2), cos, sin, native_ops=4)
    check(f, x.transpose(1, 2).contiguous(), cos, sin, native_ops=4)
    check(f, x[:, :, :1].transpose(1, 2).expand(2, 3, 13, width), cos, sin, native_ops=4)


def test_what_is_moved_is_not_computed_in_the_same_kernel():
    def f(x):
        y = x.reciprocal()
        return torch.cat([y[:, 1:], y[:, :1]], 1) + y

    check(f, values((5, 33)), native_ops=3, kernels=2)
    check(lambda x: torch.cat([x.reciprocal(), x.reciprocal() + 1], 0) * 2, values((5, 33)), native_ops=4, kernels=2)


def test_cheap_pieces_are_computed_where_they_are_read():
    check(lambda x, y: torch.cat([x + y, x - y], 1), values((5, 33)), values((5, 33)))
    check(lambda x, y: F.pad((x * y)[:, 1:-1], (2, 2)) + 1, values((5, 33)), values((5, 33)), native_ops=2)
    check(lambda x, y: (x * y)[:, 3:] + (x * y)[:, :-3], values((5, 33)), values((5, 33)), native_ops=1)


def test_a_piece_that_is_also_a_result():
    def f(x):
        y = -x
        return torch.cat([y, x], 1) * 2, y

    x = values((5, 33))
    for got, wanted in zip(firesteel.trace(f, x, native=True)(x), f(x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_shifts():
    def f(x):  # a time shift, twice
        y = F.pad(x[:, :-1], (0, 0, 1, 0))
        return F.pad(y[:, :-1] * 2, (0, 0, 1, 0)) + x

    check(f, values((3, 9, 33)), native_ops=2)


def test_rows_of_pieces():
    def f(x, y):
        return torch.cat([x, y], 1).softmax(1)

    def columns(x, y):
        return torch.cat([x, y], 0).sum(0)

    x, y = values((40, 33)), values((40, 70))
    for function, args in [(f, (x, y)), (columns, (x, x + 1)), (lambda x, y: torch.cat([x, y], 1).sum(), (x, y))]:
        traced = firesteel.trace(function, *args, native=True)
        firesteel.reset_native_counters()
        got = traced(*args)
        assert (firesteel.native_counters()["native_ops"], firesteel.native_counters()["aten_ops"]) == (2, 0)
        torch.testing.assert_close(got, function(*args))


def gradients(function, *args):
    args = [x.detach().clone().requires_grad_() for x in args]
    result = function(*args)
    torch.manual_seed(0)
    return torch.autograd.grad(result, args, torch.randn(result.shape).to(result.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function", [
    lambda x: x[:, 2:9] * 2, lambda x: x[:, -5:].exp(), lambda x: x[2] * 3, lambda x: x[:, -1] + 1,
    lambda x: x[:, :, ::2] * 2, lambda x: rotated(x) * 2, lambda x: x * 2 + rotated(x) * 3,
    lambda x: F.pad(x, (1, -2)) * 2, lambda x: torch.cat([x, x * 2], 1) * 2, lambda x: torch.stack([x, x + 1]).exp(),
    lambda x: F.layer_norm(x, x.shape[-1:])[:, 0], lambda x: x.chunk(2, -1)[0].sigmoid() * x.chunk(2, -1)[1],
])  # fmt: skip
def test_gradients(function, dtype):
    x = values((5, 13, 34), dtype)
    compiled = firesteel.compile(function, wait=True)
    gradients(compiled, x)
    firesteel.reset_native_counters()
    got = gradients(compiled, x)
    assert firesteel.native_counters()["native_ops"] > 0
    torch.testing.assert_close(got, gradients(function, x))


def test_the_gradient_of_a_rotary_embedding_is_one_kernel():
    def f(x, cos, sin):
        return x * cos + rotated(x) * sin

    x, angles = values((2, 3, 13, 66)).requires_grad_(), values((13, 66))
    compiled = firesteel.compile(f, wait=True)
    result = compiled(x, angles.cos(), angles.sin())
    firesteel.reset_native_counters()
    (got,) = torch.autograd.grad(result, x, torch.ones_like(result) / 3)
    counts = firesteel.native_counters()
    assert (counts["aten_ops"], counts["kernels_run"]) == (0, 1)
    (wanted,) = torch.autograd.grad(f(x, angles.cos(), angles.sin()), x, torch.ones_like(result) / 3)
    torch.testing.assert_close(got, wanted)
