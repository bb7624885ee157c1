"""Objects that tell when they go: a variable gives one up at that instruction, not when a piece has run."""

import gc
import weakref

import pytest
import torch
from against_eager import BACKENDS

import firesteel


class Counted:
    alive = 0

    def __init__(self):
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


class Watched:
    pass


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()
    Counted.alive = 0


def deleted(x):
    y = x * 2
    held = Counted()
    seen = [Counted.alive]
    del held
    seen.append(Counted.alive)
    return y + 1, seen


def overwritten(x):
    held = Counted()
    seen = [Counted.alive]
    held = x * 2
    seen.append(Counted.alive)
    return held + 1, seen


def in_a_list(x):
    held = [Counted(), Counted()]
    seen = [Counted.alive]
    del held
    seen.append(Counted.alive)
    return x * 2, seen


def given(x, held=None):
    held = held or Counted()
    seen = [Counted.alive]
    held = None
    seen.append(Counted.alive)
    return x * 2, seen, held


def watched(x):
    held = Watched()
    reference = weakref.ref(held)
    seen = [reference() is held]
    del held
    seen.append(reference() is None)
    return x * 2, seen


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [deleted, overwritten, in_a_list, given, watched], ids=lambda p: p.__name__)
def test_objects_go_when_eager_lets_them_go(program, backend):
    compiled = firesteel.compile(program, backend=backend)
    x = torch.ones(3)
    for _ in range(3):
        expected, got = program(x), compiled(x)
        assert torch.equal(got[0], expected[0])
        assert got[1:] == expected[1:]
        assert Counted.alive == 0
    assert firesteel.counters()["captured"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_objects_are_no_reason_to_break(backend):
    kept = Counted(), Watched()
    references = [weakref.ref(kept[1])] + [kept] * 8

    def program(x):
        first, second = kept
        y = x * 2 if isinstance(first, Counted) and second else x
        model = torch.nn.ReLU()
        y = model(y)
        model = None
        x = y + 1
        return x, model

    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3))[0], program(torch.ones(3))[0])
    assert firesteel.counters()["captured"] == 1
    assert references


def looked_at(x):
    held = Watched()
    reference = weakref.ref(held)
    y = x * 2
    other = Watched()
    other.held = held
    del held
    there = reference() is not None  # puts it on the stack once more
    z = y + 1
    del other
    return z, there, reference() is None


def subclassed(x):
    class Base:
        pass

    class Derived(Base):
        pass

    y = x + 1
    before = len(Base.__subclasses__())
    del Derived
    gc.collect()
    return y, before, len(Base.__subclasses__())


@pytest.mark.parametrize("function", [looked_at, subclassed])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_on_the_stack_is_gone_with_it(function, backend):
    compiled = firesteel.compile(function, backend=backend)
    for _ in range(3):
        x = torch.randn(3)
        found, *seen = compiled(x)
        expected, *wanted = function(x)
        assert seen == wanted
        assert torch.equal(found, expected)
    assert firesteel.counters()["hits"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_that_somebody_refers_to_weakly_cost_no_break(backend):
    model = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(4)])
    references = [weakref.ref(layer) for layer in model]
    x = torch.randn(2, 3)
    firesteel.reset_counters()
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x))
    assert (firesteel.counters()["captured"], firesteel.counters()["breaks"]) == (1, {})
    assert all(reference() is not None for reference in references)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nor_do_they_where_something_was_written(backend):
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)])
    references = [weakref.ref(layer) for layer in model]
    seen = {"calls": 0, "names": []}

    def f(x):
        seen["calls"] += 1
        seen["names"] = [*seen["names"][:0], "f"]
        for _, layer in enumerate(model):
            x = layer(x)
        return x

    x = torch.randn(2, 4)
    firesteel.reset_counters()
    torch.testing.assert_close(firesteel.compile(f, backend=backend)(x), f(x))
    assert seen == {"calls": 2, "names": ["f"]}
    assert not firesteel.counters()["breaks"]
    assert all(reference() is not None for reference in references)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_taken_out_of_its_holder_goes_at_once(backend):
    class Layer:
        def __call__(self, x):
            return x + 1

    def f(x, holder):
        layer = holder["layer"]
        holder["layer"] = None
        x = layer(x)
        layer = None
        return x, holder["reference"]() is None

    def run(function):
        holder = {"layer": Layer()}
        holder["reference"] = weakref.ref(holder["layer"])
        return function(torch.ones(2), holder)

    expected = run(f)
    compiled = firesteel.compile(f, backend=backend)
    for _ in range(2):
        result = run(compiled)
        torch.testing.assert_close(result[0], expected[0])
        assert result[1] == expected[1]
