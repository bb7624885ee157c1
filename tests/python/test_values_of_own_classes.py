"""Objects of classes over int, str, list and the like: C code reads what they are unseen, so the guards must look."""

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import itertools
import math
import pathlib
import re
import string
import types
import typing
import weakref

import numpy as np
import pytest
import torch

import firesteel


def own(base):
    return type(f"Own{base.__name__}", (base,), {})


class Level(enum.IntEnum):
    LOW = 1
    MIDDLE = 2
    HIGH = 3


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


class Word(str, enum.Enum):  # noqa: UP042
    FIRST = "abc"
    SECOND = "cba"
    THIRD = "x"


Text, Number, Real, Imaginary, Data = own(str), own(int), own(float), own(complex), own(bytes)
Row, Many, Fixed, Items, Table, Queue = (
    own(tuple),
    own(set),
    own(frozenset),
    own(list),
    own(dict),
    own(collections.deque),
)
Ordered, Counts, Factory = own(collections.OrderedDict), own(collections.Counter), own(collections.defaultdict)

# Values that come one after the other; the first comes once more at the end.
KINDS = {
    "str": [Text("abc"), Text("cba"), Text("abcd"), Text("")],
    "int": [Number(1), Number(2), Number(0)],
    "float": [Real(1), Real(2.5), Real(0)],
    "complex": [Imaginary(1), Imaginary(2), Imaginary(1j)],
    "bytes": [Data(b"abc"), Data(b"cba"), Data(b"abcd"), Data(b"")],
    "IntEnum": [Level.LOW, Level.MIDDLE, Level.HIGH],
    "IntFlag": [Right.READ, Right.WRITE, Right.READ | Right.WRITE],
    "enum of str": [Word.FIRST, Word.SECOND, Word.THIRD],
    "numpy float": [np.float64(1), np.float64(2.5), np.float64(0)],
    "numpy str": [np.str_("abc"), np.str_("cba"), np.str_("x")],
    "numpy int": [np.int64(1), np.int64(2), np.int64(0)],
    "tuple": [Row("abc"), Row("cba"), Row("abcd"), Row("")],
    "list": [Items("abc"), Items("cba"), Items("abcd"), Items()],
    "set": [Many("abc"), Many("xyz"), Many("abcd"), Many()],
    "frozenset": [Fixed("abc"), Fixed("xyz"), Fixed("abcd"), Fixed()],
    "deque": [Queue("abc"), Queue("cba"), Queue("abcd"), Queue()],
    "dict": [Table(a=1, b=2), Table(a=1, c=2), Table(a=1, b=3), Table()],
    "OrderedDict": [Ordered(a=1, b=2), Ordered(b=2, a=1), Ordered(a=1, b=3), Ordered()],
    "defaultdict": [Factory(int, a=1, b=2), Factory(int, a=1, c=2), Factory(list, a=1, b=3)],
    "Counter": [Counts("abc"), Counts("abb"), Counts("xyz"), Counts()],
    "view of a dict": [{"a": 1}.keys(), {"b": 1}.keys(), {"a": 1, "b": 1}.keys()],
    "proxy of a dict": [types.MappingProxyType(table) for table in ({"a": 1}, {"a": 2}, {"b": 2})],
    "bytearray": [bytearray(b"abc"), bytearray(b"cba"), bytearray(b"abcd")],
    "array": [array.array("i", [1, 2]), array.array("i", [2, 1]), array.array("i", [1, 2, 3])],
    "memoryview": [memoryview(b"abc"), memoryview(b"cba")],
    "date": [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)],
    "Decimal": [decimal.Decimal(1), decimal.Decimal(2)],
    "Fraction": [fractions.Fraction(1, 2), fractions.Fraction(1, 3)],
    "path": [pathlib.PurePosixPath("/a/b"), pathlib.PurePosixPath("/a/c")],
    "exception": [ValueError(1), ValueError(2)],
    "range": [range(3), range(4), range(0)],
}

