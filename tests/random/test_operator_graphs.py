"""Random graphs of torch operators give in native code what they give eagerly: 100, or 2,000 with FIRESTEEL_FULL=1.

FIRESTEEL_SEED chooses other graphs; `-s` shows how many operators ran in kernels and how many in ATen. While a graph
runs its text stands in a file, which a crash leaves behind.
"""

import collections
import dataclasses
import os
import re
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from operator_graphs import graphs

import firesteel

FULL = os.environ.get("FIRESTEEL_FULL") == "1"
SEED = int(os.environ.get("FIRESTEEL_SEED", "0"))
RUNNING = Path(tempfile.gettempdir(), f"firesteel-operator-graph-{os.getpid()}.txt")
TOLERANCE = {torch.float64: 1e-8, torch.float32: 3e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}
# What PyTorch's functionalization, or we, refuse with a clear error.
REFUSALS = ("internal overlap", "more than one element of the written-to tensor", "share memory")


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Every operator that can have one gets a kernel; one thread, as the tensors are tiny."""
    firesteel.reset_native_counters()
    firesteel.trace(lambda x: (x + 1) * 2, torch.ones(64), native=True)(torch.ones(64))
    if firesteel.native_counters()["native_ops"] == 0:
        pytest.skip("built without LLVM")
    monkeypatch.setenv("FIRESTEEL_SMALLEST_KERNEL", "1")
    monkeypatch.setenv("FIRESTEEL_CACHE", "0")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(function, arguments):
    """Results, arguments afterwards, and gradients where there are any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = function(*arguments)
    seen = [x.detach().clone() for x in (*results, *arguments)]
    leaves = [x for x in arguments if x.requires_grad]
    outputs = [x for x in results if x.requires_grad]
    if not outputs:
        return seen, []
    generator = torch.Generator().manual_seed(3)
    tangents = [torch.randn(x.shape, dtype=torch.float64, generator=generator).to(x.dtype) for x in outputs]
    gradients = torch.autograd.grad(outputs, leaves, tangents, allow_unused=True)
    # A gradient of zeros may be given as none.
    return seen, [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, leaves, strict=True)]


def in_double(graph):
    """The same graph with all floats in double precision."""
    text = re.sub(r"\.(float|half|bfloat16|double)\(\)", ".to(torch.float64, copy=True)", graph.text())
    space = {"torch": torch, "F": torch.nn.functional}
    exec(text, space)
    return space["graph"]


def widened(arguments):
    return [x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in arguments]


def same_bits(got, wanted):
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if wanted.is_floating_point():
        unequal = ~((got == wanted) & (got.signbit() == wanted.signbit()) | (got.isnan() & wanted.isnan()))
    else:
        unequal = got != wanted
    assert not unequal.any(), f"{got[unequal][:4]} instead of {wanted[unequal][:4]} at {unequal.nonzero()[:4].tolist()}"


def close(got, wanted, exact, tolerance):
    """Within the tolerance, or a few times as far from eager as eager is from double precision.

    Where eager's own result has little to do with the exact one, overflow or rounding decides, and may do so otherwise.
    """
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if not wanted.is_floating_point():
        settled = wanted == exact
        assert torch.equal(got[settled], wanted[settled])
        return
    got, wanted, exact = got.double(), wanted.double(), exact.double()
    plain = wanted.isfinite() & exact.isfinite() & ((wanted - exact).abs() <= 0.25 * exact.abs() + tolerance)
    settled = (wanted == exact) | (wanted.isnan() & exact.isnan())
    special = ~wanted.isfinite() & settled
    torch.testing.assert_close(got[special], wanted[special], rtol=0, atol=0, equal_nan=True)
    got, wanted, exact = got[plain], wanted[plain], exact[plain]
    allowed = tolerance * (1 + wanted.abs()) + 8 * (wanted - exact).abs()
    far = ~((got - wanted).abs() <= allowed)
    assert not far.any(), f"{got[far][:4]} instead of {wanted[far][:4]}, exactly {exact[far][:4]}"


def narrowest(graph):
    types = {one.dtype for one in graph.inputs}
    text = graph.text()
    names = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
    for name, dtype in names.items():
        if name in types or {"bfloat16": ".bfloat16()", "float16": ".half()", "float32": ".float()"}[name] in text:
            return TOLERANCE[dtype]
    return TOLERANCE[torch.float64] if not any(t.startswith(("int", "bool", "uint")) for t in types) else 3e-5


def check(graph, counted):
    function = graph.function()
    try:
        wanted = run(function, graph.arguments(2))
    except RuntimeError:  # a write that autograd forbids, or one to memory that holds an element twice
        if graph.grad:
            check(dataclasses.replace(graph, grad=False), counted)
            return
        with pytest.raises((RuntimeError, firesteel.Error)):
            run(firesteel.trace(function, *graph.arguments(2), native=True), graph.arguments(2))
        counted["refused by eager"] += 1
        return
    try:
        traced = firesteel.trace(function, *graph.arguments(1), grad=graph.grad, native=True)
    except (firesteel.MutationError, RuntimeError) as error:
        if any(refusal in str(error) for refusal in REFUSALS):
            counted["refused"] += 1
            return
        raise
    firesteel.reset_native_counters()
    got = run(traced, graph.arguments(2))
    counters = firesteel.native_counters()
    counted.update(graphs=1, with_kernels=counters["native_ops"] > 0, backward=len(wanted[1]) > 0)
    counted.update({key: counters[key] for key in ("native_ops", "aten_ops", "kernels_run")})
    if graph.exact and not graph.grad:
        for a, e in zip(got[0], wanted[0], strict=True):
            same_bits(a, e)
        return
    reference = run(in_double(graph), widened(graph.arguments(2)))
    for mine, theirs, exact in zip(got, wanted, reference, strict=True):
        for a, e, x in zip(mine, theirs, exact, strict=True):
            close(a, e, x, narrowest(graph))


def many(test, count, shard):
    """Runs a test on so many graphs, the same ones every time; each shard has its own."""
    chosen = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    seed(SEED * 1000 + shard)(chosen(given(graphs())(test)))()


@pytest.mark.parametrize("shard", range(20 if FULL else 4))
def test_native_graphs_equal_eager(shard):
    counted = collections.Counter()

    def eager_and_native(graph):
        note(graph.text())
        RUNNING.write_text(f"{graph!r}\n\n{graph.text()}")
        try:
            check(graph, counted)
        finally:
            RUNNING.unlink()

    try:
        many(eager_and_native, 100 if FULL else 25, shard)
    finally:
        print(dict(counted))
    assert counted["with_kernels"] > counted["graphs"] // 2
