"""Objects that C code compares by what they are: which of them are one and the same is guarded."""

import pytest
import torch

import firesteel


class Thing:
    def method(self):
        return 1


class Equal:
    def __eq__(self, other):
        return NotImplemented

    def __hash__(self):
        return 7


def makes_function():
    def function(x):
        return x

    return function


ONE_FUNCTION = makes_function()

KINDS = {
    "object": Thing,
    "own equality": Equal,
    "module": lambda: torch.nn.Linear(1, 1),
    "function": makes_function,
    "method": lambda: Thing().method,
    "class": lambda: type("Made", (), {}),
    "exception": lambda: ValueError("text"),
    "object in a tuple": lambda: (Thing(), 1),
}

PROGRAMS = {
    "dict": lambda a, b, c: len({a: 1, b: 2, c: 3}),
    "dict by key": lambda a, b, c: {a: 1, b: 2}[c] if c in {a: 1, b: 2} else 0,  # noqa: SIM401
    "set": lambda a, b, c: len({a, b, c}),
    "set of a list": lambda a, b, c: len(set([a, b, c])),  # noqa: C405
    "in a list": lambda a, b, c: (a in [b], a in [c, b]),
    "index": lambda a, b, c: [b, a, c].index(c),
    "count": lambda a, b, c: (a, b, c).count(a),
    "equal": lambda a, b, c: (a == b, a != c, [a] == [b], (a, b) == (c, b)),
    "remove": lambda a, b, c: [one for one in [a, b, c] if one != b].__len__(),
    "dict.get": lambda a, b, c: {a: 1}.get(b, {c: 5}.get(a)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_which_are_the_same(program, kind):
    def function(x, a, b, c):
        return x + 1, PROGRAMS[program](a, b, c)

    compiled = firesteel.compile(function, backend="eager")
    p, q, r = (KINDS[kind]() for _ in range(3))
    x = torch.ones(2)
    for given in [(p, q, r), (p, p, q), (p, q, p), (p, q, q), (p, p, p), (q, p, r), (q, q, q)] * 2:
        assert compiled(x, *given)[1] == function(x, *given)[1]


def test_more_than_a_few():
    things = [Thing() for _ in range(20)]

    def function(x, things):
        return x * len(set(things))

    compiled = firesteel.compile(function, backend="eager")
    x = torch.ones(2)
    for given in (things, things[:-1] + things[:1], things[:10] * 2, things):
        torch.testing.assert_close(compiled(x, given), function(x, given))


def test_objects_made_for_each_call_need_one_graph():
    def function(x, a, b):
        return x + (a == b) + (a in [b])

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    firesteel.reset_counters()
    for _ in range(5):
        compiled(torch.ones(2), Thing(), Thing())
    assert firesteel.counters()["captured"] == 1