PROGRAMS = {
    "list": list,
    "comprehension": lambda v: [c for c in v],  # noqa: C416
    "tuple": tuple,
    "len": len,
    "unpack": lambda v: [*v],
    "spread": lambda v: max(*v, *v),
    "spread into nothing": lambda v: (lambda *given: given)(*v),
    "named": lambda v: (lambda **given: given)(**v),
    "sorted": sorted,
    "equal": lambda v: (v == "abc", v == b"abc", v == 1, v == ("a", "b", "c"), v == {"a": 1}),
    "in": lambda v: "a" in v,
    "number in": lambda v: 97 in v,
    "item": lambda v: v[0],
    "slice": lambda v: v[1:],
    "entry": lambda v: v["a"],
    "get": lambda v: v.get("a"),
    "text": str,
    "repr": repr,
    "f-string": lambda v: f"{v}",
    "percent": lambda v: "%s" % (v,),  # noqa: UP031
    "truth": lambda v: 1 if v else 2,
    "not": lambda v: not v,
    "+ 1": lambda v: v + 1,
    "1 +": lambda v: 1 + v,
    "+ text": lambda v: v + "x",
    "bytes +": lambda v: b"x" + v,
    "* 2": lambda v: v * 2,
    "/ 2": lambda v: v / 2,
    "2 **": lambda v: 2**v,
    "negative": lambda v: -v,
    "> 1": lambda v: v > 1,
    "or itself": lambda v: v | v,
    "hash": hash,
    "key": lambda v: {"abc": 1, 1: 2, 2: 4}.get(v, 3),
    "among": lambda v: v in (1, "abc", b"abc"),
    "place": lambda v: [v, "x"].index(v),
    "in a list": lambda v: [v] == ["abc"],
    "in a tuple": lambda v: (1, v) == (1, "abc"),
    "int": int,
    "float": float,
    "round": round,
    "sqrt": math.sqrt,
    "divmod": lambda v: divmod(7, v),
    "upper": lambda v: v.upper(),
    "items": lambda v: list(v.items()),
    "copy": lambda v: v.copy(),
    "count": lambda v: v.count("a"),
    "sum": sum,
    "max": max,
    "any": any,
    "set": lambda v: sorted(set(v)),
    "join": lambda v: ",".join(v),
    "join list": lambda v: ",".join([v, v]),
    "zip": lambda v: list(zip(v, v)),  # noqa: B905
    "map": lambda v: list(map(str, v)),
    "enumerate": lambda v: list(enumerate(v)),
    "reversed": lambda v: list(reversed(v)),
    "range": lambda v: list(range(v)),
    "dict": dict,
    "value": lambda v: v.value,
    "name": lambda v: v.name,
    "real": lambda v: v.real,
    "year": lambda v: v.year,
    "args": lambda v: v.args,
    "scaled tensor": lambda v: torch.ones(2) * v,
    "full tensor": lambda v: torch.full((2,), v),
    "reshaped tensor": lambda v: torch.ones(6).reshape(v, -1),
    "reduced tensor": lambda v: torch.ones(2, 2, 2).sum(v),
}


