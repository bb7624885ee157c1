"""Every way to change a dict is seen by the guards at the next call; a change that means nothing costs nothing."""

from collections import OrderedDict, defaultdict

import pytest
import torch

import firesteel


def reads(d):
    """Values, a key that is not there, keys in their order."""
    scale = d["a"]
    if "new" in d:
        scale = scale + d["new"]
    for position, key in enumerate(d):
        scale = scale + position * len(key)
    return torch.ones(2) * scale


def made(kind):
    if kind is defaultdict:
        return defaultdict(int, a=1, bb=2, ccc=3)
    return kind(a=1, bb=2, ccc=3)


class Plain(dict):
    pass


def set_item(d):
    d["a"] = 5


def set_back(d):
    d["a"] = 7
    d["a"] = 1


def merge(d):
    d |= {"a": 6}


def delete(d):
    del d["bb"]


def reorder(d):
    d["a"] = d.pop("a")


def refill(d):
    d.clear()
    d.update(a=4, dddd=1)


CHANGES = {
    "item": set_item,
    "item and back": set_back,
    "new item": lambda d: d.__setitem__("new", 3),
    "update": lambda d: d.update(a=3),
    "update with a dict": lambda d: d.update({"new": 2}),
    "update with pairs": lambda d: d.update([("a", 9)]),
    "merge": merge,
    "setdefault": lambda d: d.setdefault("new", 8),
    "pop": lambda d: d.pop("ccc"),
    "popitem": lambda d: d.popitem(),
    "delete": delete,
    "reorder": reorder,
    "refill": refill,
    "dict's own": lambda d: dict.__setitem__(d, "a", 11),
    "init again": lambda d: d.__init__(a=12),
}


@pytest.mark.parametrize("kind", [dict, Plain, OrderedDict, defaultdict], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_a_dict_is_seen(kind, change):
    d = made(kind)
    compiled = firesteel.compile(reads, backend="eager", fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(d), reads(d), rtol=0, atol=0)
    change(d)
    for _ in range(2):
        torch.testing.assert_close(compiled(d), reads(d), rtol=0, atol=0)


def test_a_moved_key_of_an_ordered_dict_is_seen():
    d = OrderedDict(a=1, bb=2, ccc=3)
    compiled = firesteel.compile(reads, backend="eager", fullgraph=True)
    for key, last in (("a", True), ("ccc", False), ("bb", True)):
        d.move_to_end(key, last=last)
        torch.testing.assert_close(compiled(d), reads(d), rtol=0, atol=0)


def test_another_dict_of_the_same_keys_is_looked_at_itself():
    compiled = firesteel.compile(reads, backend="eager", fullgraph=True)
    for value in (1, 2, 1, 3, 2):
        d = {"a": value, "bb": 2, "ccc": 3}
        torch.testing.assert_close(compiled(d), reads(d), rtol=0, atol=0)
        copied = dict(d)
        torch.testing.assert_close(compiled(copied), reads(copied), rtol=0, atol=0)


class Settings:
    def __init__(self):
        self.scale = 2.0

    def bias(self):
        return 1.0


def uses(settings, x):
    return x * settings.scale + settings.bias()


def by_dict(settings):
    settings.__dict__["scale"] = 3.0


def new_dict(settings):
    settings.__dict__ = {"scale": 4.0}


INSTANCE_CHANGES = {
    "attribute": lambda s: setattr(s, "scale", 5.0),
    "object's own": lambda s: object.__setattr__(s, "scale", 6.0),
    "its dict": by_dict,
    "vars": lambda s: vars(s).update(scale=7.0),
    "another dict": new_dict,
    "hides a method": lambda s: setattr(s, "bias", lambda: 9.0),
    "hides a method in the dict": lambda s: vars(s).setdefault("bias", lambda: 10.0),
}


@pytest.mark.parametrize("had_dict", [False, True], ids=["inline", "own dict"])
@pytest.mark.parametrize("change", INSTANCE_CHANGES.values(), ids=INSTANCE_CHANGES)
def test_every_change_of_an_object_is_seen(change, had_dict):
    settings = Settings()
    if had_dict:
        vars(settings)
    compiled = firesteel.compile(uses, backend="eager", fullgraph=True)
    x = torch.ones(3)
    for _ in range(3):
        torch.testing.assert_close(compiled(settings, x), uses(settings, x), rtol=0, atol=0)
    change(settings)
    for _ in range(2):
        torch.testing.assert_close(compiled(settings, x), uses(settings, x), rtol=0, atol=0)


def test_attributes_stored_by_hot_code_are_seen():
    """CPython rewrites a store that it has seen often; such a store counts as well."""
    settings = Settings()
    vars(settings)
    compiled = firesteel.compile(uses, backend="eager", dynamic=True)
    x = torch.ones(3)

    def store(value):
        settings.scale = value

    for value in range(200):
        store(float(value))
        if value % 20 == 0:
            torch.testing.assert_close(compiled(settings, x), uses(settings, x), rtol=0, atol=0)


def test_a_change_that_means_nothing_costs_no_compilation():
    d = {"a": 1, "bb": 2, "ccc": 3}
    unread = {"a": 1, "rest": 0}
    compiled = firesteel.compile(lambda d, e: reads(d) * e["a"], backend="eager", fullgraph=True)
    compiled(d, unread)
    before = firesteel.counters()["captured"]
    for value in range(5):
        unread["rest"] = value
        set_back(d)
        torch.testing.assert_close(compiled(d, unread), reads(d), rtol=0, atol=0)
    assert firesteel.counters()["captured"] == before
