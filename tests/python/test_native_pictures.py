"""Gradients of pools and pictures of another size in native kernels against eager: values, layouts, what ran where."""

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
    {"kernel_size": 2, "padding": 1},
    {"kernel_size": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": (2, 3), "padding": (1, 0)},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 2, "stride": 3, "dilation": 2, "padding": 1},
]
OVERLAPPING = [{"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 3, "stride": 1, "padding": 1}]
MEAN = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": (1, 4), "stride": (2, 1)},
    {"kernel_size": 2, "divisor_override": 3},
]
SHAPES = [(2, 3, 40, 44), (5, 33, 71), (1, 2, 35, 130)]
TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float16]
INEXACT = {torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}, torch.float16: {"rtol": 2e-3, "atol": 2e-3}}


def counted(function, *args):
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    result = traced(*args)
    counts = firesteel.native_counters()
    return result, (counts["native_ops"], counts["aten_ops"])


def compared(function, *args, ran=(1, 0), **tolerance):
    got, did = counted(function, *args)
    wanted = function(*args)
    torch.testing.assert_close(got, wanted, equal_nan=True, **tolerance)
    assert got.stride() == wanted.stride()
    assert did == ran


def largest_and_gradient(x, options):
    """A gradient for a pool, and what its operator takes besides."""
    size = options["kernel_size"]
    step, pad, dilation = options.get("stride", size), options.get("padding", 0), options.get("dilation", 1)
    result, places = F.max_pool2d(x, **options, return_indices=True)
    both = [[n, n] if isinstance(n, int) else list(n) for n in (size, step, pad, dilation)]
    return torch.randn_like(result), places, [*both, options.get("ceil_mode", False)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("options", LARGEST, ids=str)
def test_gradients_of_the_largest(options, dtype):
    for shape in SHAPES:
        x = (torch.randn(shape) * 4).round().to(dtype)  # many are equal
        grad, places, arguments = largest_and_gradient(x, options)

        def gradient(grad, x, places, arguments=arguments):
            return torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *arguments, places).neg()

        compared(gradient, grad, x, places, ran=(2, 0), rtol=0, atol=0)


@pytest.mark.parametrize("options", OVERLAPPING, ids=str)
def test_gradients_of_overlapping_windows_stay_with_aten(options):
    x = torch.randn(2, 3, 40, 44)
    grad, places, arguments = largest_and_gradient(x, options)

    def gradient(grad, x, places):
        return torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *arguments, places).sin().neg()

    compared(gradient, grad, x, places, ran=(2, 1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("options", MEAN, ids=str)
def test_gradients_of_means(options, dtype):
    size = options["kernel_size"]
    both = [[n, n] if isinstance(n, int) else list(n) for n in (size, options.get("stride", size))]
    rest = (options.get("ceil_mode", False), options.get("count_include_pad", True), options.get("divisor_override"))
    for shape in SHAPES:
        x = torch.randn(shape).to(dtype)
        compared(lambda x: F.avg_pool2d(x, **options), x)

        def gradient(grad, x):
            pad = [options.get("padding", 0)] * 2
            return torch.ops.aten.avg_pool2d_backward(grad, x, *both, pad, *rest)

        compared(gradient, torch.randn_like(F.avg_pool2d(x, **options)), x, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_adaptive_means(dtype):
    x = torch.randn(3, 5, 48, 80).to(dtype)
    for size in ((24, 40), (12, 20), (48, 40), (24, 80)):
        compared(lambda x, size=size: torch.ops.aten._adaptive_avg_pool2d(x, size), x)
        grad = torch.randn(3, 5, *size).to(dtype)
        compared(torch.ops.aten._adaptive_avg_pool2d_backward, grad, x)
    compared(lambda x: F.adaptive_avg_pool2d(x, (10, 16)).sin().cos(), x, ran=(2, 1))  # windows of several lengths
    compared(lambda x: F.adaptive_avg_pool2d(x.relu(), 1), x, ran=(2, 0), **INEXACT.get(dtype, {}))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 20, 22), (5, 17, 35), (1, 2, 16, 130)], ids=str)
