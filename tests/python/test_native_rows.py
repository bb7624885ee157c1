"""Reductions in native kernels, alone and fused, against eager: values, layouts, accuracy, and what ran where."""

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


def counted(function, *args):
    """The result, and what running it did."""
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    result = traced(*args)
    counts = firesteel.native_counters()
    return result, (counts["native_ops"], counts["aten_ops"], counts["kernels_run"])


def same(got, wanted, **tolerance):
    if isinstance(wanted, tuple):
        for ours, theirs in zip(got, wanted, strict=True):
            same(ours, theirs, **tolerance)
        return
    torch.testing.assert_close(got, wanted, equal_nan=True, **tolerance)
    assert got.stride() == wanted.stride()


def no_worse(got, wanted, exact):
    """As near to the result in double precision as eager is, give or take a few roundings."""
    assert (got.dtype, got.shape, got.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
    assert torch.equal(got.isnan(), exact.isnan())
    if got.dtype is torch.float64:  # nothing more exact to compare with
        torch.testing.assert_close(got, wanted, rtol=1e-13, atol=1e-11, equal_nan=True)
        return
    scale = torch.finfo(got.dtype).eps * exact.abs().nan_to_num().max().clamp(min=1e-30)
    ours, theirs = ((side.double() - exact).nan_to_num().abs().max() for side in (got, wanted))
    assert ours <= 2 * theirs + 4 * scale, f"{ours / scale:.1f} roundings off, eager {theirs / scale:.1f}"


FLOATING = ["sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "norm"]
LAYOUTS = {
    "rows": ((37, 129), (-1,)),
    "columns": ((37, 129), (0,)),
    "all": ((37, 129), (0, 1)),
    "middle": ((5, 33, 17), (1,)),
    "outer and inner": ((5, 33, 17), (0, 2)),
    "channels": ((3, 5, 7, 9), (0, 2, 3)),
    "short rows": ((100, 3), (1,)),
    "one long row": ((1, 100003), (1,)),
    "many chunks": ((300, 1001), (0, 1)),
    "few tall columns": ((3001, 37), (0,)),
    "tall columns": ((2000, 600), (0,)),
}


def reduction(name, dims, keepdim=False):
    if name == "norm":
        return lambda x: torch.linalg.vector_norm(x, dim=dims, keepdim=keepdim)
    if name == "prod":
        return lambda x: x.prod(dims[0], keepdim=keepdim)
    return lambda x: getattr(torch, name)(x, dims, keepdim=keepdim)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FLOATING)
def test_floats(name, layout, dtype):
    shape, dims = LAYOUTS[layout]
    if name == "prod" and len(dims) > 1:
        dims = dims[:1]
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype)
    function = reduction(name, dims)
    got, counts = counted(function, x)
    no_worse(got, function(x), function(x.double()))
    few_long_rows = layout in ("one long row", "many chunks") and name in ("var", "std", "logsumexp")
    assert counts == ((0, 1, 0) if few_long_rows else (1, 0, 1))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "var"])
@pytest.mark.parametrize("dims", [(0,), (2,), (0, 2), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_views(name, dims, keepdim):
    """Transposed, sliced and expanded inputs are read where they lie."""
    base = torch.randn(4, 6, 5, 16)
    function = reduction(name, dims, keepdim)
    for x in (base, base.permute(0, 2, 3, 1), base.permute(3, 2, 1, 0), base[:, ::2, 1:, 3:11],
              base[:, :, :, :1].expand(4, 6, 5, 7)):  # fmt: skip
        got, counts = counted(function, x)
        no_worse(got, function(x), function(x.double()))
        assert counts == (1, 0, 1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_whole_numbers_and_truths(dtype, dims):
    x = torch.randint(-100, 100, (23, 57)).to(dtype)
    functions = [lambda x: x.sum(dims), lambda x: x.amax(dims), lambda x: x.amin(dims), lambda x: x.any(dims[0]),
                 lambda x: (x != 0).all(dims[0]), lambda x: x.prod(dims[0])]  # fmt: skip
    for function in functions:
        got, (native, aten, _) = counted(function, x)
        same(got, function(x))
        assert (native >= 1, aten) == (True, 0)


def test_nan_and_infinity():
    nan, inf = float("nan"), float("inf")
    x = torch.randn(8, 100)
    x[1, 3], x[2, 99], x[3, 0], x[4, 70] = nan, nan, inf, -inf
    x[5, 2], x[5, 3], x[6], x[7] = inf, -inf, -inf, inf
    for name in FLOATING:
        for dims in ((0,), (1,)):
            function = reduction(name, dims)
            got, counts = counted(function, x)
            same(got, function(x), rtol=1e-5, atol=1e-5)
            assert counts == (1, 0, 1)
    for function in (lambda x: x.softmax(-1), lambda x: x.log_softmax(-1)):
        got, counts = counted(function, x)
        same(got, function(x), rtol=1e-5, atol=1e-6)
        assert counts == (1, 0, 1)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0,), (), (1,), (4, 1)])
