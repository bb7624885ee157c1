"""What a compiled function has looked at lives no longer because of it; what it compiled for that goes with it."""

import copy
import enum
import gc
import sys
import warnings
import weakref

import pytest
import torch
from against_eager import BACKENDS
from torch import nn

import firesteel


def entries(compiled):
    return len(firesteel._C._entries(compiled))


class Holder:
    def __init__(self):
        self.scale, self.tensor = 2, torch.ones(3)


class Slotted:
    __slots__ = ("__weakref__", "tensor")

    def __init__(self):
        self.tensor = torch.ones(3)


def local_class():
    class Local:
        factor = 3

        def __init__(self):
            super().__init__()
            self.tensor = torch.ones(3)

        @property
        def doubled(self):
            return self.tensor * 2

        @staticmethod
        def add(x):
            return x + 1

        @classmethod
        def named(cls, x):
            return x * cls.factor

    return Local()


def local_enum():
    held = Holder()
    held.kind = enum.Enum("Local", ["FIRST"]).FIRST
    return held


def reads_attributes(x, held):
    return x * held.scale + held.tensor


def reads_slots(x, held):
    return x + held.tensor


def calls_methods(x, held):
    return held.add(held.named(x)) + held.doubled + isinstance(held, Slotted)


def makes_another(x, held):
    return type(held)().tensor + x


def compares_constants(x, held):
    return x + held.tensor if held.kind.name == "FIRST" else x


def calls_a_module(x, held):
    return held(x)


def calls_a_function(x, held):
    return held(x, held)


def local_function():
    scale, tensor = 2, torch.ones(3)
    return lambda x, self: x * scale + tensor


def breaks_in_between(x, held):
    y = x + held.tensor
    print(end="")
    held.tensor = y
    return y * held.tensor


def in_a_container(x, held):
    return x + held[0]["k"].tensor + held[1]


