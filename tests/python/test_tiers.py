"""ATen runs the first calls, native code takes over: when it is there, never in between, whatever else happens."""

import gc
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import torch

import firesteel
from firesteel import _C

firesteel.trace(lambda x: (x + 1) * 2, torch.ones(2), native=True)(torch.ones(2))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")


@pytest.fixture(autouse=True)
def in_the_background(monkeypatch):
    """Kernels as of a new process, none of them begun until `let_go()`."""
    monkeypatch.delenv("FIRESTEEL_WAIT")
    _C._forget_kernels()
    firesteel.reset_native_counters()
    firesteel.reset_counters()
    _C._hold_background_compiler(True)
    yield
    let_go()


def let_go():
    _C._hold_background_compiler(False)


def program(x, w):
    return torch.tanh(x * w + 1).sigmoid() * x


def ran():
    counts = firesteel.native_counters()
    firesteel.reset_native_counters()
    return {"native": counts["kernels_run"] > 0, "aten": counts["aten_ops"] > 0}


IN_ATEN = {"native": False, "aten": True}
IN_NATIVE = {"native": True, "aten": False}


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the native code never came"
        time.sleep(0.005)


def check(compiled, *, backward=True):
    """One call on fresh values against eager."""
    x, w = torch.randn(5, 7, requires_grad=True), torch.randn(7, requires_grad=True)
    result = compiled(x, w)
    expected = program(x, w)
    torch.testing.assert_close(result, expected)
    if backward:
        given = torch.autograd.grad(result.square().sum(), [x, w])
        torch.testing.assert_close(given, torch.autograd.grad(expected.square().sum(), [x, w]))
    return ran()


def test_calls_do_not_wait():
    compiled = firesteel.compile(program, backend="firesteel", fullgraph=True)
    for _ in range(3):
        assert check(compiled) == IN_ATEN
    let_go()
    until(lambda: check(compiled, backward=False) == IN_NATIVE)
    until(lambda: check(compiled)["native"])
    assert firesteel.counters()["fallbacks"] == {}


def test_a_backward_switches_by_itself():
    compiled = firesteel.compile(program, backend="firesteel", fullgraph=True)
    x, w = torch.randn(5, 7, requires_grad=True), torch.randn(7, requires_grad=True)
    waiting = compiled(x, w).square().sum()
    let_go()
    until(lambda: check(compiled, backward=False) == IN_NATIVE)
    expected = torch.autograd.grad(program(x, w).square().sum(), [x, w])
    until(lambda: torch.autograd.grad(waiting, [x, w], retain_graph=True) and ran()["native"])
    torch.testing.assert_close(torch.autograd.grad(waiting, [x, w]), expected)


@pytest.mark.parametrize("how", ["wait", "environment", "deterministic"])
def test_who_insists_waits(how, monkeypatch):
    if how == "environment":
        monkeypatch.setenv("FIRESTEEL_WAIT", "1")
    torch.use_deterministic_algorithms(how == "deterministic")
    try:
        compiled = firesteel.compile(program, backend="firesteel", fullgraph=True, wait=how == "wait")
        assert check(compiled, backward=False) == IN_NATIVE
    finally:
        torch.use_deterministic_algorithms(False)


def test_known_kernels_run_at_once():
    check(firesteel.compile(program, backend="firesteel", wait=True))
    assert check(firesteel.compile(program, backend="firesteel"), backward=False) == IN_NATIVE


def test_what_nobody_wants_any_more_is_not_compiled():
    compiled = firesteel.compile(lambda x: (x + 1.25) * x, backend="firesteel")
    compiled(torch.ones(3))
    other = firesteel.compile(program, backend="firesteel")
    other(torch.ones(3), torch.ones(3))
    del compiled
    gc.collect()
    firesteel.reset_native_counters()
    let_go()
    until(lambda: other(torch.ones(3), torch.ones(3)) is not None and ran()["native"])
    _C._hold_background_compiler(True)
    firesteel.reset_native_counters()
    firesteel.compile(lambda x: (x + 1.25) * x, backend="firesteel", wait=True)(torch.ones(3))
    assert firesteel.native_counters()["kernels_compiled"] == 1, "the dropped function's kernel was there"


