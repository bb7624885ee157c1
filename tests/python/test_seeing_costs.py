"""Time and memory of kernels and operators: measured where asked for, and told by explain() and the report."""

import json
import os
import re
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import firesteel
from firesteel import _costs
from firesteel._report import gather, page

pytestmark = pytest.mark.usefixtures("native")


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset()
    torch.manual_seed(0)
    yield
    assert not firesteel._C._is_profiling()


def work(x, w):
    return torch.relu(x @ w + 1).sum(-1)


def test_explain_tells_what_each_kernel_and_operator_costs():
    x, w = torch.randn(32, 16), torch.randn(16, 64)
    asked = firesteel.explain(work, profile=True)
    found = asked(x, w)
    torch.testing.assert_close(found.result, work(x, w))
    by_op = {cost.ops: cost for cost in found.costs}
    (product,) = [cost for cost in found.costs if not cost.is_kernel and "mm" in cost.ops[0]]
    assert (product.runs, product.phase) == (1, "forward")
    assert product.bytes_read == 4 * (32 * 16 + 16 * 64)
    assert product.bytes_made == 4 * 32 * 64
    assert product.places == ((__file__, work.__code__.co_firstlineno + 1),)
    (kernel,) = [cost for cost in found.costs if cost.is_kernel]
    assert {op.split(".")[1] for op in kernel.ops} == {"add", "relu", "sum"}
    assert (kernel.bytes_read, kernel.bytes_made) == (4 * 32 * 64, 4 * 32)
    assert found.kernels[0].cost == kernel
    assert all(cost.seconds > 0 for cost in by_op.values())
    assert found.timings["kernels"] == kernel.seconds
    assert found.costs == sorted(found.costs, key=lambda cost: -cost.seconds)
    assert "costs: " in str(found)
    assert "forward kernel add" in str(found)
    again = asked(x, w)
    assert {cost.runs for cost in again.costs} == {2}


def test_nothing_is_measured_unless_asked_for():
    x, w = torch.randn(32, 16), torch.randn(16, 64)
    found = firesteel.explain(work, wait=True)(x, w)
    assert found.kernels
    assert found.costs == []
    assert "kernels" not in found.timings
    assert "costs: " not in str(found)


def test_views_read_nothing_and_results_that_share_memory_are_not_made():
    found = firesteel.explain(lambda x: x.t().reshape(8, -1)[2:], profile=True)(torch.randn(16, 16))
    views = [cost for cost in found.costs if not cost.is_kernel and cost.ops[0] in ("aten.t", "aten.transpose.int")]
    assert all((cost.bytes_read, cost.bytes_made) == (0, 0) for cost in views)


def test_backwards_are_measured_on_whatever_thread_they_run():
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    compiled = firesteel.compile(model, wait=True)
    x = torch.randn(4, 8)
    with firesteel.profile() as on:
        assert "on" in repr(on)
        compiled(x).sum().backward()
        thread = threading.Thread(target=lambda: compiled(x).sum().backward())
        thread.start()
        thread.join()
    compiled(x)  # not measured any more
    (entry,) = [entry for entries, _ in firesteel._C._regions() for entry in entries]
    costs = _costs.costs_of(entry)
    assert {cost.phase for cost in costs} == {"forward", "backward"}
    assert {cost.runs for cost in costs} == {2}


def test_runs_before_code_was_there_are_one_figure(monkeypatch):
    monkeypatch.delenv("FIRESTEEL_WAIT")
    firesteel._C._forget_kernels()
    firesteel._C._hold_background_compiler(True)
    try:
        compiled = firesteel.compile(lambda x: torch.tanh(x * 2) + 1)
        x = torch.randn(64)
        with firesteel.profile():
            compiled(x)
            assert gather.facts()["costs"] == []
    finally:
        firesteel._C._hold_background_compiler(False)
    with firesteel.profile():
        for _ in range(2000):
            compiled(x)
            if gather.facts()["costs"]:
                break
    facts = gather.facts()
    assert facts["before"][0] >= 1
    assert "Before code was there ATen ran everything" in page.html(facts, "test")


def test_profiles_may_nest():
    with firesteel.profile():
        with firesteel.profile() as inner:
            inner.stop()
            inner.stop()
            assert firesteel._C._is_profiling()
        assert firesteel._C._is_profiling()


PROGRAM = """
import torch
@torch.compile
def work(x):
    return torch.tanh(x * 2) + 1
for _ in range(3):
    work(torch.ones(64, 64))
"""


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_report_has_the_table(way, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    options = ["--profile"] if way == "option" else []
    environment = {**os.environ, "FIRESTEEL_WAIT": "1", **({"FIRESTEEL_PROFILE": "1"} if way == "variable" else {})}
    done = subprocess.run(
        [sys.executable, "-m", "firesteel", "report", *options, "-o", "out.html", "train.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', text, re.DOTALL)[1])
    (cost,) = facts["costs"]
    assert (cost["runs"], cost["kernel"], cost["read"], cost["made"]) == (3, 0, 3 * 16384, 3 * 16384)
    table = re.search(r"<table class='costs'>.*?</table>", text, re.DOTALL)[0]
    assert "kernel 1: " in table
    assert "16.4 kB" in table
    assert "train.py:5" in table


def test_a_report_without_costs_says_how_to_get_them(tmp_path):
    compiled = firesteel.compile(lambda x: x.sin() + 1)
    compiled(torch.ones(3))
    text = page.html(gather.facts(), "test")
    assert "Nothing was measured" in text
    assert "firesteel report --profile script.py" in text
