"""Memory of kernels' results: used again once a tensor is gone, and never before."""

import gc
import os
import threading

import pytest
import torch

import firesteel
from firesteel import _C

LARGE = 1 << 18  # float32 elements: 1 MiB
PROBE = firesteel.trace(lambda x: (x + 1) * 2, torch.ones(4), native=True)
firesteel.reset_native_counters()
PROBE(torch.ones(4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")


@pytest.fixture(autouse=True)
def empty():
    gc.collect()
    _C._empty_pool()
    yield
    _C._empty_pool()


@pytest.fixture(scope="module")
def graph():
    return firesteel.trace(lambda x: x.sin() + x, torch.ones(LARGE), native=True)


def pool():
    counts = firesteel.native_counters()
    return counts["buffers_fresh"], counts["buffers_reused"]


def test_memory_is_used_again(graph):
    x = torch.randn(LARGE)
    fresh, reused = pool()
    place = graph(x).data_ptr()
    for _ in range(5):
        assert graph(x).data_ptr() == place
    assert pool() == (fresh + 1, reused + 5)
    assert firesteel.native_counters()["idle_bytes"] >= LARGE * 4


def test_results_that_live_keep_their_memory(graph):
    results = [graph(torch.full((LARGE,), float(i))) for i in range(4)]
    assert len({result.data_ptr() for result in results}) == 4
    for i, result in enumerate(results):
        torch.testing.assert_close(result, torch.full((LARGE,), float(i)).sin() + i)


def test_a_view_keeps_the_memory(graph):
    view = graph(torch.ones(LARGE))[10:20]
    expected = view.clone()
    for _ in range(3):
        graph(torch.zeros(LARGE))
    assert torch.equal(view, expected)


def test_memory_kept_for_the_backward(graph):
    x = torch.randn(LARGE, requires_grad=True)
    compiled = firesteel.compile(lambda x: (x.sin() * x).cos(), backend="firesteel")
    results = [compiled(x) for _ in range(3)]
    for result in results:
        x.grad = None
        result.sum().backward()
        got = x.grad.clone()
        x.grad = None
        (x.sin() * x).cos().sum().backward()
        torch.testing.assert_close(got, x.grad)


def test_results_can_be_resized_and_shared(graph):
    result = graph(torch.ones(LARGE))
    result.resize_(2 * LARGE)
    result.fill_(1)
    again = graph(torch.ones(LARGE))
    assert again.data_ptr() != result.data_ptr()
    array = again.numpy()
    place = again.data_ptr()
    del again
    assert graph(torch.zeros(LARGE)).data_ptr() != place
    assert array[0] == pytest.approx(1.8414709)


def test_idle_memory_is_given_back(graph):
    graph(torch.ones(LARGE))
    assert firesteel.native_counters()["idle_bytes"] > 0
    _C._empty_pool()
    assert firesteel.native_counters()["idle_bytes"] == 0


def test_threads(graph):
    wrong = []

    def work(number):
        for _ in range(30):
            if not torch.equal(graph(torch.full((LARGE,), float(number))), expected[number]):
                wrong.append(number)

    expected = [graph(torch.full((LARGE,), float(i))).clone() for i in range(4)]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_child_process_can_use_it(graph):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        graph(torch.ones(LARGE))
        child = os.fork()
        if child == 0:
            value = graph(torch.ones(LARGE))[0].item()
            os._exit(0 if abs(value - 1.8414709) < 1e-5 else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(threads)


def pooled(function, *args):
    """How many buffers one call takes, once native code is there; its results are checked."""
    compiled = firesteel.compile(function, wait=True)
    torch.testing.assert_close(compiled(*args), function(*args), rtol=1e-4, atol=1e-4)
    firesteel.reset_native_counters()
    before = firesteel.native_counters()
    result = compiled(*args)
    after = firesteel.native_counters()
    assert after["kernels_run"] - before["kernels_run"] > 0
    torch.testing.assert_close(result, function(*args), rtol=1e-4, atol=1e-4)
    return sum(after[kind] - before[kind] for kind in ("buffers_fresh", "buffers_reused"))


def test_a_kernel_writes_over_what_nobody_needs_any_more():
    x, w = torch.randn(512, 300), torch.randn(300, 400) * 0.05
    with torch.no_grad():
        assert pooled(lambda x, w: torch.relu(x @ w) + 1, x, w) == 0


@pytest.mark.parametrize("held", ["given back", "read later", "a view", "an input", "another layout"])
def test_but_not_over_what_somebody_does(held):
    def function(x, w):
        y = x @ w
        if held == "given back":
            return y, torch.relu(y) + 1
        if held == "read later":
            return (torch.relu(y) + 1) @ w.t() + y @ w.t()
        if held == "a view":
            return y[:, :200], torch.relu(y) + 1
        if held == "an input":
            return torch.relu(x) + 1
        return (torch.relu(y.t()) + 1).contiguous()

    x, w = torch.randn(512, 300), torch.randn(300, 400) * 0.05
    with torch.no_grad():
        assert pooled(function, x, w) >= 1
