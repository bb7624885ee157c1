"""Names and texts of functions: read under guards, and kept by functions that are made inside."""

import functools

import pytest
import torch

import firesteel


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def texts_of(function):
    return function.__name__, function.__qualname__, function.__module__, function.__doc__


def decorated(x):
    """Its own text."""
    return x


def renames(x):
    def inside():
        """Before."""

    inside.__name__, inside.__qualname__, inside.__module__, inside.__doc__ = "name", "some.name", "some", "After."
    inside.more = 3
    return x + 1, inside


def wraps(x):
    @functools.wraps(decorated)
    def inside(y):
        return decorated(y) * x

    return x + 1, inside


def forgets(x):
    def inside():
        """Before."""

    inside.__doc__ = inside.__module__ = None
    return x + 1, inside


def renames_before_a_break(x):
    made = renames(x)
    firesteel.graph_break()
    return made[0] * 2, made[1], texts_of(made[1])


@pytest.mark.parametrize("program", [renames, wraps, forgets, renames_before_a_break])
def test_functions_that_are_made_inside(program):
    compiled = firesteel.compile(program, backend="eager")
    x = torch.ones(2)
    for _ in range(3):
        (result, function, *more), (expected, plain, *others) = compiled(x), program(x)
        torch.testing.assert_close(result, expected)
        assert texts_of(function) == texts_of(plain)
        assert function.__dict__ == plain.__dict__
        assert function.__code__ is plain.__code__
        assert more == others
    assert firesteel.counters()["fallbacks"] == {}


@pytest.mark.parametrize("text", ["__name__", "__qualname__", "__module__", "__doc__"])
def test_a_change_is_seen(text):
    def given(x):
        return x

    compiled = firesteel.compile(lambda x, f: (x + 1, getattr(f, text)), backend="eager", fullgraph=True)
    x = torch.ones(2)
    for value in ("a", "a", "b", given.__name__):
        setattr(given, text, value)
        assert compiled(x, given)[1] == value
    if text in ("__module__", "__doc__"):
        setattr(given, text, None)
        assert compiled(x, given)[1] is None
