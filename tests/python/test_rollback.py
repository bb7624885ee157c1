"""A capture that is given up leaves no trace: objects, modes and exceptions are what they were, no stand-in is left."""

import gc
import os
import signal
import sys
import threading
import types

import pytest
import torch
from against_eager import BACKENDS, picture
from torch import nn

import firesteel


class Thing:
    __slots__ = ("__dict__", "slot")
    shared = 1


class State:
    """One of everything that a function can write to."""

    def __init__(self):
        self.items, self.table, self.kinds = [1, 2], {"a": 1, "b": [2]}, {1, 2}
        self.thing, self.module = Thing(), nn.BatchNorm1d(3)
        self.thing.slot, self.thing.attribute = 1, [1]
        self.tensor, self.count = torch.ones(3), 0

    def change(self, x):
        self.items.append(x * 2)
        self.items.insert(0, 5)
        self.table["c"] = x
        self.table["b"].append(x)
        self.table.pop("a", None)
        del self.table["b"]
        self.table["b"] = [x]
        self.kinds.add(7)
        self.thing.slot = x
        self.thing.attribute = self.items
        self.thing.fresh = {"x": x}
        self.module.running_mean = self.module.running_mean + x.mean()
        self.module.eval()
        self.tensor.add_(1)
        self.count += 1

    def look(self):
        everything = [
            self.items, self.table, self.kinds, self.thing, self.tensor, self.count, self.module.training,
            dict(self.module.named_buffers()),
        ]  # fmt: skip
        identities = [id(held) for held in (*self.items, *self.table.values(), self.thing.slot, self.thing.attribute)]
        modes = (
            torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype(), sys.exc_info()[1],
            torch.is_inference_mode_enabled(), torch.get_rng_state().tolist(), gc.isenabled(),
        )  # fmt: skip
        return picture(everything), identities, modes


def stand_ins():
    gc.collect()
    return [held for held in gc.get_objects() if issubclass(type(held), torch.Tensor) and firesteel.is_traced(held)]


EARLIER = []  # tests elsewhere let traced tensors escape on purpose


@pytest.fixture(autouse=True)
def know_earlier_stand_ins():
    EARLIER[:] = stand_ins()
    yield
    EARLIER.clear()


def assert_no_stand_ins():
    known = {id(held) for held in EARLIER}
    assert not [held for held in stand_ins() if id(held) not in known]


STATE = None


def leaves_by_a_break(x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        STATE.change(x)
        torch.rand(3)
        try:
            {}["missing"]
        except KeyError:
            STATE.change(x * 2)
            print("a break while an exception is handled")


def leaves_in_a_finally(x):
    try:
        STATE.change(x)
        x.sum().numpy()
    finally:
        STATE.items.clear()


def leaves_in_a_generator(x):
    def parts():
        try:
            STATE.change(x)
            yield x.tolist()
        finally:
            STATE.table.clear()

    return list(parts())


def leaves_in_a_callback(x):
    return sorted([2, 1], key=lambda n: (STATE.change(x), x.sum().item())[1])


def raises(x):
    STATE.change(x)
    raise ValueError("of the user's")


@pytest.mark.parametrize("handling", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [leaves_by_a_break, leaves_in_a_finally, leaves_in_a_generator, leaves_in_a_callback, raises],
    ids=lambda f: f.__name__,
)
def test_fullgraph_errors_leave_nothing(program, backend, handling, monkeypatch, capsys):
    state = State()
    monkeypatch.setitem(globals(), "STATE", state)
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)

    def refused():
        before = state.look()
        wanted = ValueError if program is raises else firesteel.GraphBreakError
        with pytest.raises(wanted):
            compiled(torch.ones(3))
        assert state.look() == before

    for _ in range(2):
        try:
            if handling:
                raise LookupError("being handled around the call")
            refused()
        except LookupError:
            refused()
    assert capsys.readouterr().out == ""
    assert_no_stand_ins()


@pytest.mark.parametrize("backend", BACKENDS)
def test_interrupts_leave_nothing(backend, monkeypatch):
    state = State()
    monkeypatch.setitem(globals(), "STATE", state)

    def endless(x):
        with torch.no_grad():
            STATE.change(x)
            while True:
                x = x
                STATE.thing.attribute = x

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = state.look()
    compiled = firesteel.compile(endless, backend=backend)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(torch.ones(3))
    finally:
        timer.cancel()
        timer.join()
    assert state.look() == before
    assert not firesteel.is_compiling()
    assert_no_stand_ins()


@pytest.mark.parametrize("backend", BACKENDS)
def test_captures_that_succeed_leave_no_stand_ins(backend, monkeypatch, capsys):
    state = State()
    monkeypatch.setitem(globals(), "STATE", state)
    compiled = firesteel.compile(leaves_by_a_break, backend=backend)
    for _ in range(2):
        modes = state.look()[2][:3]
        state.table["a"] = 1
        compiled(torch.ones(3))
        assert state.look()[2][:3] == modes
    assert_no_stand_ins()


@pytest.mark.parametrize("backend", BACKENDS)
def test_exceptions_leave_what_eager_leaves(backend, monkeypatch):
    looks = []
    for compile_it in (lambda f: f, lambda f: firesteel.compile(f, backend=backend)):
        state = State()
        monkeypatch.setitem(globals(), "STATE", state)
        function = compile_it(raises)
        for _ in range(2):
            state.table["a"] = 1
            with pytest.raises(ValueError, match="of the user's"):
                function(torch.ones(3))
            look = state.look()
            looks.append((look[0], look[2][:3]))
    assert looks[:2] == looks[2:]
    assert_no_stand_ins()


def test_the_class_of_a_module_is_put_back():
    class Other(types.ModuleType):
        answer = 42

    module = types.ModuleType("made")

    def function(x):
        module.__class__ = Other
        return x + module.answer + x.sum().item()

    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(function, backend="eager", fullgraph=True)(torch.ones(2))
    assert type(module) is types.ModuleType
    assert torch.equal(firesteel.compile(function, backend="eager")(torch.ones(2)), torch.full((2,), 45.0))
    assert type(module) is Other
