"""Objects of the standard library that stand for a call: operator's getters, weak references, singledispatch, classes
with a metaclass of their own, Counter. They are captured whole, with what they lead to changed between calls."""

import collections
import contextlib
import enum
import functools
import gc
import operator
import sys
import types
import weakref

import pytest
import torch
from against_eager import BACKENDS, same

import firesteel

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


class Box:
    scale = 3

    def __init__(self, weight=2):
        self.weight, self.inner = weight, self

    def times(self, x, by=1):
        return x * self.weight * by


class Counting(type):
    added = 5

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.extra = cls.added
        return made


class Made(metaclass=Counting):
    def __init__(self, value, by=1):
        self.value = value * by


class Single(type):
    def __call__(cls):
        if cls.only is None:
            cls.only = super().__call__()
        return cls.only


class Only(metaclass=Single):
    only = None
    weight = 11

    def __init__(self):
        self.weight = 7


@functools.singledispatch
def dispatched(value, x):
    return x + 1


@dispatched.register
def _(value: int, x):
    return x * value


@dispatched.register(list)
def _(value, x):
    return x * len(value)


BOX = Box()
WEAK = weakref.ref(BOX)
GET = operator.itemgetter("a")
ATTRIBUTES = operator.attrgetter("inner.weight", "scale")
METHOD = operator.methodcaller("times", 4, by=2)


def items(x):
    return GET({"a": x, "b": -x}) * operator.itemgetter(1, 0)([2, 3])[0]


def items_of_a_tensor(x):
    return operator.itemgetter(0)(x) + operator.itemgetter(slice(1, None))(x)


def attributes(x):
    return x * ATTRIBUTES(BOX)[0] + operator.attrgetter("shape")(x)[0]


def methods(x):
    return operator.methodcaller("times", x, by=3)(BOX) + METHOD(BOX) + operator.methodcaller("sin")(x)


def sorted_by_a_getter(x):
    rows = sorted([(2, 3), (1, 4), (5, 0)], key=operator.itemgetter(1))
    return x * rows[0][0] + max([BOX, Box(1)], key=operator.attrgetter("weight")).weight


def getters_given_back(x):
    pick = operator.itemgetter(1)
    return x * 2, pick, operator.attrgetter("a.b"), operator.methodcaller("m", 1, k=2), pick


def weak_reference(x):
    box = WEAK()
    return x.sin() if box is None else x * box.weight


def weak_reference_made_inside(x):
    reference = weakref.ref(BOX)
    return x * reference().weight, reference


def single_dispatch(x):
    return dispatched(3, x) + dispatched([1, 2], x) + dispatched("text", x) + dispatched(True, x)


def metaclass(x):
    made = Made(x, by=2)
    return made.weight if isinstance(made, Box) else made.value * made.extra


def metaclass_that_keeps_one(x):
    return x * Only().weight


def counter(x):
    count = collections.Counter("abca")
    count["z"] += 2
    count.update([*"ab", "q"])
    other = count - collections.Counter(a=1)
    return x * count["a"] + count.most_common(1)[0][1] + count.total() + other["a"], count


def bound_by_hand(x):
    return types.MethodType(Box.times, BOX)(x, by=2)


