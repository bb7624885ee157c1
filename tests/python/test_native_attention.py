"""Attention by code of ours against ATen's: shapes, masks, what is not finite, gradients, processors, threads."""

import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import firesteel

ours = torch.ops.firesteel.attention
theirs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
INF = float("inf")


@pytest.fixture(autouse=True)
def by_rule(monkeypatch):
    """Ours wherever it can be: ATen may be the faster one for a shape, and would then be compared with itself."""
    monkeypatch.setenv("FIRESTEEL_MEASURE", "0")
    firesteel._C._forget_contests()
    yield
    monkeypatch.undo()
    firesteel._C._forget_contests()


def made(batch, heads, length, width, layout):
    if layout == "rows apart":
        return torch.randn(batch, length, heads, width).transpose(1, 2)
    return torch.randn(batch, heads, length, width)


def mask_of(kind, batch, heads, queries, keys):
    if kind == "full":
        mask = torch.randn(batch, heads, queries, keys)
        mask[..., 0, :] = -INF  # this query sees nothing
        return mask
    if kind == "keys":
        mask = torch.zeros(batch, 1, 1, keys)
        mask[..., (keys + 1) // 2 :] = -INF
        return mask
    if kind == "across":
        return torch.randn(keys, queries).t().expand(batch, heads, queries, keys)
    return None


def compared(query, key, value, causal=False, mask=None, scale=None):
    got = ours(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
    wanted = theirs(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
    for mine, eager, loose in zip(got, wanted, (2e-6, 1e-5), strict=True):
        assert mine.stride() == eager.stride()
        torch.testing.assert_close(mine, eager, rtol=2e-5, atol=loose, equal_nan=True)


@pytest.mark.parametrize("layout", ["contiguous", "rows apart"])
@pytest.mark.parametrize("width", [16, 64, 80])
@pytest.mark.parametrize("kind", ["plain", "causal", "full", "keys", "across"])
def test_like_aten(kind, width, layout):
    torch.manual_seed(0)
    for batch, heads, queries, keys in [
        (1, 1, 1, 1), (2, 3, 5, 16), (1, 2, 6, 17), (2, 1, 7, 197), (1, 3, 64, 300), (1, 2, 197, 197), (1, 1, 9, 2100),
    ]:  # fmt: skip
        query, key, value = (made(batch, heads, length, width, layout) for length in (queries, keys, keys))
        mask = mask_of(kind, batch, heads, queries, keys)
        compared(query, key, value, kind == "causal", mask, scale=0.3 if keys == 16 else None)


def test_what_it_leaves_to_aten():
    odd = torch.randn(2, 2, 5, 20)  # a width that no vector fits
    compared(odd, odd, odd)
    halves = torch.randn(1, 2, 5, 16, dtype=torch.bfloat16)
    torch.testing.assert_close(ours(halves, halves, halves)[0], theirs(halves, halves, halves)[0])


def test_nothing_at_all():
    for shape in (2, 0, 5, 16), (0, 2, 5, 16), (2, 2, 0, 16):
        query = torch.randn(shape)
        result, logs = ours(query, query, query)
        assert (result.shape, logs.shape) == (query.shape, query.shape[:3])


@pytest.mark.parametrize("number", [float("nan"), INF, -INF, 1e30, 1e-42])
@pytest.mark.parametrize("where", ["query", "key", "value"])
def test_what_is_not_finite(where, number):
    torch.manual_seed(0)
    # In a row of less than 16 scores ATen takes NaN for nothing: there ours is NaN, as it is in longer ones.
    given = {name: torch.randn(1, 2, 29, 32) for name in ("query", "key", "value")}
    given[where][0, 1, 3, 5] = number
    torch.testing.assert_close(ours(**given)[0], theirs(**given)[0], rtol=2e-5, atol=2e-6, equal_nan=True)


class Attending(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.out = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)

    def forward(self, x, causal):
        batch, length, width = x.shape
        parts = self.wide(x).view(batch, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts, is_causal=causal)
        return self.out(attended.transpose(1, 2).reshape(batch, length, width))


@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_trains_like_eager(causal):
    firesteel.reset_counters()
    torch.manual_seed(0)
    model = Attending()
    compiled = firesteel.compile(model, fullgraph=True, wait=True)
    for length in 33, 33, 50:
        x = torch.randn(2, length, 64, requires_grad=True)
        found = []
        for call in compiled, model:
            result = call(x, causal)
            found.append((result, torch.autograd.grad(result.square().sum(), [x, *model.parameters()])))
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    assert firesteel.counters()["fallbacks"] == {}


def names_of(call):
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    return {event.key for event in seen.key_averages()}


def test_it_runs_in_compiled_code(monkeypatch):
    firesteel.trace(lambda x: x.sum(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
    if firesteel.native_counters()["native_ops"] == 0:
        pytest.skip("built without LLVM")
    x = torch.randn(1, 4, 40, 32)

    def attend(x):
        return F.scaled_dot_product_attention(x, x, x)

    with torch.no_grad():
        compiled = firesteel.compile(attend, wait=True)
        compiled(x)
        assert "firesteel::attention" in names_of(lambda: compiled(x))
        monkeypatch.setenv("FIRESTEEL_ATTENTION", "aten")
        firesteel.reset()
        again = firesteel.compile(attend, wait=True)
        again(x)
        assert "firesteel::attention" not in names_of(lambda: again(x))


def test_threads_change_nothing():
    before = torch.get_num_threads()
    query, key, value = (made(2, 3, 101, 64, "rows apart") for _ in range(3))
    try:
        found = []
        for threads in 1, 2, 3:
            torch.set_num_threads(threads)
            found.append(ours(query, key, value, 0.0, True))
    finally:
        torch.set_num_threads(before)
    for more in found[1:]:
        torch.testing.assert_close(more, found[0], rtol=0, atol=0)


@pytest.mark.parametrize("target", ["avx512", "avx2", "sse"])
def test_processors(target):
    program = """
import torch, firesteel
torch.manual_seed(0)
for queries, keys, width, causal in (13, 70, 48, False), (70, 70, 64, True), (6, 5, 16, False):
    query, key = torch.randn(2, 3, queries, width), torch.randn(2, 3, keys, width)
    got = torch.ops.firesteel.attention(query, key, key * 2, 0.0, causal)
    wanted = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, key * 2, 0.0, causal)
    torch.testing.assert_close(got, wanted, rtol=2e-5, atol=1e-5)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "FIRESTEEL_CPU": target}
    )
    assert done.returncode == 0, done.stderr
