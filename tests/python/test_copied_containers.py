"""Containers made of others, compared with others, and read by functions of the operator module."""

import collections
import collections.abc
import itertools
import operator
import types

import pytest
import torch

import firesteel


class Mapping(collections.abc.Mapping):
    def __init__(self, held):
        self.held = held

    def __getitem__(self, key):
        return self.held[key]

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)


class Named(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Factory:
    def __call__(self):
        return 3


class Counted(list):
    pass


def module_with_getattr():
    module = types.ModuleType("made_up_module")
    exec(
        "def __getattr__(name):\n    if name == 'late': return 5\n    raise AttributeError(name)\nearly = 2",
        vars(module),
    )
    return module


MODULE = module_with_getattr()
OPERATORS = ("getitem", "contains", "is_", "is_not", "eq", "ne", "countOf", "indexOf")

PROGRAMS = {
    "dict of a mapping": lambda x: (dict(Mapping({"a": x})), {**Mapping({"b": x})}),
    "dict of a chain": lambda x: dict(collections.ChainMap({"a": x}, {"a": 1, "b": 2})),
    "dict of a dict's kin": lambda x: (dict(Named(a=x), b=1), Named(Named(a=x)), Named(Mapping({"c": x}))),
    "update": lambda x: (lambda d: (d.update(Mapping({"a": x})), d)[1])({}),
    "factory": lambda x: (lambda d: (d["q"], dict(d)))(collections.defaultdict(Factory(), {"a": x})),
    "attributes of a dict": lambda x: (Named(a=x).a + 1, hasattr(Named(a=x), "zz")),
    "module attributes": lambda x: (x + MODULE.early + MODULE.late, hasattr(MODULE, "zz"), MODULE.__dict__["early"]),
    "torch's own dict": lambda x: torch.nn.functional.__dict__["relu"](x) + vars(torch)["cos"](x),
    "sums on the way": lambda x: list(itertools.accumulate([x, x, x])),
    "return types": lambda x: torch.return_types.max((x, x + 1)),
    "a new tensor": lambda x: (x.new([1.0, 2.0]), x.new(2, 3).shape, x.new([[1], [2]])),
    "operators": lambda x: [getattr(operator, name)([x, x], 1 if name == "getitem" else 0) for name in ("getitem",)],
    "operators on lists": lambda x: [getattr(operator, name)([4, 5], 5) for name in OPERATORS[1:] if "is" not in name],
    "truth": lambda x: (operator.not_([]), operator.truth([x]), operator.is_(x, x), operator.is_not(x, None)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    def function(x):
        return x * 2, PROGRAMS[name](x)

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        x = torch.randn(3)
        ours, theirs = compiled(x), function(x)
        assert repr(ours) == repr(theirs)
        assert type(ours[1]) is type(theirs[1])


def test_arguments_that_are_dicts_with_attributes():
    def function(b):
        return b.x + b["y"], hasattr(b, "q")

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    for extra in ({}, {"q": 1}, {}):
        given = Named(x=torch.randn(2), y=torch.randn(2), **extra)
        ours, theirs = compiled(given), function(given)
        torch.testing.assert_close(ours, theirs)


def test_lists_of_a_class_of_their_own_are_changed():
    def function(x, items):
        items.append(x)
        items[0] = 5
        return items[0] + x, len(items)

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        ours, theirs = Counted([1, 2]), Counted([1, 2])
        x = torch.randn(2)
        torch.testing.assert_close(compiled(x, ours), function(x, theirs))
        assert repr(ours) == repr(theirs)


EQUAL = {
    "the same": lambda x, y: [x, 1] == [x, 1],
    "other numbers": lambda x, y: [x, 1] == [x, 2],
    "other lengths": lambda x, y: [x] == [x, y],
    "nested": lambda x, y: {"a": [x, (y, 2)]} == {"a": [x, (y, 2)]},
    "other keys": lambda x, y: {"a": x} != {"b": x},
    "ordered": lambda x, y: collections.OrderedDict(a=x, b=y) == collections.OrderedDict(b=y, a=x),
    "ordered and plain": lambda x, y: collections.OrderedDict(a=x, b=y) == {"b": y, "a": x},
    "tuples and lists": lambda x, y: [x] == (x,),
}


@pytest.mark.parametrize("name", EQUAL)
def test_containers_of_tensors_are_compared_by_their_identity(name):
    def function(x, y):
        return x + y, EQUAL[name](x, y)

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        x, y = torch.randn(2), torch.randn(2)
        assert compiled(x, y)[1] is function(x, y)[1]


def test_other_tensors_decide_by_their_data():
    def function(x, y):
        return [x] == [y]

    compiled = firesteel.compile(function, backend="eager")
    for y in (1.0, 2.0):
        assert compiled(torch.tensor(1.0), torch.tensor(y)) is (y == 1.0)
    with pytest.raises(firesteel.GraphBreakError, match="data"):
        firesteel.compile(function, backend="eager", fullgraph=True)(torch.tensor(1.0), torch.tensor(1.0))
