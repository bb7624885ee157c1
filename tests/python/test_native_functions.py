"""Rounding, signs, bits, logarithms, activations and triangles in native kernels, on all kinds of values."""

import pytest
import torch
from torch.nn import functional as F

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sin() + 1, torch.ones(4), native=True)(torch.ones(4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ROUNDED = [torch.floor, torch.ceil, torch.trunc, torch.round, torch.sign, torch.sgn, torch.isnan, torch.nan_to_num]
SMOOTH = [
    torch.expm1,
    torch.log1p,
    torch.exp2,
    torch.log2,
    torch.log10,
    torch.tan,
    torch.asin,
    torch.acos,
    torch.atan,
    torch.sinh,
    torch.cosh,
    F.softplus,
    F.hardswish,
    F.hardsigmoid,
    F.mish,
]
FULL_WIDTH = [F.elu, F.selu, torch.frac, lambda x: F.elu(x, 0.3)]


def values(dtype):
    info = torch.finfo(dtype)
    special = torch.tensor(
        [0.0, -0.0, 0.5, 1.5, -2.5, 1, -1, 3, -3, 20, 21, NAN, INF, -INF, info.tiny, info.eps], dtype=dtype
    )
    return torch.cat([special, torch.linspace(-4, 4, 131).to(dtype), torch.linspace(-1e-3, 1e-3, 31).to(dtype)])


def check(function, *args, exact=False, grad=False):
    args = [x.clone().requires_grad_(grad and x.is_floating_point()) for x in args]
    traced = firesteel.trace(function, *args, grad=grad, native=True)
    firesteel.reset_native_counters()
    got, wanted = traced(*args), function(*args)
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(got, wanted, equal_nan=True, **tolerance)
    if grad:
        leaves = [x for x in args if x.requires_grad]
        weights = torch.linspace(-1, 1, wanted.numel()).to(wanted.dtype).view_as(wanted)
        ours, theirs = (torch.autograd.grad((y * weights).sum(), leaves) for y in (got, wanted))
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    counts = firesteel.native_counters()
    assert counts["native_ops"] >= 1
    assert counts["aten_ops"] == 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", ROUNDED, ids=lambda f: f.__name__)
def test_rounding_and_signs(function, dtype):
    check(lambda x: function(x * 2), values(dtype), exact=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", SMOOTH, ids=lambda f: f.__name__)
def test_functions(function, dtype):
    check(lambda x: function(x * 0.75) + 1, values(dtype))


@pytest.mark.parametrize("dtype", FLOATS[:2])
@pytest.mark.parametrize("function", FULL_WIDTH)
def test_functions_of_full_width(function, dtype):
    check(lambda x: function(x * 0.75) + 1, values(dtype))


@pytest.mark.parametrize("function", [F.softplus, F.elu, F.relu6, lambda x: F.elu(x, inplace=True)])
def test_gradients(function):
    check(lambda x: function(x * 1.5), torch.linspace(-5, 5, 203), grad=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_largest_numbers(dtype):
    x = values(dtype)
    y = x.flip(0)
    check(lambda x, y: torch.fmax(x * 2, y), x, y)
    check(lambda x, y: torch.fmin(x * 2, y), x, y)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_bits(dtype):
    x, y = (torch.randint(0, 100, (7, 19)).to(dtype) for _ in range(2))
    check(lambda x, y: ((x & y) | (x ^ y)) ^ ~x, x, y, exact=True)
    check(lambda x, y: torch.logical_xor(x, y) | torch.logical_and(x, y) | torch.logical_or(y, x), x, y, exact=True)


def test_logic_of_floats():
    x = values(torch.float32)
    check(lambda x, y: torch.logical_and(x, y) ^ torch.logical_xor(x, y), x, x.roll(3), exact=True)


def test_lerp_by_a_tensor():
    x, y, w = torch.randn(3, 5, 33), torch.randn(5, 33), torch.rand(3, 1, 33) * 2 - 0.5
    check(lambda x, y, w: torch.lerp(x, y, w) * 2, x, y, w, grad=False)


@pytest.mark.parametrize("diagonal", [-40, -2, 0, 1, 3, 40])
@pytest.mark.parametrize("function", [torch.tril, torch.triu])
def test_triangles(function, diagonal):
    x = torch.full((2, 17, 33), NAN)
    x[:, ::2, ::3] = 1
    check(lambda x: function(x * 2, diagonal), x, exact=True)
    check(lambda x: function(x.mT * 2, diagonal), x, exact=True)
    check(lambda x: function(x + 1, diagonal), torch.ones(9, 9, dtype=torch.int64), exact=True)
    check(lambda x: function(x * 2, diagonal), torch.randn(3, 8, 9), grad=True)


@pytest.mark.parametrize("operation", [lambda x: x.clone(), lambda x: x * 2, lambda x: x.to(torch.bfloat16)])
def test_one_operator_on_much_memory_is_a_kernel(operation):
    small, large = torch.randn(10, 100), torch.randn(300, 1000)
    check(operation, large)
    traced = firesteel.trace(operation, small, native=True)
    firesteel.reset_native_counters()
    traced(small)
    assert firesteel.native_counters()["native_ops"] == 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", [torch.erf, F.gelu, torch.tanh, torch.sigmoid, F.silu])
def test_far_from_zero(function, dtype):
    sizes = torch.logspace(0.6, 4, 83, dtype=torch.float64).to(dtype)
    x = torch.cat([sizes, -sizes])
    traced = firesteel.trace(lambda x: function(x) + 1 - 1, x, native=True)
    firesteel.reset_native_counters()
    torch.testing.assert_close(traced(x), function(x) + 1 - 1)
    assert firesteel.native_counters()["native_ops"] == 3


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wider", [None, torch.float32, torch.float64])
def test_relu_keeps_the_sign_of_zero(dtype, wider):
    def function(x, y):
        z = (x * y).to(wider or dtype)
        return z.relu().to(dtype), z.sign().to(dtype)

    x, y = torch.zeros(37, dtype=dtype), torch.linspace(-3, 3, 37).to(dtype)
    got = firesteel.trace(function, x, y, native=True)(x, y)
    for a, b in zip(got, function(x, y), strict=True):
        assert torch.equal(a.signbit(), b.signbit())


def test_gelu_of_large_negative_numbers_is_nothing():
    x = -torch.logspace(1, 38, 100)
    result = firesteel.trace(lambda x: F.gelu(x) * 1.5, x, native=True)(x)
    assert torch.equal(result, torch.zeros_like(x))