def test_larger_pictures(shape, dtype):
    x = torch.randn(shape).to(dtype)
    batched = x if x.dim() == 4 else x[None]
    height, width = batched.shape[-2:]
    sizes = [(2 * height, 2 * width), (3 * height, 4 * width), (height + 7, width + 9), (height, 2 * width)]
    sizes += [(2 * height, width), (height // 2, 3 * width), (2 * height + 1, 2 * width - 1)]
    for size in sizes:
        compared(lambda x, size=size: F.interpolate(x, size=size), batched, rtol=0, atol=0)
        for aligned in (False, True):

            def between(x, size=size, aligned=aligned):
                return F.interpolate(x, size=size, mode="bilinear", align_corners=aligned)

            compared(between, batched, **INEXACT.get(dtype, {"rtol": 1e-4, "atol": 1e-4}))
    for factor in (2, 1.7, (3, 2.5)):
        compared(lambda x, factor=factor: F.interpolate(x, scale_factor=factor), batched, rtol=0, atol=0)

        def by_factor(x, factor=factor):
            return F.interpolate(x, scale_factor=factor, mode="bilinear")

        compared(by_factor, batched, **INEXACT.get(dtype, {"rtol": 1e-4, "atol": 1e-4}))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_gradients_of_larger_pictures(mode, dtype):
    operator = getattr(torch.ops.aten, f"upsample_{mode}2d_backward")
    aligned = () if mode == "nearest" else (False,)
    for height, width in ((20, 22), (17, 35), (16, 1), (1, 130)):
        grad = torch.randn(2, 3, 2 * height, 2 * width).to(dtype)
        for factors in ((2.0, 2.0), (None, None)):

            def gradient(grad, height=height, width=width, factors=factors):
                sizes = [2 * height, 2 * width], [2, 3, height, width]
                return operator(grad, *sizes, *aligned, *factors)

            compared(gradient, grad, **INEXACT.get(dtype, {}))


def test_layouts():
    """Pieces of pictures and those of other order by their own strides; channels side by side stay with ATen."""
    x = torch.randn(4, 6, 50, 70)
    functions = (
        lambda x: F.interpolate(x, scale_factor=2).sin(),
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear").sin(),
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True).sin(),
    )
    for made in (x[:, 1:, 3:, 5:], x.transpose(0, 1), x[:1].expand(4, 6, 50, 70)):
        for function in functions:
            compared(function, made, ran=(2, 0))
    last = x.to(memory_format=torch.channels_last)
    for function in functions:
        compared(lambda x, function=function: function(x).cos(), last, ran=(2, 1))
    for function in functions:  # the result is written and reduced in another order than it is read
        compared(lambda x, function=function: function(x).permute(0, 2, 3, 1).contiguous(), x, ran=(3, 0))
        compared(lambda x, function=function: function(x).sum(-1), x, ran=(3, 0), rtol=1e-4, atol=1e-4)
        compared(lambda x, function=function: function(x).sum(1), x, ran=(3, 0), rtol=1e-4, atol=1e-4)


def test_what_stays_with_aten():
    x = torch.randn(2, 3, 40, 40)
    for function in (
        lambda x: F.interpolate(x * 2, size=(20, 20)),
        lambda x: F.interpolate(x * 2, size=(20, 31), mode="bilinear"),
        lambda x: F.interpolate((x * 9).to(torch.uint8), scale_factor=2),
        lambda x: F.interpolate(x * 2, scale_factor=2, mode="bicubic"),
        lambda x: F.interpolate(x[:0] * 2, scale_factor=2),
        lambda x: F.max_pool2d(x[:0] * 2, 2),
    ):
        got = counted(function, x)[0]
        torch.testing.assert_close(got, function(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_training(dtype):
    def function(x, w):
        h = F.relu(F.conv2d(x, w, padding=1))
        low = F.avg_pool2d(F.max_pool2d(h, 2), 3, 2, 1)
        up = F.interpolate(F.interpolate(low, scale_factor=2), scale_factor=2, mode="bilinear")
        return (up * h).tanh() + F.adaptive_avg_pool2d(h, 1)

    compiled = firesteel.compile(function, wait=True, fullgraph=True)
    for _ in range(2):
        x, w = torch.randn(2, 3, 64, 72, dtype=dtype), torch.randn(4, 3, 3, 3, dtype=dtype)
        sides = []
        for side in (compiled, function):
            inputs = [x.clone().requires_grad_(), w.clone().requires_grad_()]
            firesteel.reset_native_counters()
            result = side(*inputs)
            sides.append([result, *torch.autograd.grad(result.square().sum(), inputs)])
            if side is compiled:
                assert firesteel.native_counters()["aten_ops"] == 2  # the convolution and its gradient
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
            pooled, places = F.max_pool2d(x, 3, 3, 1, return_indices=True)
            pool = ([3, 3], [3, 3], [1, 1])
            for f in (lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, size=(90, 70)),
                      lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
                      lambda x: torch.ops.aten.upsample_nearest2d_backward(x, [40, 44], [2, 3, 20, 22], 2.0, 2.0),
                      lambda x: torch.ops.aten.upsample_bilinear2d_backward(x, [40, 44], [2, 3, 20, 22], False)):
                given = x[..., :40, :44].contiguous()
                torch.testing.assert_close(firesteel.trace(f, given, native=True)(given), f(given))
            for f in (lambda g, x, p: torch.ops.aten.max_pool2d_with_indices_backward(g, x, *pool, [1, 1], False, p),
                      lambda g, x, p: torch.ops.aten.avg_pool2d_backward(g, x, *pool, False, False, None)):
                got = firesteel.trace(f, pooled, x, places, native=True)(pooled, x, places)
                torch.testing.assert_close(got, f(pooled, x, places), rtol=0, atol=0)
        print(firesteel.native_counters()["aten_ops"])
    """
    lines = "\n".join(line[8:] for line in program.splitlines())
    environment = {**os.environ, "FIRESTEEL_CPU": target, "FIRESTEEL_SMALLEST_KERNEL": "1"}
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
