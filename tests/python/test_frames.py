"""Frames on any CPython: handed over at every instruction, ended, traced back, counted and left without a trace."""

import contextlib
import gc
import subprocess
import sys
import traceback
import weakref

import pytest
import torch

import firesteel

EVERY = [0, 1, 2, 3, 5, 7]


@pytest.fixture(params=EVERY, ids=lambda n: f"every{n}")
def every(request):
    firesteel._C._break_every(request.param)
    yield request.param
    firesteel._C._break_every(0)


class Manager:
    def __init__(self, log, swallows=False):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.log.append(kind and kind.__name__)
        return self.swallows


def loop_try_with(x, log, n=3):
    total = x
    for i in range(n):
        try:
            with Manager(log, swallows=i == 1) as manager:
                total = total * 2 + i
                if i == 1:
                    raise KeyError("swallowed")
                if i == 2:
                    raise ValueError("caught")
            log.append(manager.swallows)
        except ValueError as error:
            log.append(str(error))
        finally:
            log.append(i)
    else:
        total = total - 1
    return total


def comprehensions(x, log):
    i = 5
    squares = [i * i for i in range(4) if i != 2]
    table = {k: x + v for k, v in zip("ab", squares, strict=False)}
    firsts = {row[0] for row in [squares[:2], squares[1:]]}
    log += [i, squares, sorted(firsts)]
    return sum([j * v for j, v in enumerate(table.values())])


def slices(x, log):
    items = list(range(8))
    items[2:4] = [x.dim()] * 3
    log.append(items[1:-1])
    log.append(items[::2])
    return x[:1] + x[1:]


def cells(x, log):
    scale = 2

    def inner(y):
        nonlocal scale
        scale += 1
        return [y * scale for _ in range(2)]

    first, second = inner(x)
    log.append(scale)
    return first + second + len([(lambda: k)() for k in range(3)])


def generators(x, log):
    def numbers():
        try:
            received = yield 1
            log.append(received)
            result = yield from [2, 3]
            log.append(result)
        finally:
            log.append("closed")
        return 4

    def outer():
        log.append((yield from numbers()))

    total = x
    for number in outer():
        total = total + number
    return total


def reraised(x, log):
    try:
        try:
            x = x + 1
            log[1000]
        except IndexError as error:
            x = x * 2
            raise RuntimeError("again") from error
    except RuntimeError as error:
        log.append(type(error.__cause__).__name__)
        log.append(type(error.__context__).__name__)
    return x - 1 if +len(log) else x


class Base:
    def scale(self, x, by=2):
        return x * by

    @property
    def shift(self):
        return 1


class Derived(Base):
    def scale(self, x, by=3):
        return super().scale(x, by=by) + super(Derived, self).scale(x) + super().shift  # noqa: UP008


def supers(x, log):
    return Derived().scale(x, by=4)


def match(x, log):
    for subject in [1, "a", (1, 2), {"k": x}, None]:
        match subject:
            case int(n):
                log.append(("int", n))
            case (a, *rest):
                log.append(("sequence", a, rest))
            case {"k": value}:
                x = x + value
            case None:
                log.append("none")
            case _:
                log.append("other")
    return x


def until(x, log):
    n = 0
    while n < 10:
        n += 1
        if n % 2:
            continue
        if n > 6:
            break
        x = x + n
    log.append(n)
    return x if (n and x is not None) or n == 3 else None


PROGRAMS = [loop_try_with, comprehensions, slices, cells, generators, reraised, supers, match, until]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_break_after_every_so_many_instructions(program, every, backend):
    compiled = firesteel.compile(program, backend=backend, recompile_limit=100)
    for size in (2, 2, 3, 2):
        x = torch.arange(float(size))
        expected_log, log = [], []
        expected = program(x, expected_log)
        torch.testing.assert_close(compiled(x, log), expected)
        assert log == expected_log


def raises(x, depth):
    x = x + 1
    if depth:
        return raises(x, depth - 1) + 1
    try:
        raise ValueError("deep")
    finally:
        x = x + 2


def entries(error):
    """The traceback's functions and lines, and the line each frame stands at."""
    found = [(tb.tb_frame.f_code.co_name, tb.tb_lineno) for tb in walk(error.__traceback__)]
    stands = [tb.tb_frame.f_lineno for tb in walk(error.__traceback__)]
    return found[1:], stands[1:]


def walk(tb):
    while tb:
        yield tb
        tb = tb.tb_next


def test_a_traceback_is_that_of_eager(every):
    compiled = firesteel.compile(raises, backend="eager")
    x = torch.ones(2)
    for depth in (0, 2):
        with pytest.raises(ValueError, match="deep") as plain:
            raises(x, depth)
        with pytest.raises(ValueError, match="deep") as caught:
            compiled(x, depth)
        assert entries(caught.value) == entries(plain.value)
        assert traceback.format_tb(caught.tb)[1:] == traceback.format_tb(plain.tb)[1:]


def frame_keeper(x, frames):
    x = x + 1
    frames.append(sys._getframe())
    return x * 2


