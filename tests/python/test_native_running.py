"""Sums and products that run along a row, in native kernels, against eager: values, gradients, and what ran where."""

import os
import subprocess
import sys

import pytest
import torch

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sum(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

SHAPES = [(64, 129), (3, 5), (2, 70, 33), (1000,), (5, 4, 3, 17), (300, 1)]
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.uint8, torch.bool]


def counted(function, *args):
    """The result, and how many operators ran in kernels and in ATen."""
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    result = traced(*args)
    counts = firesteel.native_counters()
    return result, (counts["native_ops"], counts["aten_ops"], counts["kernels_run"])


def same(got, wanted):
    torch.testing.assert_close(got, wanted, equal_nan=True)
    assert got.stride() == wanted.stride()


def numbers(shape, dtype):
    return (torch.randn(shape) * 3).to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_along_every_dimension(shape, dtype):
    x = numbers(shape, dtype)
    for dim in range(-len(shape), len(shape)):
        got, ran = counted(lambda x, dim=dim: x.cumsum(dim), x)
        same(got, x.cumsum(dim))
        assert ran == ((0, 1, 0) if shape[dim] == 1 else (1, 0, 1))


@pytest.mark.parametrize("dtype", [t for t in TYPES if t.is_floating_point], ids=str)
@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_products(shape, dtype):
    x = numbers(shape, dtype) / 2
    for dim in range(len(shape)):
        got, ran = counted(lambda x, dim=dim: x.cumprod(dim), x)
        torch.testing.assert_close(got, x.cumprod(dim), equal_nan=True, rtol=0, atol=0)  # one by one, as eager
        assert ran == (1, 0, 1)


def test_other_types_of_results():
    x = torch.randn(20, 33) * 100
    same(counted(lambda x: x.cumsum(1, dtype=torch.float64), x)[0], x.cumsum(1, dtype=torch.float64))
    k = x.to(torch.int64)
    for dtype in (torch.float32, torch.int32, torch.int64):
        same(counted(lambda k, dtype=dtype: k.cumsum(0, dtype=dtype), k)[0], k.cumsum(0, dtype=dtype))


