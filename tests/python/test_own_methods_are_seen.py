"""Whatever a special method of the program's own reads is seen at the next call, whoever calls the method."""

import bisect
import collections
import copy
import dataclasses
import enum
import functools
import heapq
import itertools
import math
import operator
import re
import string
import textwrap

import pytest
import torch

import firesteel

X = torch.zeros(2)
NOW = [1]


class Own:
    """All that it tells depends on NOW."""

    def __init__(self):
        self.kept = 0

    def number(self, *_):
        return NOW[0]

    def truth(self, *_):
        return NOW[0] == 2

    def items(self):
        return iter([NOW[0]])

    def __str__(self):
        return f"s{NOW[0]}"

    def __repr__(self):
        return f"r{NOW[0]}"

    def __format__(self, spec):
        return f"f{NOW[0]}"

    def __float__(self):
        return float(NOW[0])

    def __getitem__(self, place):
        if place > 2:
            raise IndexError
        return NOW[0]

    def __copy__(self):
        made = Own()
        made.kept = NOW[0]
        return made

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return NOW[0]

    __hash__ = __len__ = __index__ = __int__ = __call__ = __neg__ = __abs__ = __round__ = __trunc__ = number
    __floor__ = __ceil__ = __add__ = __radd__ = __divmod__ = __pow__ = __matmul__ = __length_hint__ = number
    __enter__ = number
    __eq__ = __lt__ = __gt__ = __le__ = __bool__ = __contains__ = truth
    __iter__ = __reversed__ = items

    def __exit__(self, *_):
        return False