def test_a_frame_object_outlives_its_frame(every):
    compiled = firesteel.compile(frame_keeper, backend="eager")
    for _ in range(3):
        plain, frames = [], []
        frame_keeper(torch.ones(2), plain)
        compiled(torch.ones(2), frames)
        assert frames[0].f_code is frame_keeper.__code__
        assert frames[0].f_lineno in range(plain[0].f_code.co_firstlineno, plain[0].f_lineno + 1)
        assert frames[0].f_locals["frames"] is frames


def constant():
    return 7


def nothing(x):
    pass


def branch(flag):
    if flag:
        return 1
    return None


def test_functions_that_return_constants(every):
    for function, arguments in [(constant, ()), (nothing, (torch.ones(1),)), (branch, (True,)), (branch, (False,))]:
        compiled = firesteel.compile(function, backend="eager")
        for _ in range(3):
            assert compiled(*arguments) is function(*arguments)


def test_infinite_recursion_is_an_error(every):
    def down(x):
        return down(x + 1)

    with pytest.raises(RecursionError):
        firesteel.compile(down, backend="eager")(torch.ones(1))
    compiled = firesteel.compile(raises, backend="eager")
    with pytest.raises(ValueError, match="deep"):
        compiled(torch.ones(1), 3)


def test_recursion_is_counted_evenly():
    def depth_left():
        try:
            return 1 + depth_left()
        except RecursionError:
            return 0

    compiled = [firesteel.compile(f, backend="eager") for f in (frame_keeper, raises, loop_try_with)]
    before = depth_left()
    for i in range(200):
        compiled[0](torch.ones(1 + i % 2), [])
        with pytest.raises(ValueError, match="deep"):
            compiled[1](torch.ones(1), 2)
        compiled[2](torch.ones(1), [])
    assert depth_left() == before


class Token:
    pass


def holds(x, token, fails):
    held = [token, x + 1]
    frames = [sys._getframe()] if fails == 2 else None
    if fails == 1:
        raise KeyError(token)
    return held[1], frames and frames[0].f_code


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_nothing_of_a_frame_is_left(every, fails):
    compiled = firesteel.compile(holds, backend="eager")
    token, x = Token(), torch.ones(2)

    def once():
        with contextlib.suppress(KeyError):
            compiled(x, token, fails)

    for _ in range(5):
        once()
    gc.collect()
    counts = [sys.getrefcount(o) for o in (token, x, holds, holds.__code__, compiled)]
    size = len(gc.get_objects())
    for _ in range(300):
        once()
    gc.collect()
    assert [sys.getrefcount(o) for o in (token, x, holds, holds.__code__, compiled)] == counts
    assert abs(len(gc.get_objects()) - size) < 20


def test_a_local_dies_with_its_frame(every):
    died = []

    def function(x):
        token = Token()
        weakref.finalize(token, died.append, 1)
        return x + 1

    compiled = firesteel.compile(function, backend="eager")
    for i in range(4):
        compiled(torch.ones(2))
        assert len(died) == i + 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_monitoring_tools_see_everything(every):
    monitoring = sys.monitoring
    compiled = firesteel.compile(loop_try_with, backend="eager")
    seen = []
    code = loop_try_with.__code__

    def watch(*arguments):
        if arguments[0] is code:
            seen.append(arguments[1])

    def new():
        return firesteel.compile(loop_try_with, backend="eager", isolate_recompiles=True)

    def lines(function):
        seen.clear()
        function(torch.ones(1), [])
        return list(seen)

    compiled(torch.ones(1), [])
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.register_callback(3, monitoring.events.LINE, watch)
        monitoring.set_events(3, monitoring.events.LINE)
        other = new()
        assert lines(other) == lines(loop_try_with) != []
        monitoring.set_events(3, 0)
        monitoring.set_local_events(3, code, monitoring.events.LINE)
        assert lines(new()) == lines(loop_try_with) != []
        monitoring.set_local_events(3, code, 0)
    finally:
        monitoring.register_callback(3, monitoring.events.LINE, None)
        monitoring.free_tool_id(3)
    log, plain = [], []
    torch.testing.assert_close(compiled(torch.ones(1), log), loop_try_with(torch.ones(1), plain))
    assert log == plain


AUDITED = """
import sys, threading
import torch
import firesteel

lock, events, inside = threading.Lock(), [], threading.local()

def hook(event, args):
    if getattr(inside, "now", False):
        return
    assert lock.acquire(timeout=5), event
    inside.now = True
    try:
        events.append(event)
        (lambda: None).__code__  # an event of its own
    finally:
        inside.now = False
        lock.release()

class Model(torch.nn.Module):
    def forward(self, x, scale=2):
        inner = lambda y: y * scale
        return inner(x.sin()) + len(inner.__code__.co_freevars)

model = Model()
sys.addaudithook(hook)
x = torch.randn(3)
for backend in ("eager", "aot_eager"):
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x))
assert "object.__getattr__" in events
counts = firesteel.counters()
assert counts["captured"] == 2 and counts["hits"] == 4 and not counts["fallbacks"], counts
"""


def test_audit_hooks_are_left_alone():
    done = subprocess.run([sys.executable, "-c", AUDITED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