def test_threads_see_one_tier_or_the_other():
    compiled = firesteel.compile(program, backend="firesteel", fullgraph=True)
    check(compiled)
    wrong, stop = [], threading.Event()

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        while not stop.is_set():
            x, w = torch.randn(5, 7, generator=generator), torch.randn(7, generator=generator)
            if not torch.allclose(compiled(x, w), program(x, w), atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    let_go()
    try:
        until(lambda: firesteel.native_counters()["kernels_run"] > 100)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


PRELUDE = """
    import os, time, torch, firesteel
    from firesteel import _C
    def program(x):
        return torch.tanh(x * 3 + 1).sigmoid() * x
    x = torch.randn(11)
    def native(compiled):
        firesteel.reset_native_counters()
        torch.testing.assert_close(compiled(x), program(x))
        return firesteel.native_counters()["kernels_run"] > 0
    def wait_for(compiled):
        end = time.monotonic() + 120
        while not native(compiled):
            assert time.monotonic() < end
            time.sleep(0.005)
    compiled = firesteel.compile(program, backend="firesteel")
"""


def run_alone(body, **environment):
    """A program in a process of its own; gives what it wrote."""
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", text], env=os.environ | environment, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("when", ["held", "running", "done"])
def test_a_fork_in_between(when):
    # Autograd's and OpenMP's threads are not the question here: one thread.
    out = run_alone(
        f"""
        torch.set_num_threads(1)
        _C._hold_background_compiler({when == "held"})
        others = [firesteel.compile(lambda x, k=k: (x * k).sin() + x * k, backend="firesteel") for k in range(20)]
        assert not native(compiled) or {when != "held"}
        for other in others:
            other(x)
        if {when == "done"}:
            wait_for(compiled)
        child = os.fork()
        _C._hold_background_compiler(False)
        wait_for(compiled)
        for k, other in enumerate(others):
            torch.testing.assert_close(other(x), (x * k).sin() + x * k)
        new = firesteel.compile(lambda x: x.cos() * x - 1, backend="firesteel")
        new(x)
        if child:
            assert os.waitpid(child, 0)[1] == 0
            print("both")
        """
    )
    assert out == "both\n"


@pytest.mark.parametrize("how", ["end", "exit", "exception"])
def test_the_interpreter_may_end_in_between(how):
    end = {"end": "", "exit": "import sys; sys.exit(0)", "exception": "try:\n    1 / 0\nexcept ZeroDivisionError: pass"}
    body = """
        many = [firesteel.compile(lambda x, k=k: (x * k).sin() + x * k, backend="firesteel") for k in range(30)]
        for one in many:
            one(x)
        compiled(x)
        print("here")
    """
    assert run_alone(textwrap.dedent(body) + end[how]) == "here\n"


@pytest.mark.parametrize("wait", [False, True])
def test_a_kernel_that_cannot_be_compiled_leaves_aten(wait, capfd):
    _C._fail_kernels(True)
    try:
        compiled = firesteel.compile(program, backend="firesteel", fullgraph=True, wait=wait)
        assert check(compiled) == IN_ATEN
        let_go()
        if not wait:  # else the kernel below might be the first to fail, which is the one told of
            until(lambda: firesteel.native_counters()["kernels_failed"] > 0)
        firesteel.compile(lambda x: (x + 1.5) * x, backend="firesteel", wait=True)(torch.ones(3))
        until(lambda: check(compiled) == IN_ATEN and firesteel.native_counters()["kernels_failed"] == 0)
    finally:
        _C._fail_kernels(False)
    told = capfd.readouterr().err
    assert told.count("firesteel: a kernel could not be compiled, its operators run in ATen") == 1
    path = pathlib.Path(told.rpartition("written to ")[2].strip())
    assert "made to fail" in path.read_text()
    assert "tanh" in path.read_text()
    path.unlink()
