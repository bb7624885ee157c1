"""Operands read across their memory, by tiles, against eager: parts of tiles, types, targets, open sizes."""

import os
import subprocess
import sys

import pytest
import torch

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sum(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

SHAPES = [(64, 64), (16, 16), (17, 31), (33, 16), (8, 300), (300, 9), (7, 40), (40, 7), (129, 65)]
TYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.int16,
    torch.uint8,
]


def compared(function, *args, ran):
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    got = traced(*args)
    counts = firesteel.native_counters()
    wanted = function(*args)
    torch.testing.assert_close(got, wanted, rtol=0, atol=0)
    assert got.stride() == wanted.stride()
    assert (counts["native_ops"], counts["aten_ops"]) == ran


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_transposed_operand(shape, dtype):
    rows, columns = shape
    x, y = torch.randint(0, 90, shape).to(dtype), torch.randint(0, 90, (columns, rows)).to(dtype)
    bias = torch.randint(0, 90, (rows, 1)).to(dtype)
    compared(lambda x, y: (x + y.t()) * 2, x, y, ran=(2, 0))
    compared(lambda x, y, bias: (x + y.t()) * bias - y.t(), x, y, bias, ran=(3, 0))
    wide = torch.randint(0, 90, (columns + 3, rows + 5)).to(dtype)
    compared(lambda x, w: x * 3 + w[2:-1, 4:-1].t(), x, wide, ran=(2, 0))
    batched = torch.randint(0, 90, (3, columns, rows)).to(dtype)
    compared(lambda x, b: x + b.transpose(1, 2) * 2, x, batched, ran=(2, 0))


@pytest.mark.parametrize("threads", [1, 2])
def test_ranges_of_threads_cut_rows(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for rows, columns in ((501, 333), (1000, 259)):
            x, y = torch.randn(rows, columns), torch.randn(columns, rows)
            compared(lambda x, y: x + y.t(), x, y, ran=(1, 0))
            compared(lambda x, y: (x * 2 + y.t()).relu(), x, y, ran=(3, 0))
            compared(lambda y: y.t().contiguous(), y, ran=(1, 0))
    finally:
        torch.set_num_threads(before)


def test_long_bodies():
    x, y = torch.rand(70, 90), torch.rand(90, 70)

    def function(x, y):
        return (x.exp() + y.t().sin()) * y.t().cos()

    got = firesteel.trace(function, x, y, native=True)(x, y)
    torch.testing.assert_close(got, function(x, y))


def test_other_orders():
    x = torch.randn(3, 20, 17, 24)
    compared(lambda x: (x * 2).permute(0, 2, 3, 1).contiguous(), x, ran=(2, 0))
    compared(lambda x: (x + 1).relu().permute(0, 3, 1, 2).contiguous(), x, ran=(3, 0))
    compared(lambda x, y: x.transpose(-1, -2) * 0.5 + y, x, torch.randn(3, 20, 24, 17), ran=(2, 0))


def test_open_sizes():
    def function(x, y):
        return (x + y.t()) * 2

    compiled = firesteel.compile(function, wait=True, isolate_recompiles=True)
    for rows, columns in ((40, 50), (41, 53), (64, 64), (9, 131), (131, 9), (16, 17), (300, 200)):
        x, y = torch.randn(rows, columns), torch.randn(columns, rows)
        firesteel.reset_native_counters()
        torch.testing.assert_close(compiled(x, y), function(x, y), rtol=0, atol=0)
        assert firesteel.native_counters()["aten_ops"] == 0
    assert firesteel.native_counters()["open_kernels"] == 1


def test_what_is_written_in_place():
    def function(x, y):
        x.add_(y.t())
        return x * 2

    compiled = firesteel.compile(function, wait=True)
    for _ in range(2):
        x, y = torch.randn(300, 400), torch.randn(400, 300)
        own, theirs = x.clone(), x.clone()
        torch.testing.assert_close(compiled(own, y), function(theirs, y), rtol=0, atol=0)
        torch.testing.assert_close(own, theirs, rtol=0, atol=0)
    square = torch.randn(128, 128)
    own, theirs = square.clone(), square.clone()
    torch.testing.assert_close(compiled(own, own.clone()), function(theirs, theirs.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("target", ["avx2", "sse"])
def test_on_lesser_machines(target):
    program = """
        import torch, firesteel
        for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.int64):
            for rows, columns in ((64, 64), (17, 31), (9, 100), (100, 9)):
                x, y = torch.randint(0, 90, (rows, columns)).to(dtype), torch.randint(0, 90, (columns, rows)).to(dtype)
                f = lambda x, y: (x + y.t()) * 2 - y.t()
                torch.testing.assert_close(firesteel.trace(f, x, y, native=True)(x, y), f(x, y), rtol=0, atol=0)
        print(firesteel.native_counters()["aten_ops"])
    """
    lines = "\n".join(line[8:] for line in program.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, env={**os.environ, "FIRESTEEL_CPU": target}
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
