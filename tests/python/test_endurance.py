"""Many compilations, many calls, many threads: nothing piles up, nothing is kept alive, nothing is mixed up."""

import contextlib
import cProfile
import gc
import itertools
import os
import subprocess
import sys
import threading
import weakref

import pytest
import torch
from against_eager import BACKENDS
from torch import nn

import firesteel

FULL = bool(os.environ.get("FIRESTEEL_FULL"))


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Log:
    def __init__(self):
        self.events, self.last = [], None


LOG = Log()


def with_everything(x, n):
    LOG.events.append(n)
    with torch.no_grad():
        y = x * n
    len(str(n).encode())  # a break
    try:
        {}[n]
    except KeyError as error:
        LOG.last = error.args
    LOG.events.clear()
    return [y + part for part in (part for part in (x, y))]


def grows(action, count, rounds=4):
    """What every round of many calls leaves behind, after the first has filled what is kept for good: the least of the
    rounds, since the test runner's own thread makes objects at any time."""
    sizes = []
    for _ in range(rounds):
        for _ in range(count // rounds):
            action()
        gc.collect()
        sizes.append((len(gc.get_objects()), resident()))
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in itertools.pairwise(sizes)]
    return min(objects for objects, _ in steps), min(memory for _, memory in steps)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compilations_leave_nothing(backend):
    x = torch.randn(3)

    def action():
        compiled = firesteel.compile(with_everything, backend=backend)
        compiled(x, 2)
        compiled(x, 3)

    before = sys.getrefcount(x), sys.getrefcount(with_everything.__code__), sys.getrefcount(LOG)
    objects, memory = grows(action, 10_000 if FULL else 500)
    assert objects <= 5
    assert memory < 8 << 20
    assert (sys.getrefcount(x), sys.getrefcount(with_everything.__code__), sys.getrefcount(LOG)) == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_leave_nothing(backend):
    x = torch.randn(3)
    compiled = firesteel.compile(with_everything, backend=backend)
    compiled(x, 2)
    before = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(LOG)
    objects, memory = grows(lambda: compiled(x, 2), 1_000_000 if FULL else 50_000)
    after = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(LOG)
    assert objects <= 5
    assert memory < 4 << 20
    assert (after[0], after[2]) == (before[0], before[2])
    assert abs(after[1] - before[1]) < 1000


@pytest.mark.parametrize("backend", BACKENDS)
def test_refused_captures_leave_nothing(backend):
    x = torch.randn(3)
    compiled = firesteel.compile(with_everything, backend=backend, fullgraph=True)

    def action():
        with contextlib.suppress(firesteel.GraphBreakError):
            compiled(x, 2)

    objects, memory = grows(action, 5_000 if FULL else 400)
    assert objects <= 5
    assert memory < 8 << 20


def test_pieces_die_with_their_function_and_module():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def function(x):
        y = model(x)  # noqa: F821
        print(end="")
        return y + 1

    compiled = firesteel.compile(function)
    compiled(torch.ones(2, 3))
    gone = [weakref.ref(held) for held in (model, model[0], model[0].weight, function)]
    del compiled, function, model
    gc.collect()
    assert [held() for held in gone] == [None] * len(gone)


@pytest.mark.parametrize("backend", BACKENDS)
def test_eight_threads(backend, capsys):
    """All call and compile the same functions; some write the objects these use."""

    class Settings:
        def __init__(self):
            self.scale, self.items = 2, [1, 2]

    settings = Settings()

    def reading(x):
        scale, items = settings.scale, list(settings.items)
        return x * scale + len(items), scale, len(items)

    def writing(x, log):
        log.append(x.shape[0])
        y = x + len(log)
        print(end="")
        log.append("end")
        return y * 2

    shared = [firesteel.compile(f, backend=backend, recompile_limit=10**6) for f in (reading, writing)]
    wrong, done = [], threading.Event()

    def check(n):
        for i in range(60):
            functions = shared
            if i % 10 == 0:
                functions = [firesteel.compile(f, backend=backend, recompile_limit=10**6) for f in (reading, writing)]
            x, log = torch.randn(n, i % 3 + 1), []
            result, scale, length = functions[0](x)
            if not torch.equal(result, x * scale + length):
                wrong.append((n, i, "read"))
            if not torch.equal(functions[1](x, log), (x + 1) * 2) or log != [n, "end"]:
                wrong.append((n, i, "written", log))

    def guarded(n):
        try:
            check(n)
        except BaseException as error:
            wrong.append(repr(error))

    def change():
        i = 0
        while not done.wait(0.0002):  # as often as it goes without keeping the others from running
            i += 1
            settings.scale = i % 3
            settings.items.append(i) if i % 4 else settings.items.clear()
            if i % 100 == 0:
                gc.collect()

    checkers = [threading.Thread(target=guarded, args=(n,)) for n in range(1, 7)]
    writers = [threading.Thread(target=change) for _ in range(2)]
    for thread in checkers + writers:
        thread.start()
    for thread in checkers:
        thread.join(timeout=300)
    done.set()
    for thread in writers:
        thread.join()
    assert not wrong


def test_tracing_and_profiling_while_others_compile():
    def function(x, n):
        print(end="")
        return x * n

    wrong = []

    def work(n):
        compiled = firesteel.compile(function, recompile_limit=64)
        for i in range(40):
            x = torch.ones(n)
            if not torch.equal(compiled(x, i % 5), x * (i % 5)):
                wrong.append((n, i))

    def traced():
        sys.settrace(lambda *event: None)
        try:
            work(3)
        finally:
            sys.settrace(None)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)] + [threading.Thread(target=traced)]
    for thread in threads:
        thread.start()
    profile = cProfile.Profile()
    profile.enable()
    work(4)
    profile.disable()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_first_compilations_of_a_process_in_several_threads():
    program = """
import threading, torch, firesteel
functions = [firesteel.compile(lambda x, n=n: x * n, isolate_recompiles=True) for n in range(8)]
threads = [threading.Thread(target=f, args=(torch.ones(2),)) for f in functions]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(firesteel.counters()["captured"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout == "8\n"
