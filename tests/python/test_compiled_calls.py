"""Compiled functions among threads, interrupts, debuggers, modes, recursion and each other."""

import gc
import os
import signal
import sys
import threading
import weakref

import pytest
import torch
from against_eager import BACKENDS
from torch import nn

import firesteel


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()
    torch.manual_seed(0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def test_an_interrupt_ends_the_call():
    def endless(x):
        while True:
            x = x

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        firesteel.compile(endless)(torch.randn(2))
    assert not firesteel.is_compiling()


def test_generators_and_coroutines(backend):
    @firesteel.compile(backend=backend)
    def count(x):
        yield x
        yield x + 1

    assert len(list(count(torch.ones(2)))) == 2
    assert firesteel.counters()["fallbacks"] == {"FS-GENERATOR": 1}


def test_wrong_arguments(backend):
    compiled = firesteel.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(TypeError, match="positional argument"):
        compiled()
    with pytest.raises(TypeError, match="unexpected keyword"):
        compiled(torch.randn(2), z=1)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2) + 1)
    assert firesteel.counters()["captured"] == 1


def test_deep_recursion_is_compiled_level_by_level(backend):
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    compiled = firesteel.compile(down, backend=backend)
    x = torch.zeros(2)
    assert torch.equal(compiled(x, 20), x + 20)
    for depth in (300, 300, 250, 301):
        assert torch.equal(compiled(x, depth), x + depth)
    counters = firesteel.counters()
    # Twenty levels at once; a level by its value, with its number as an input, and the last one.
    assert counters["captured"] == 4
    assert counters["fallbacks"] == {}

    def endless(x):
        return endless(x)

    with pytest.raises(RecursionError):
        firesteel.compile(endless, backend=backend)(x)


def test_tracing_and_profiling_tools(backend):
    seen = []

    def tracer(frame, event, argument):
        seen.append(frame.f_code.co_name)
        return tracer

    def function(x):
        return x + 1

    compiled = firesteel.compile(function, backend=backend)
    sys.settrace(tracer)
    try:
        result = compiled(torch.ones(2))
    finally:
        sys.settrace(None)
    assert torch.equal(result, torch.ones(2) + 1)
    assert "function" in seen
    assert firesteel.counters()["fallbacks"] == {"FS-MONITORED": 1}
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2) + 1)
    assert firesteel.counters()["captured"] == 1


def test_tensor_subclasses_are_followed_and_modes_run_eagerly(backend):
    class Tagged(torch.Tensor):
        pass

    compiled = firesteel.compile(lambda x: x + 1, backend=backend)
    tagged = torch.ones(2).as_subclass(Tagged)
    assert type(compiled(tagged)) is Tagged
    assert firesteel.counters()["breaks"] == firesteel.counters()["fallbacks"] == {}
    assert firesteel.counters()["captured"] == 1

    class Seeing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            ops.append(function)
            return function(*args, **(kwargs or {}))

    ops, x = [], torch.ones(2)
    compiled(x)
    with Seeing():
        compiled(x)
    assert len(ops) == 1
    assert firesteel.counters()["fallbacks"]["FS-MODES"] == 1


def test_compiled_functions_inside_others(backend):
    @firesteel.compile(backend=backend)
    def low(x):
        return x * 2

    @firesteel.compile(backend=backend, fullgraph=True)
    def high(x):
        return low(x) + 1

    x = torch.randn(3)
    assert torch.equal(high(x), x * 2 + 1)
    assert firesteel.counters()["captured"] == 1
    assert str(firesteel.trace(low, x)).count("aten.mul") == 1


def test_threads(backend):
    def function(x, n):
        for _ in range(n):
            x = x * 2 + 1
        return x

    compiled = firesteel.compile(function, backend=backend)
    wrong = []

    def work(n):
        for i in range(50):
            x = torch.randn(n, i % 2 + 1)
            if not torch.equal(compiled(x, n), function(x, n)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert firesteel.counters()["fallbacks"] == {}


def test_nothing_is_kept_alive(backend):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.forward = firesteel.compile(self.forward, backend=backend, fullgraph=True)

        def forward(self, x):
            return self.inner(x)

    model = Model()
    x = torch.randn(2, 3)
    assert torch.equal(model(x), model.inner(x))
    assert firesteel.counters()["captured"] == 1
    before = sys.getrefcount(x)
    for _ in range(10):
        model(x)
    assert sys.getrefcount(x) == before
    gone = weakref.ref(model.inner)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("fullgraph", [True, False])
def test_locals_of_frames_in_a_traceback_can_be_read(backend, fullgraph):
    offset = 1

    class Base:
        def add(self, x, y):
            return x + y + offset

    class Derived(Base):
        def add(self, x, y):
            return super().add(x, y)

    def function(x, y):
        kept = offset
        return Derived().add(x, y) + kept

    compiled = firesteel.compile(function, backend=backend, fullgraph=fullgraph)
    with pytest.raises((RuntimeError, firesteel.GraphBreakError)) as raised:
        compiled(torch.ones(3), torch.ones(4))
    names = []
    for entry in raised.traceback:
        names.append((entry.frame.code.name, sorted(entry.frame.f_locals)))
    assert names
    assert torch.equal(compiled(torch.ones(3), torch.ones(3)), torch.full((3,), 4.0))