PROGRAMS = [
    items, items_of_a_tensor, attributes, methods, sorted_by_a_getter, weak_reference, single_dispatch, metaclass,
    metaclass_that_keeps_one, counter, bound_by_hand, weak_reference_made_inside,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_whole(program, backend):
    x = torch.randn(3)
    Only.only = None
    Only()
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        assert same(compiled(x), program(x))
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"], counters["misses"]) == (1, 3, 1)
    assert counters["breaks"] == counters["fallbacks"] == {}


def follows(program, backend, monkeypatch, changes):
    """The compiled program sees each change, made by `monkeypatch`, at the next call."""
    x = torch.randn(3)
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    assert same(compiled(x), program(x))
    for change in changes:
        before = program(x)
        change(monkeypatch)
        assert not same(program(x), before)
        for _ in range(2):
            assert same(compiled(x), program(x))
    assert firesteel.counters()["fallbacks"] == {}


def put(name, value):
    return lambda patch: patch.setitem(globals(), name, value)


@pytest.mark.parametrize(
    ("program", "changes"),
    [
        (items, [put("GET", operator.itemgetter("b")), put("GET", operator.itemgetter("a"))]),
        (attributes, [put("BOX", Box(6)), put("ATTRIBUTES", operator.attrgetter("scale", "weight")),
                      lambda patch: patch.setattr(Box, "scale", 8)]),
        (methods, [put("METHOD", operator.methodcaller("times", 5)), lambda patch: patch.setattr(BOX, "weight", 9),
                   lambda patch: patch.setattr(Box, "times", lambda self, x, by=1: x + by)]),
        (sorted_by_a_getter, [lambda patch: patch.setattr(BOX, "weight", 9)]),
        (weak_reference, [lambda patch: patch.setattr(BOX, "weight", 9), put("WEAK", weakref.ref(Only))]),
        (metaclass, [lambda patch: patch.setattr(Counting, "added", 6),
                     lambda patch: patch.setattr(Counting, "__call__", lambda cls, value, by: Box(value))]),
        (metaclass_that_keeps_one, [lambda patch: patch.setattr(Only.only, "weight", 9)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_changes_is_seen(program, changes, backend, monkeypatch):
    Only()
    follows(program, backend, monkeypatch, changes)


def test_an_object_that_dies_is_gone(backend):
    x = torch.randn(3)
    box = Box(4)
    reference = weakref.ref(box)

    def program(x, reference):
        found = reference()
        return x.sin() if found is None else x * found.weight

    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    assert same(compiled(x, reference), x * 4)
    assert same(compiled(x, reference), x * 4)
    box.inner = None
    del box
    gc.collect()
    assert reference() is None  # the compiled entry did not keep it
    assert same(compiled(x, reference), x.sin())
    assert firesteel.counters()["breaks"] == {}


def test_an_implementation_registered_later_is_seen(backend):
    @functools.singledispatch
    def kind(value, x):
        return x + 1

    def program(x, value):
        return kind(value, x) * 2

    x = torch.randn(3)
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    assert same(compiled(x, 3), (x + 1) * 2)
    kind.register(int, lambda value, x: x - value)
    assert same(compiled(x, 3), (x - 3) * 2)
    kind.register(bool, lambda value, x: x.sin())
    assert same(compiled(x, True), x.sin() * 2)
    kind.register(int, lambda value, x: x.cos())
    assert same(compiled(x, 3), x.cos() * 2)
    assert firesteel.counters()["fallbacks"] == firesteel.counters()["breaks"] == {}


def test_abstract_classes_are_left_to_python(backend):
    @functools.singledispatch
    def kind(value, x):
        return x + 1

    class Own:
        pass

    kind.register(collections.abc.Sized, lambda value, x: x * 2)
    compiled = firesteel.compile(lambda x, value: kind(value, x), backend=backend)
    x, own = torch.randn(3), Own()
    assert same(compiled(x, own), x + 1)
    collections.abc.Sized.register(Own)
    assert same(compiled(x, own), x * 2)


def test_getters_given_back(backend):
    compiled = firesteel.compile(getters_given_back, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3)
        doubled, pick, attribute, method, again = compiled(x)
        assert same(doubled, x * 2)
        assert pick is again
        assert pick("ab") == "b"
        assert repr(attribute) == "operator.attrgetter('a.b')"
        assert repr(method) == "operator.methodcaller('m', 1, k=2)"


def test_a_counter_from_outside_goes_on_counting(backend):
    def program(x, count, words):
        count.update(words)
        return x * count["a"]

    x = torch.randn(3)
    mine, theirs = collections.Counter("ab"), collections.Counter("ab")
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for words in ("aab", ["c", "a"], {"a": 3}, "", "zz"):
        assert same(compiled(x, mine, words), program(x, theirs, words))
        assert list(mine.items()) == list(theirs.items())
    assert firesteel.counters()["fallbacks"] == firesteel.counters()["breaks"] == {}


def test_what_a_getter_raises(backend):
    def program(x):
        try:
            return GET({"c": x})
        except KeyError as error:
            return x * len(error.args[0])

    x = torch.randn(3)
    assert same(firesteel.compile(program, backend=backend, fullgraph=True)(x), program(x))
    with pytest.raises(TypeError, match="expected 1 argument"):
        firesteel.compile(lambda x: GET(x, x), backend=backend)(x)


def several_blocks(x, count):
    events = []
    with contextlib.ExitStack() as stack:
        for number in range(count):
            stack.callback(events.append, number)
        stack.enter_context(torch.no_grad())
        stack.push(lambda *error: events.append(error[0]))
        y = x * 2
    return y.sin() + len(events), y.requires_grad, events


def test_exit_stack(backend):
    x = torch.randn(3, requires_grad=True)
    firesteel.reset_counters()
    compiled = firesteel.compile(several_blocks, backend=backend, fullgraph=True)
    for count in (2, 2, 3):
        assert same(compiled(x, count), several_blocks(x, count))
    assert torch.is_grad_enabled()
    assert firesteel.counters()["breaks"] == firesteel.counters()["fallbacks"] == {}
    assert firesteel.counters()["hits"] == 3


def handled_or_not(x):
    return x.sin() if sys.exc_info()[1] is None else x.cos()


def test_an_exception_handled_around_the_call_is_seen(backend):
    x = torch.randn(3)
    compiled = firesteel.compile(handled_or_not, backend=backend)
    for _ in range(2):
        assert same(compiled(x), x.sin())
        try:
            raise ValueError
        except ValueError:
            assert same(compiled(x), x.cos())
    whole = firesteel.compile(handled_or_not, backend=backend, fullgraph=True)
    assert same(whole(x), x.sin())


def dropped_inside(x):
    box = Box(2)
    reference = weakref.ref(box)
    before = reference() is None
    del box
    return x * 2, before, reference() is None


def taken_out_inside(x, boxes):
    reference = weakref.ref(boxes[0])
    boxes.clear()
    return x * 2, reference() is None


def test_what_the_program_drops_is_gone_for_it(backend):
    x = torch.randn(3)
    compiled = firesteel.compile(dropped_inside, backend=backend)
    assert same(compiled(x), dropped_inside(x))
    compiled = firesteel.compile(taken_out_inside, backend=backend)
    for _ in range(2):
        given, seen = [Box(1)], [Box(1)]
        for box in (*given, *seen):
            box.inner = None  # else it lies in a circle
        del box
        assert same(compiled(x, given), taken_out_inside(x, seen))


def test_members_of_an_enum_over_a_tuple_made_inside(backend):
    def program(x):
        class Place(tuple, enum.Enum):
            FIRST = (1, "one")
            SECOND = (2, "two")

        return x * Place.FIRST.value[0], Place.FIRST, Place

    x = torch.randn(3)
    result, member, made = firesteel.compile(program, backend=backend)(x)
    assert same(result, x)
    assert member is made.FIRST
    assert (member.name, member.value, tuple(member)) == ("FIRST", (1, "one"), (1, "one"))