def test_odd_numbers_and_layouts():
    inf, nan = float("inf"), float("nan")
    x = torch.randn(64, 129)
    x[3, 5], x[4, 7], x[4, 90], x[9, 0], x[10, 128] = nan, inf, -inf, inf, nan
    functions = [
        lambda x: x.cumsum(-1),
        lambda x: x.cumsum(0),
        lambda x: x.t().cumsum(-1),
        lambda x: x.t().cumsum(0),
        lambda x: x[:, ::3].cumsum(1),
        lambda x: x[:, :1].expand(64, 50).cumsum(1),
        lambda x: x[0].expand(7, 129).cumsum(0),
        lambda x: x.view(8, 8, 129).transpose(0, 1).cumsum(1),
    ]
    for function in functions:
        got, ran = counted(function, x)
        same(got, function(x))
        assert ran == (1, 0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_numbers_near_the_largest(dtype):
    """What a few of them make alone is infinite, what all before them make is not."""
    most = torch.finfo(dtype).max
    x = torch.tensor([-most, most, most / 2, most / 2, -most, 0.0, -most / 2] * 9, dtype=dtype).repeat(3, 1)
    same(counted(lambda x: x.cumsum(1), x)[0], x.cumsum(1))
    y = torch.tensor([0.0] + [most / 2] * 40, dtype=dtype)
    same(counted(lambda y: y.cumprod(0), y)[0], y.cumprod(0))


def test_nothing_and_one_number():
    for x in (torch.tensor(2.5), torch.ones(1), torch.ones(0), torch.ones(3, 0), torch.ones(0, 3)):
        same(counted(lambda x: (x * 2).cumsum(-1), x)[0], (x * 2).cumsum(-1))


FUSED = [
    (lambda x: (x * 2 + 1).cumsum(-1).sin(), 4),
    (lambda x: x.cumsum(-1).softmax(-1), 2),
    (lambda x: x.softmax(-1).cumsum(-1) > 0.5, 3),
    (lambda x: x.cumsum(0) / x.shape[0] - x.mean(0), 4),
    (lambda x: x.cumsum(1) + x.cumsum(1).amax(1, keepdim=True), 3),
    (lambda x: (x.cumsum(1) * 0.1).cumprod(1), 3),
]


@pytest.mark.parametrize("case", range(len(FUSED)))
def test_fused_with_what_is_before_and_after(case):
    function, operators = FUSED[case]
    for shape in ((40, 77), (33, 5000)):
        x = torch.randn(shape)
        got, ran = counted(function, x)
        same(got, function(x))
        assert ran == (operators, 0, 1)


def trained(function, x):
    x = x.clone().requires_grad_()
    result = function(x)
    torch.manual_seed(1)
    return result, *torch.autograd.grad(result, x, torch.randn(result.shape).to(result.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gradients(dim, dtype):
    def function(x):
        return (x * 2).cumsum(dim).sin()

    compiled = firesteel.compile(function, wait=True, fullgraph=True)
    for _ in range(2):
        x = torch.randn(6, 35, 41).to(dtype)
        wanted = trained(function, x)
        firesteel.reset_native_counters()
        got = trained(compiled, x)
        for own, theirs in zip(got, wanted, strict=True):
            near = {"rtol": 2e-2, "atol": 1e-2} if dtype is torch.bfloat16 else {}
            torch.testing.assert_close(own, theirs, **near)
    assert firesteel.native_counters()["aten_ops"] == 0
    assert firesteel.native_counters()["kernels_run"] == 2


def test_gradients_of_products():
    x = torch.randn(12, 30)
    x[2, 7] = x[3, 4] = x[3, 9] = 0
    compiled = firesteel.compile(lambda x: x.cumprod(1), wait=True)
    for own, theirs in zip(trained(compiled, x), trained(lambda x: x.cumprod(1), x), strict=True):
        torch.testing.assert_close(own, theirs)


def test_both_directions_are_two_kernels():
    def both(x):
        return x.cumsum(1) - x.flip(1).cumsum(1).flip(1)

    x = torch.randn(20, 50)
    got, ran = counted(both, x)
    same(got, both(x))
    assert ran == (3, 0, 2)


def test_rows_of_two_loops_stay_with_aten():
    """Memory would say which loop is the outer one, but the order matters."""
    x = torch.randn(16, 9, 11)

    def flat(x):
        return x.transpose(1, 2).exp().reshape(16, 99).cumsum(1).view(16, 11, 9) + x.transpose(1, 2)

    same(counted(flat, x)[0], flat(x))


def test_one_code_for_all_sizes():
    def function(x):
        return (x + 1).cumsum(1) * x.shape[1], x.cumsum(0)

    compiled = firesteel.compile(function, fullgraph=True, dynamic=True, wait=True)
    for rows, columns in ((5, 33), (64, 128), (7, 3), (100, 1000), (2, 2)):
        x = torch.randn(rows, columns, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        firesteel.reset_native_counters()
        got, wanted = compiled(x), function(y)
        for own, theirs in zip(got, wanted, strict=True):
            same(own, theirs)
        sum(part.sin().sum() for part in got).backward()
        sum(part.sin().sum() for part in wanted).backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4)
        assert firesteel.native_counters()["kernels_run"] > 0


@pytest.mark.parametrize("target", ["avx2", "sse"])
def test_on_lesser_machines(target):
    program = """
        import torch, firesteel
        torch.manual_seed(0)
        x, k = torch.randn(37, 77, requires_grad=True), torch.randint(-9, 9, (37, 77))
        for f in (lambda x: (x * 2).cumsum(-1).sin(), lambda x: x.cumsum(0), lambda x: x.double().cumsum(1),
                  lambda x: x.cumprod(1), lambda x: x.bfloat16().cumsum(1), lambda x: x.half().cumsum(0)):
            ours = firesteel.compile(f, wait=True)
            torch.testing.assert_close(ours(x), f(x))
            (g,), (h,) = (torch.autograd.grad(side(x).float().sum(), x) for side in (ours, f))
            torch.testing.assert_close(g, h, rtol=1e-4, atol=1e-4)
        for d in (0, 1):
            assert torch.equal(firesteel.trace(lambda k: k.cumsum(d), k, native=True)(k), k.cumsum(d))
        print(firesteel.native_counters()["native_ops"] > 10)
    """
    lines = "\n".join(line[8:] for line in program.splitlines())
    environment = {**os.environ, "FIRESTEEL_CPU": target}
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
