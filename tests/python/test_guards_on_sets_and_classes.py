"""What a set gives and in which order, and what is registered with an abstract class, is seen at the next call."""

import abc
import collections.abc
import enum
import gc
import weakref

import pytest
import torch

import firesteel

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def captured():
    return firesteel.counters()["captured"]


def test_sets_that_are_equal_may_differ_in_order():
    def weighed(x, items):
        for place, item in enumerate(items):
            x = x + place * item
        return x

    one, other = {8}, {0}  # both lie in the same slot of a small table: the first one stays there
    one.add(0)
    other.add(8)
    assert one == other
    assert list(one) != list(other)
    compiled = firesteel.compile(weighed, fullgraph=True)
    for items in one, other, one, frozenset(one), frozenset(other):
        torch.testing.assert_close(compiled(X, items), weighed(X, items), rtol=0, atol=0)
    assert firesteel.counters()["fallbacks"] == {}


@pytest.mark.parametrize("items", [[{1}, {True}, {1.0}], [{0.0}, {-0.0}], [{"a"}, {b"a"}]])
def test_items_that_are_equal_may_be_of_other_kinds(items):
    def told(x, s):
        (item,) = s
        return x + len(repr(item))

    compiled = firesteel.compile(told, fullgraph=True)
    for s in items:
        torch.testing.assert_close(compiled(X, s), told(X, s), rtol=0, atol=0)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def test_a_set_of_members_is_compiled_for_once():
    compiled = firesteel.compile(lambda x, s: x + len(s) * (Color.RED in s), fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(X, {Color.RED, Color.BLUE}), X + 2)
    assert captured() == 1
    torch.testing.assert_close(compiled(X, {Color.BLUE}), X)


def test_items_are_not_kept_alive_by_what_was_compiled():
    class Gone:
        pass

    compiled = firesteel.compile(lambda x, s: x + len(list(s)), fullgraph=True)
    torch.testing.assert_close(compiled(X, {Gone}), X + 1)
    gone = weakref.ref(Gone)
    del Gone
    gc.collect()
    assert gone() is None


class Shape(abc.ABC):  # noqa: B024
    pass


def asks_isinstance(x, o, shape):
    return x + 1 if isinstance(o, shape) else x - 1


def asks_issubclass(x, o, shape):
    return x + 1 if issubclass(type(o), (int, shape)) else x - 1


def asks_by_pattern(x, o, shape):
    match o:
        case shape.Itself():
            return x + 1
    return x - 1


@pytest.mark.parametrize("asks", [asks_isinstance, asks_issubclass, asks_by_pattern])
@pytest.mark.parametrize("late", ["itself", "below"])
def test_a_class_registered_later(asks, late):
    class Own(Shape):
        pass

    class Below(Own):
        pass

    class Square:
        pass

    Own.Itself = Own
    compiled = firesteel.compile(asks, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(X, Square(), Own), X - 1)
    assert captured() == 1
    collections.abc.Hashable.register(type("Elsewhere", (), {}))  # somebody else's: nothing is compiled anew
    torch.testing.assert_close(compiled(X, Square(), Own), X - 1)
    assert captured() == 1
    (Own if late == "itself" else Below).register(Square)
    for _ in range(2):
        torch.testing.assert_close(compiled(X, Square(), Own), X + 1)
    assert captured() == 2
    assert firesteel.counters()["fallbacks"] == {}


def test_a_break_and_a_registration():
    class Own(Shape):
        pass

    class Square:
        pass

    def broken(x, o):
        x = x * 2
        firesteel.graph_break()
        return x + 1 if isinstance(o, Own) else x - 1

    compiled = firesteel.compile(broken)
    torch.testing.assert_close(compiled(X, Square()), X * 2 - 1)
    Own.register(Square)
    torch.testing.assert_close(compiled(X, Square()), X * 2 + 1)


ANSWER = [True]


class Asking(type):
    def __instancecheck__(cls, instance):
        return ANSWER[0]

    def __subclasscheck__(cls, other):
        return not ANSWER[0]


class Asked(metaclass=Asking):
    pass


@pytest.mark.parametrize(
    "program",
    [
        lambda x, o: x + 1 if isinstance(o, Asked) else x - 1,
        lambda x, o: x + 1 if isinstance(o, (int, collections.abc.Mapping, Asked)) else x - 1,
        lambda x, o: x + 1 if issubclass(type(o), (str, Asked)) else x - 1,
    ],
)
def test_a_metaclass_that_answers_otherwise(program, monkeypatch):
    compiled = firesteel.compile(program, fullgraph=True)
    for answer in True, False, True:
        ANSWER[0] = answer
        torch.testing.assert_close(compiled(X, 1.5), program(X, 1.5), rtol=0, atol=0)
    monkeypatch.setattr(Asking, "__instancecheck__", lambda cls, instance: False)
    monkeypatch.setattr(Asking, "__subclasscheck__", lambda cls, other: False)
    torch.testing.assert_close(compiled(X, 1.5), program(X, 1.5), rtol=0, atol=0)
    assert firesteel.counters()["fallbacks"] == {}
