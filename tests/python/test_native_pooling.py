"""Pooling in native kernels against eager: values, places, gradients, and what ran where."""

import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sum(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

LARGEST = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": (2, 3), "stride": (1, 2), "padding": (1, 0)},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 2, "dilation": 2},
]
MEAN = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": (1, 4), "stride": (2, 1)},
    {"kernel_size": 2, "divisor_override": 3},
]
SHAPES = [(2, 3, 40, 44), (5, 33, 71), (1, 2, 35, 130)]
TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float16]


def counted(function, *args):
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    result = traced(*args)
    counts = firesteel.native_counters()
    return result, (counts["native_ops"], counts["aten_ops"])


def same(got, wanted, **tolerance):
    torch.testing.assert_close(got, wanted, equal_nan=True, **tolerance)
    for ours, theirs in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]:
        assert ours.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("options", LARGEST, ids=str)
def test_the_largest_and_its_place(options, dtype):
    for shape in SHAPES:
        x = (torch.randn(shape) * 4).round().to(dtype)  # many are equal

        def pooled(x):
            return F.max_pool2d(x, **options, return_indices=True)

        got, ran = counted(pooled, x)
        same(got, pooled(x), rtol=0, atol=0)
        assert ran == (1, 0)


def test_odd_numbers():
    inf, nan = float("inf"), float("nan")
    x = torch.randn(2, 3, 40, 44)
    x[0, 0, :9, :9], x[0, 1, 5, 5], x[0, 1, 6, 6], x[1, 2, 0, 0], x[1, 2, 39, 43] = -inf, nan, nan, nan, inf
    for options in LARGEST:

        def pooled(x, options=options):
            return F.max_pool2d(x, **options, return_indices=True)

        got, ran = counted(pooled, x)
        same(got, pooled(x), rtol=0, atol=0)
        assert ran == (1, 0)
    for options in MEAN:
        got, ran = counted(lambda x, options=options: F.avg_pool2d(x, **options), x)
        same(got, F.avg_pool2d(x, **options))
        assert ran == (1, 0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("options", MEAN, ids=str)
def test_means(options, dtype):
    for shape in SHAPES:
        x = torch.randn(shape).to(dtype)

        def pooled(x):
            return F.avg_pool2d(x, **options)

        got, ran = counted(pooled, x)
        same(got, pooled(x))
        assert ran == (1, 0)


def test_layouts():
    """Every second column of memory, rows of another tensor, channels side by side: the last stays with ATen."""
    x = torch.randn(4, 6, 50, 70)
    for made, native in ((x[:, 1:, 3:, 5:], 2), (x.transpose(0, 1), 2), (x[:1].expand(4, 6, 50, 70), 2)):
        for pooled in (lambda x: F.max_pool2d(x, 3, 2, 1).sin(), lambda x: F.avg_pool2d(x, 2).sin()):
            got, ran = counted(pooled, made)
            same(got, pooled(made))
            assert ran == (native, 0)
    last = x.to(memory_format=torch.channels_last)
    got, ran = counted(lambda x: F.max_pool2d(x, 2).sin().cos(), last)
    same(got, F.max_pool2d(last, 2).sin().cos())
    assert ran == (2, 1)


def test_what_stays_with_aten():
    x = torch.randn(2, 3, 40, 40)
    for pooled in (
        lambda x: F.max_pool2d(x * 2, 3, 2, ceil_mode=True),
        lambda x: F.avg_pool2d(x * 2, 5),
        lambda x: F.max_pool2d((x * 9).long(), 2),
        lambda x: F.max_pool2d(x[:0] * 2, 2),
    ):
        same(counted(pooled, x)[0], pooled(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients(dtype):
    def function(x, w):
        h = F.relu(F.conv2d(x, w, padding=1))
        return F.avg_pool2d(F.max_pool2d(h, 3, 2, 1), 2).tanh()

    compiled = firesteel.compile(function, wait=True, fullgraph=True)
    for _ in range(2):
        x, w = torch.randn(2, 3, 68, 72, dtype=dtype), torch.randn(4, 3, 3, 3, dtype=dtype)
        sides = []
        for side in (compiled, function):
            inputs = [x.clone().requires_grad_(), w.clone().requires_grad_()]
            result = side(*inputs)
            sides.append([result, *torch.autograd.grad(result.square().sum(), inputs)])
        for own, theirs in zip(*sides, strict=True):
            torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["avx2", "sse"])
def test_on_lesser_machines(target):
    program = """
        import torch, firesteel
        from torch.nn import functional as F
        torch.manual_seed(0)
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            x = torch.randn(2, 3, 41, 45).to(dtype)
            for f in (lambda x: F.max_pool2d(x * 2, 3, 2, 1, return_indices=True), lambda x: F.avg_pool2d(x * 2, 2),
                      lambda x: F.max_pool2d(x * 2, 2, 1), lambda x: F.avg_pool2d(x * 2, 3, 2, 1),
                      lambda x: x[..., ::2] * 2):
                torch.testing.assert_close(firesteel.trace(f, x, native=True)(x), f(x))
        print(firesteel.native_counters()["aten_ops"])
    """
    lines = "\n".join(line[8:] for line in program.splitlines())
    environment = {**os.environ, "FIRESTEEL_CPU": target, "FIRESTEEL_SMALLEST_KERNEL": "1"}
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