class Text(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        return NOW[0] == 2

    def __str__(self):
        return f"q{NOW[0]}"


class Disguised:
    @property
    def __class__(self):
        return int if NOW[0] == 2 else str


class Number(enum.Enum):
    ONE = 1
    TWO = 2

    @classmethod
    def _missing_(cls, value):
        return cls(1 + NOW[0] % 2)


class Missing(dict):
    def __missing__(self, key):
        return NOW[0]


@dataclasses.dataclass
class Filled:
    a: int = 0

    def __post_init__(self):
        self.a = NOW[0]


class Described:
    class Descriptor:
        def __get__(self, instance, owner=None):
            return NOW[0]

    field = Descriptor()


class Meta(type):
    def __call__(cls, *args):
        return NOW[0]

    def __len__(cls):
        return NOW[0]

    def __iter__(cls):
        return iter([NOW[0]])

    def __contains__(cls, item):
        return NOW[0] == 2


class OfMeta(metaclass=Meta):
    pass


@functools.total_ordering
class Ordered:
    __hash__ = None

    def __eq__(self, other):
        return NOW[0] == 3

    def __lt__(self, other):
        return NOW[0] == 2


class Stated:
    def __init__(self):
        self.v = 9

    def __getstate__(self):
        return {"v": NOW[0]}


class Reduced:
    def __reduce_ex__(self, protocol):
        return int, (NOW[0],)


def entered(o):
    with o as value:
        return value


def sorted_in_place(items, **how):
    items.sort(**how)
    return items


def up_or_down(q):
    return q if NOW[0] == 2 else -q


PROGRAMS = {
    "str": str,
    "repr": repr,
    "format": lambda o: format(o, "x"),
    "f-string": lambda o: f"{o}",
    "f-string with !r": lambda o: f"{o!r}",
    "%s": lambda o: "%s" % o,  # noqa: UP031
    "str.format": lambda o: "{}".format(o),  # noqa: UP032
    "str.format of an attribute": lambda o: "{0.zz}".format(o),  # noqa: UP030, UP032
    "str.format of an item": lambda o: "{0[1]}".format(o),  # noqa: UP030, UP032
    "text of a list": lambda o: repr([o]),
    "text of a dict": lambda o: str({1: o}),
    "join": lambda o: ",".join([str(o)]),
    "hash": hash,
    "hash of a tuple": lambda o: hash((o, 1)),
    "==": lambda o: o == 1,
    "!=": lambda o: o != 1,
    "in a list": lambda o: o in [1, 2],
    "7 in a list of it": lambda o: 7 in [o],
    "index": lambda o: [o, 7].index(7),
    "count": lambda o: [o, 7].count(7),
    "tuples": lambda o: (o,) == (7,),
    "lists": lambda o: [o] < [7],
    "min": lambda o: min([7, o]) is o,
    "max": lambda o: max([o, 7], key=lambda q: q) is o,
    "sort": lambda o: sorted_in_place([o, Own()])[0] is o,
    "in a set": lambda o: o in {1, 2},
    "keys": lambda o: len({o: 1, Own(): 2}),
    "bool": bool,
    "not": lambda o: not o,
    "any": lambda o: any([0, o]),
    "all": lambda o: all([o]),
    "filter": lambda o: len(list(filter(None, [o]))),
    "len": len,
    "in": lambda o: 1 in o,
    "operator.index": operator.index,
    "as an index": lambda o: [10, 20, 30, 40][o],
    "a bound": lambda o: [1, 2, 3, 4][:o],
    "range": lambda o: list(range(o)),
    "int": int,
    "float": float,
    "hex": hex,
    "bytes": lambda o: [1] * o,
    "iteration": lambda o: [q for q in o],  # noqa: C416
    "tuple": tuple,
    "star": lambda o: [*o],
    "sum": sum,
    "set": set,
    "zip": lambda o: list(zip(o, o, strict=True)),
    "map": lambda o: list(map(abs, o)),
    "reversed": lambda o: list(reversed(o)),
    "chain": lambda o: list(itertools.chain(o, o)),
    "islice": lambda o: list(itertools.islice(o, 3)),
    "deque": lambda o: list(collections.deque(o)),
    "accumulate": lambda o: list(itertools.accumulate(o)),
    "reduce": lambda o: functools.reduce(operator.add, o, 0),
    "itemgetter": lambda o: operator.itemgetter(1)(o),
    "call": lambda o: o(),
    "map with it": lambda o: list(map(o, [1, 2])),
    "partial": lambda o: functools.partial(o, 1)(),
    "with": entered,
    "-": lambda o: -o,
    "abs": abs,
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "+": lambda o: o + 1,
    "1 +": lambda o: 1 + o,
    "divmod": lambda o: divmod(o, 2),
    "pow": lambda o: pow(o, 2),
    "@": lambda o: o @ o,
    "copy": lambda o: copy.copy(o).kept,
    "deepcopy": lambda o: copy.deepcopy(o).kept,
    "deepcopy in a list": lambda o: copy.deepcopy([o])[0].kept,
    "__getstate__": lambda o: copy.copy(Stated()).v,
    "__reduce_ex__": lambda o: copy.deepcopy([Reduced()]),
    "length_hint": operator.length_hint,
    "__getattr__": lambda o: o.foo,
    "getattr": lambda o: getattr(o, "foo", 3),
    "attrgetter": operator.attrgetter("foo"),
    "methodcaller": operator.methodcaller("__len__"),
    "equal texts": lambda o: Text("a") == "b",
    "texts in a list": lambda o: "b" in [Text("a")],
    "text of a text": lambda o: str(Text("a")),
    "% of a text": lambda o: "%s" % Text("a"),  # noqa: UP031
    "__class__": lambda o: isinstance(Disguised(), int),
    "__class__ in a tuple": lambda o: isinstance(Disguised(), (list, int)),
    "_missing_": lambda o: Number(77).name,
    "__missing__": lambda o: Missing()[3],
    "__post_init__": lambda o: Filled().a,
    "asdict": lambda o: dataclasses.asdict(Filled()),
    "descriptor": lambda o: Described().field,
    "descriptor of a class": lambda o: Described.field,
    "a metaclass's call": lambda o: OfMeta(),
    "a metaclass's len": lambda o: len(OfMeta),
    "a metaclass's iter": lambda o: list(OfMeta),
    "a metaclass's in": lambda o: 1 in OfMeta,
    "total_ordering": lambda o: (Ordered() >= Ordered(), Ordered() <= Ordered()),
    "re.sub": lambda o: re.sub("a", lambda m: str(NOW[0]), "xax"),
    "re.sub by an object": lambda o: re.sub("a", functools.partial(lambda m: str(NOW[0])), "xax"),
    "Formatter": lambda o: string.Formatter().format("{0}", o),
    "indent": lambda o: textwrap.indent("a", " ", o.truth),
    "groupby": lambda o: [k for k, _ in itertools.groupby([1, 2], key=o)],
    "takewhile": lambda o: list(itertools.takewhile(o.truth, [1])),
    "bisect": lambda o: bisect.bisect([1, 2, 3], 2, key=up_or_down),
    "nsmallest": lambda o: heapq.nsmallest(1, [1, 2], key=up_or_down),
    "defaultdict": lambda o: collections.defaultdict(o)[1],
    "sorted": lambda o: sorted([3, 1, 2], key=up_or_down),
    "list.sort": lambda o: sorted_in_place([3, 1, 2], key=up_or_down),
    "cmp_to_key": lambda o: sorted([3, 1], key=functools.cmp_to_key(lambda a, b: (a - b) * (2 * NOW[0] - 3))),
    "iter with a last one": lambda o: len(list(itertools.islice(iter(o.number, 2), 3))),
}


def outcome(function, o):
    try:
        result = function(X, o)[1]
    except Exception as error:
        return type(error)
    return type(result), repr(result)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_what_own_code_reads(program):
    def asked(x, o):
        return x + 1, program(o)

    compiled = firesteel.compile(asked)
    o = Own()
    for NOW[0] in 1, 2, 1, 3:
        assert outcome(compiled, o) == outcome(asked, o)