def spelled(value):
    """Sets are equal in whatever order they stand."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__} {sorted(value)}"
    return re.sub("at 0x[0-9a-f]+", "at 0x…", repr(value))


def outcome(program, *given):
    try:
        return spelled(program(*given))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def ways_in(program):
    yield program, lambda value: (value,)
    yield lambda items: program(items[0]), lambda value: ([value],)
    yield lambda holder: program(holder.field), lambda value: (types.SimpleNamespace(field=value),)


@pytest.mark.parametrize("kind", KINDS)
def test_another_value_is_seen(kind):
    values = KINDS[kind]
    for name, program in PROGRAMS.items():
        for whole, given in ways_in(lambda value, program=program: program(value)):
            compiled = firesteel.compile(whole, backend="eager", dynamic=False)
            for value in [*values, values[0]]:
                assert outcome(compiled, *given(value)) == outcome(whole, *given(value)), (name, value)


@pytest.mark.parametrize("kind", ["str", "int", "float", "IntEnum", "enum of str", "list", "set", "tuple", "dict"])
def test_the_same_value_needs_no_second_capture(kind):
    value = KINDS[kind][0]
    compiled = firesteel.compile(lambda value: (len([value]), repr(value), value == value), backend="eager")
    compiled(value)
    firesteel.reset_counters()
    assert compiled(value)[1] == repr(value)
    counted = firesteel.counters()
    assert (counted["hits"], counted["captured"]) == (1, 0)
    assert not counted["breaks"]
    assert not counted["fallbacks"]


class Mirror(str):
    turned = None

    def turn(self):
        if self.turned is None:
            letters = list(self)
            letters.reverse()
            self.turned = self.__class__("".join(letters))
        return self.turned


def test_a_string_that_keeps_its_reverse():
    def program():
        there = Mirror("abcd")
        firesteel.graph_break()
        back = there.turn()
        firesteel.graph_break()
        again = back.turn()
        return there, back, again, there.__dict__, back.__dict__

    compiled = firesteel.compile(program, backend="eager")
    for _ in range(3):
        assert repr(compiled()) == repr(program())


def test_a_weak_reference_to_a_method_across_a_break():
    def program(item):
        method = item.turn
        reference = weakref.ref(method)
        firesteel.graph_break()
        return reference() is method

    compiled = firesteel.compile(program, backend="eager")
    assert [compiled(Mirror("ab")) for _ in range(2)] == [True, True]


class Above(super):
    def __init__(self, *given):
        super(Above, self).__init__(*given)  # noqa: UP008


class Base:
    def word(self):
        return "base"


class Derived(Base):
    above = None

    def word(self):
        return "derived " + Above(Derived, self).word() + str(getattr(self.above, "__thisclass__", None))


Derived.above = Above(Derived)


def test_a_class_over_super():
    def program(item):
        return item.word(), getattr(Above(Derived, item), "word", None) is None, super(Derived, item).word()

    compiled = firesteel.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(Derived()) == program(Derived())


class Thing:
    kind = 1

    def __init__(self, x):
        self.x = x


@functools.lru_cache
def cached(thing):
    return thing.x


def with_default(number):
    def function(a, b=number):
        return a + b

    return function


def take(items, number):
    try:
        return list(itertools.islice(items, number))
    except TypeError:
        return items


LOOKS = {
    "a field of a text": (lambda thing: "{0.x}".format(thing), [Thing(1), Thing(2)]),  # noqa: UP030, UP032
    "an item's field": (lambda thing: "{0[0].x}".format([thing]), [Thing(1), Thing(2)]),  # noqa: UP030, UP032
    "members": (lambda thing: inspect.getmembers(thing)[-1], [Thing(1), Thing(2)]),
    "a cached function": (cached, [Thing(1), Thing(2)]),
    "a signature": (lambda f: inspect.signature(f).parameters["b"].default, [with_default(1), with_default(2)]),
    "arguments of a type": (typing.get_args, [list[int], list[str], dict[int, str]]),
    "a union of types": (lambda types: isinstance(1, types), [int | str, float | str, int, (int, str)]),
    "a code object": (
        lambda code: (code.co_consts, code.co_name),
        [compile("a = 1", "first", "exec"), compile("a = 2", "second", "exec"), cached.__wrapped__.__code__],
    ),
    "a number of items": (lambda number: take("abcd", number), [1, 2, 3]),
    "a pattern": (lambda pattern: re.sub(pattern, "x", "abc"), [re.compile("a"), re.compile("b"), "c"]),
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_a_function_looks_into_is_seen(look):
    program, values = LOOKS[look]
    compiled = firesteel.compile(lambda value: program(value), backend="eager")
    for value in [*values, values[0]]:
        assert outcome(compiled, value) == outcome(program, value)


def test_a_new_attribute_of_a_module_is_seen():
    program = lambda: getattr(string, "not_there_yet", None)  # noqa: E731
    compiled = firesteel.compile(program, backend="eager")
    try:
        for value in (None, 1, 2):
            if value:
                string.not_there_yet = value
            assert compiled() == value
    finally:
        del string.not_there_yet


def test_a_list_that_an_earlier_piece_has_filled():
    def program(items):
        return max(*items, firesteel.graph_break() or 0, *items)

    compiled = firesteel.compile(program, backend="eager")
    for items in ([1, 2], [5, 3], [1, 2, 9]):
        assert compiled(items) == max(items)


def line_of_the_caller():
    return inspect.getframeinfo(inspect.currentframe().f_back).lineno


def test_a_function_that_asks_who_called():
    def program():
        first = line_of_the_caller()
        firesteel.graph_break()
        second = line_of_the_caller()
        return second - first

    compiled = firesteel.compile(program, backend="eager")
    compiled_callee = firesteel.compile(line_of_the_caller, backend="eager")
    assert [compiled(), compiled()] == [2, 2]
    first, second = compiled_callee(), compiled_callee()
    third = compiled_callee()
    assert (second - first, third - second) == (0, 1)