CASES = {
    "attributes": (reads_attributes, Holder, lambda h: [h, h.tensor]),
    "slots": (reads_slots, Slotted, lambda h: [h, h.tensor]),
    "methods": (calls_methods, local_class, lambda h: [h, h.tensor, type(h), type(h).add, type(h).doubled.fget]),
    "instances": (makes_another, local_class, lambda h: [h, type(h)]),
    "constants": (compares_constants, local_enum, lambda h: [h, h.tensor, h.kind, type(h.kind)]),
    "modules": (
        calls_a_module,
        lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3).eval()),
        lambda m: [m, m[0], m[0].weight, m[1].running_mean],
    ),
    "functions": (calls_a_function, local_function, lambda f: [f, f.__closure__[1].cell_contents]),
    "breaks": (breaks_in_between, Holder, lambda h: [h, h.tensor]),
    "containers": (
        in_a_container,
        lambda: [{"k": Holder()}, torch.ones(3)],
        lambda c: [c[0]["k"], c[0]["k"].tensor, c[1]],
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_arguments_die_and_their_entries_with_them(case, backend):
    function, make, parts = CASES[case]
    compiled = firesteel.compile(function, backend=backend)
    x = torch.ones(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the limit is not reached
        for number in range(10):
            held = make()
            for again in (False, True):
                expected = function(x, copy.deepcopy(held))
                firesteel.reset_counters()
                assert torch.equal(compiled(x, held), expected)
                counted = firesteel.counters()
                assert counted["hits"] == 1
                assert not counted["fallbacks"]
                assert counted["captured"] > 0 or again or number  # tensors that come and go become inputs
            gone = [weakref.ref(part) for part in parts(held)]
            del held
            gc.collect()
            assert [ref() for ref in gone] == [None] * len(gone)
    assert entries(compiled) <= 3


def test_many_entries_of_the_living_reach_the_limit():
    compiled = firesteel.compile(reads_attributes, backend="eager", recompile_limit=2)
    holders = [Holder() for _ in range(3)]
    for i, holder in enumerate(holders):
        holder.tensor = torch.ones((3,) * (1 + i))
    with pytest.warns(RuntimeWarning, match="was compiled 2 times"):
        [compiled(torch.ones((3,) * (1 + i)), holder) for i, holder in enumerate(holders)]


def test_what_never_lives_to_a_second_call_is_not_compiled_for_ever():
    compiled = firesteel.compile(calls_methods, backend="eager", recompile_limit=1)

    def call():
        compiled(torch.ones(3), local_class())
        gc.collect(0)

    with pytest.warns(RuntimeWarning, match="an object that was used is gone"):
        [call() for _ in range(40)]
    firesteel.reset_counters()
    call()
    assert firesteel.counters()["captured"] == 0


def test_a_dead_object_is_not_taken_for_a_new_one_at_its_address():
    compiled = firesteel.compile(lambda x, held: (x + held.tensor, held.tensor), backend="eager")
    seen, again = set(), 0
    for i in range(200):
        held = Holder()
        held.tensor = torch.full((3,), float(i))
        again += id(held.tensor) in seen
        seen.add(id(held.tensor))
        result, tensor = compiled(torch.zeros(3), held)
        assert tensor is held.tensor
        assert result[0] == i
    assert again > 10


def test_the_function_dies_with_its_code_while_the_region_lives():
    """A function called across a break is compiled in pieces of its own, which go with its code."""

    def outer(x, inner):
        print(end="")
        return inner(x) + 1

    compiled = firesteel.compile(outer, backend="eager")

    def once():
        namespace = {"torch": torch}
        exec("def inner(x):\n    y = x * 2\n    print(end='')\n    return y", namespace)
        inner = namespace["inner"]
        compiled(torch.ones(3), inner)
        return weakref.ref(inner), weakref.ref(inner.__code__)

    kept = [once() for _ in range(5)]
    gc.collect()
    assert [ref() for pair in kept for ref in pair] == [None] * 10


def test_a_compiled_method_dies_with_its_object():
    class Model:
        def __init__(self):
            self.weight = torch.ones(3)
            self.step = firesteel.compile(self.forward)

        def forward(self, x):
            return x * self.weight

    model = Model()
    model.step(torch.ones(3))
    gone = [weakref.ref(model), weakref.ref(model.weight), weakref.ref(model.step), weakref.ref(Model)]
    del model, Model
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4


def test_objects_die_while_their_entry_runs():
    """The last reference goes in the middle of the call that reads it: the call still ends as in eager."""

    class Local:
        def __init__(self):
            self.tensor = torch.ones(3)

    holders = [Local()]

    def function(x):
        y = x + holders[0].tensor
        holders.clear()
        return y * 2, Local  # noqa: F821

    compiled = firesteel.compile(function, backend="eager")
    for _ in range(3):
        holders[:] = [Local()]
        result, cls = compiled(torch.ones(3))
        assert torch.equal(result, torch.full((3,), 4.0))
        assert cls is Local
    gone = weakref.ref(Local)
    del Local, cls, compiled, function
    gc.collect()
    assert gone() is None


def test_death_at_the_recursion_limit_is_noticed():
    compiled = firesteel.compile(reads_slots, backend="eager")
    held = [Slotted()]
    [compiled(torch.ones(3), held[0]) for _ in range(2)]

    def deep(n):
        if n:
            return deep(n - 1)
        held.clear()
        return entries

    limit = sys.getrecursionlimit()
    for n in range(limit - 200, limit):
        if not held:
            held.append(Slotted())
            [compiled(torch.ones(3), held[0]) for _ in range(2)]
        try:
            deep(n)
        except RecursionError:
            held.clear()
            break
        assert entries(compiled) == 0
    assert entries(compiled) == 0


def test_a_tensor_that_a_class_lets_go():
    class Holder:
        held = torch.ones(3)

    compiled = firesteel.compile(lambda x: Holder.held * x, backend="eager")
    for value in (1.0, 2.0, 3.0):
        Holder.held = torch.full((3,), value)
        assert compiled(torch.ones(3)).tolist() == [value] * 3
        last = weakref.ref(Holder.held)
    Holder.held = None
    gc.collect()
    assert last() is None