def test_empty_and_single(shape):
    x = torch.randn(shape)
    for function in (lambda x: x.sum(-1) * 2, lambda x: x.mean() + 1, lambda x: (x + 1).softmax(-1)):
        got, _ = counted(function, x)
        same(got, function(x))


def test_sums_of_large_tensors_are_as_exact_as_eager():
    torch.manual_seed(0)
    for shape, dims in (((3_000_000,), (0,)), ((200, 30_001), (1,)), ((20_000, 90), (0,)), ((5000, 1200), (0,))):
        x = torch.rand(shape)
        function = reduction("sum", dims)
        got, counts = counted(function, x)
        no_worse(got, function(x), function(x.double()))
        assert counts == (1, 0, 1)


def masked_softmax(x, mask, bias):
    return (x * 0.125 + bias).masked_fill(mask, float("-inf")).softmax(-1)


def residual_layer_norm(x, y, weight, bias):
    h = x + y
    return F.layer_norm(h, h.shape[-1:], weight, bias, 1e-5), h


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def standardised(x):
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def mean_square(x, y):
    return ((x - y) ** 2).mean()


def gelu_and_its_column_sums(x, y):
    h = F.gelu(x) * y
    return h, h.sum(0)


def two_rows_together(x, y):
    return (x.sum(-1) + y.amax(-1)) * 2


def of_a_view(x):
    rows = (x * 2).view(6, -1, 11)
    return rows.sum(1), rows / rows.sum(1, keepdim=True).abs().clamp(min=0.5)


FUSED = [
    (masked_softmax, [(2, 4, 33, 35), "mask(33, 35)", (2, 1, 1, 35)], (4, 0, 1)),
    (residual_layer_norm, [(7, 11, 130), (7, 11, 130), (130,), (130,)], (2, 0, 1)),
    (rms_norm, [(9, 5, 67), (67,)], (6, 0, 1)),
    (standardised, [(67, 45)], (6, 0, 1)),
    (mean_square, [(41, 51), (41, 51)], (3, 0, 1)),
    (mean_square, [(410, 511), (410, 511)], (3, 0, 1)),
    (gelu_and_its_column_sums, [(123, 77), (123, 77)], (3, 0, 1)),
    (two_rows_together, [(19, 31), (19, 31)], (4, 0, 1)),
    (of_a_view, [(12, 44)], (6, 0, 1)),
]


