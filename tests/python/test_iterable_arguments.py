"""Objects that can be stepped through are values like any other, but where a method steps through them."""
# ruff: noqa: UP031, UP032, RUF005 - these ways of writing are what is tested

import collections
import enum

import pytest
import torch

import firesteel


class Letters(enum.IntFlag):
    A = 1
    B = 2
    C = 4


class Several:
    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def __repr__(self):
        return f"Several{self.values}"


class Named:
    """A mapping, as dict.update() takes it."""

    def __init__(self, **values):
        self.values = values

    def keys(self):
        return self.values.keys()

    def __getitem__(self, name):
        return self.values[name]

    def __iter__(self):
        return iter(self.values)


class OwnDict(dict):
    pass


class OwnList(list):
    pass


def raises(call):
    try:
        return call()
    except TypeError as error:
        return str(error)


def texts():
    several, both = Several(1, 2), Letters.A | Letters.C
    written = "{}".format(several), "%s" % several, "{!r:>9}".format(several), "%s" % (several,), f"{several}"
    return written, "{}".format(both), "%s" % both, "%d" % both, "{:d}".format(both), "{:>20}".format(Letters.B)


def texts_of_mappings():
    return "a{k}".format_map(Named(k=1)), "{k}".format_map(OwnDict(k=2)), "%(k)s" % OwnDict(k=3), "%(k)s" % Named(k=4)


def texts_of_items():
    return "{} {}".format(*Several(1, 2)), "{a}".format(**Named(a=3)), ",".join(Several("a", "b"))


def updates():
    found = {}
    found.update(Named(a=1, b=2))
    found.update(OwnDict(c=3))
    found.update(collections.UserDict(d=4))
    return found


def extensions():
    found = [0]
    found.extend(Several(1, 2))
    found += Several(3)
    found.extend(OwnList([4]))
    queue = collections.deque([1])
    queue.extend(Several(2))
    return found, queue, dict.fromkeys(Several(1, 2), 0)


def sets():
    return {1}.union(Several(2)), {1, 2}.isdisjoint(Several(3)), {1}.issubset(Several(1, 2)), {1, 2} - {*Several(1)}


def sums():
    return raises(lambda: [1] + Several(2)), raises(lambda: [1].__add__(Several(2))), raises(lambda: (1,) + Several(2))


def searches():
    item = Several(1)
    lists = item in [item], [item].index(item), [item].count(item), [item].__contains__(item)
    return lists, (item,).__contains__(item), {1: item}.get(item), {item}.__contains__(item), {item: 1}.get(item)


def stores():
    item, found, known, items, queue = Several(1), {}, set(), [], collections.deque()
    found[item] = 1
    found.setdefault(item, 2)
    known.add(item)
    items.append(item)
    items.insert(0, item)
    queue.append(item)
    return len(found), len(known), items[0] is item, items[1] is item, found.pop(item), queue[0] is item, item in queue


def comparisons():
    lists = [1, 2].__eq__(Several(1, 2)), [1].__ne__(Several(1)), (1,).__eq__(Several(1))
    return lists, {1}.__eq__(Several(1)), {"a": 1}.__eq__(Named(a=1)), "a".__eq__(Several("a"))


def prefixes():
    return "abc".startswith(("a", "b")), raises(lambda: "abc".startswith(Several("a")))


PROGRAMS = [texts, texts_of_mappings, texts_of_items, updates, extensions, sets, sums, searches, stores, comparisons,
            prefixes]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program):
    compiled = firesteel.compile(lambda x: (program(), x + 1), backend="eager")
    firesteel.reset_counters()
    for _ in range(2):
        found, x = compiled(torch.ones(1))
        assert repr(found) == repr(program())
        torch.testing.assert_close(x, torch.full((1,), 2.0))
    assert firesteel.counters()["captured"] >= 1
    assert firesteel.counters()["fallbacks"] == {}