def tensors(shapes, dtype):
    torch.manual_seed(1)
    return [torch.rand(33, 35) > 0.7 if shape == "mask(33, 35)" else torch.randn(shape).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", range(len(FUSED)))
def test_fused(case, dtype):
    function, shapes, wanted_counts = FUSED[case]
    args = tensors(shapes, dtype)
    got, counts = counted(function, *args)
    same(got, function(*args), rtol=2e-5, atol=1e-5)
    assert counts == wanted_counts


def test_a_long_row_is_not_passed_over_twice_by_one_thread():
    x = torch.randn(700, 701)
    got, counts = counted(lambda x: x.exp() / x.exp().sum() * 2, x)
    same(got, x.exp() / x.exp().sum() * 2)
    assert counts == (4, 0, 2)  # the threads share the sum, and then the rest


@pytest.mark.parametrize("target", ["sse", "avx2", "avx512"])
def test_every_target(target):
    program = """
        import torch, firesteel
        from torch.nn import functional as F
        torch.manual_seed(0)
        x, y = torch.randn(37, 77), torch.randn(77)
        functions = [
            lambda x, y: (x + y).softmax(-1), lambda x, y: F.layer_norm(x + y, (77,), y, y),
            lambda x, y: (x * y).sum(0), lambda x, y: (x * y).softmax(0), lambda x, y: x.double().var(-1),
            lambda x, y: x.to(torch.bfloat16).mean(-1),
            lambda x, y: (x > y).any(0), lambda x, y: (x * 100).to(torch.int32).amax(-1), lambda x, y: x.half().sum(0),
        ]
        for f in functions:
            torch.testing.assert_close(firesteel.trace(f, x, y, native=True)(x, y), f(x, y), rtol=2e-5, atol=1e-5)
        z = torch.randn(301, 1003)
        for f in (lambda z: (z * z).sum(), lambda z: z[:, :50].sum(0), lambda z: z.amax()):
            torch.testing.assert_close(firesteel.trace(f, z, native=True)(z), f(z), rtol=1e-5, atol=1e-4)
        print(firesteel.native_counters()["aten_ops"])
    """
    lines = "\n".join(line[8:] for line in program.splitlines())
    environment = {**os.environ, "FIRESTEEL_CPU": target}
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_threads_do_not_change_results():
    x = torch.randn(513, 1031)
    functions = [lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum(-1), lambda x: x.softmax(-1)]
    threads = torch.get_num_threads()
    for function in functions:
        traced = firesteel.trace(function, x, native=True)
        results = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(traced(x))
        torch.set_num_threads(threads)
        assert torch.equal(results[0], results[1])
        assert torch.equal(results[0], results[2])


def trained(function, args, native=True):
    """Results and gradients, by native code or eagerly, and what ran where."""
    args = [arg.detach().clone().requires_grad_(arg.is_floating_point()) for arg in args]
    call = firesteel.trace(function, *args, grad=True, native=True) if native else function
    firesteel.reset_native_counters()
    result = call(*args)
    results = result if isinstance(result, tuple) else (result,)
    torch.manual_seed(5)
    sum((part * torch.randn(part.shape).to(part.dtype)).sum() for part in results).backward()
    counts = firesteel.native_counters()
    return [part.detach() for part in results], [arg.grad for arg in args if arg.requires_grad], counts


def attention_weights(x, mask):
    return x.masked_fill(mask, float("-inf")).softmax(-1)


def cross_entropy(x, y):
    return F.cross_entropy(x, y.softmax(-1))


def norm_of_product(x, y, weight, bias):
    return F.layer_norm(x * y, x.shape[-1:], weight, bias)


def plain_norm(x):
    return F.layer_norm(x, x.shape[-2:])


def columns(x):
    return x.softmax(0) + x.log_softmax(1)


TRAINED = [
    (attention_weights, [(2, 4, 33, 35), "mask(33, 35)"], 0),
    (residual_layer_norm, [(7, 11, 130), (7, 11, 130), (130,), (130,)], 0),
    (norm_of_product, [(7, 130), (7, 130), (130,), (130,)], 0),
    (plain_norm, [(7, 11, 13)], 0),
    (rms_norm, [(9, 5, 67), (67,)], 1),  # a view; in bfloat16 a cube too
    (standardised, [(67, 45)], 0),
    (cross_entropy, [(31, 47), (31, 47)], 0),
    (columns, [(31, 47)], 0),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("case", range(len(TRAINED)))
def test_gradients(case, dtype):
    function, shapes, aten_ops = TRAINED[case]
    args = tensors(shapes, dtype)
    results, gradients, counts = trained(function, args)
    wanted_results, wanted_gradients, _ = trained(function, args, native=False)
    ours, theirs = results + gradients, wanted_results + wanted_gradients
    if dtype is torch.bfloat16:
        exact_args = [arg.double() if arg.is_floating_point() else arg for arg in args]
        exact_results, exact_gradients, _ = trained(function, exact_args, native=False)
        exact = [x.double() for x in exact_results + exact_gradients]
    for i in range(len(ours)):
        if dtype is torch.bfloat16:
            no_worse(ours[i], theirs[i], exact[i])
        else:
            same(ours[i], theirs[i], rtol=2e-4, atol=2e-5)
    assert counts["aten_ops"] - aten_ops in ((0, 1) if dtype is torch.bfloat16 else (0,))
