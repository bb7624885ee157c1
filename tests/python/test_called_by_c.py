"""C callables that C code calls: `map(log.append, …)`, `max(d, key=d.get)`. What they read and write is seen."""

import copy
import functools
import itertools
import operator

import pytest
import torch

import firesteel


class Thing:
    def __init__(self, value=0):
        self.value = value


def state():
    return {
        "log": [],
        "d": {"a": 3, "b": 1, "c": 2},
        "thing": Thing(),
        "s": set(),
        "q": [3, 1, 2],
        "rows": [[1, 2], [3]],
        "names": ["b", "A"],
        "things": [Thing(2), Thing(1)],
    }


def shown(value):
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    return shown(vars(value)) if isinstance(value, Thing) else value


WRITERS = {
    "map append": lambda e: list(map(e["log"].append, [1, 2])),
    "map pop": lambda e: list(map(e["d"].pop, ["a", "b"])),
    "map setattr": lambda e: list(itertools.starmap(setattr, [(e["thing"], "value", 5)])),
    "map partial": lambda e: list(map(functools.partial(e["log"].append), [1, 2])),
    "map methodcaller": lambda e: list(map(operator.methodcaller("append", 7), [e["log"]])),
    "map next": lambda e: list(map(next, [iter(e["q"])] * 2)),
    "map setitem": lambda e: [*map(operator.setitem, [e["d"]], ["z"], [9])],
    "reduce iadd": lambda e: functools.reduce(operator.iadd, [e["log"], [1]]),
    "sort by get": lambda e: e["names"].sort(key=lambda name: e["d"].get(name, 0)),
    "sort by setdefault": lambda e: (list.sort(keys := ["a", "b"], key=e["d"].setdefault), keys),
    "sorted by setdefault": lambda e: sorted(["x", "b"], key=lambda k: e["d"].setdefault(k, 0)),
    "max by setdefault": lambda e: max(["b", "a"], key=e["d"].setdefault),
    "any of map": lambda e: any(map(e["log"].append, [1, 2])),
    "extend by map": lambda e: e["log"].extend(map(e["s"].add, [1, 2])),
    "filter by add": lambda e: list(filter(e["s"].add, [1, 2])),
    "zip of map": lambda e: dict(zip([1, 2], map(e["log"].append, [1, 2]), strict=True)),
    "for over map": lambda e: [(x, 1) for x in map(e["log"].append, [1, 2])],
    "iter until": lambda e: [e["log"].extend([5, 4, 2, 3]), list(iter(e["log"].pop, 2))],
    "accumulate": lambda e: list(itertools.accumulate(["a", "b"], e["d"].get)),
    "takewhile": lambda e: list(itertools.takewhile(e["s"].add, [1, 2])),
    "a map that stays": lambda e: e.update(later=map(e["log"].append, [1])) or list(e.pop("later")),
}
READERS = {
    "max by get": lambda e: max(e["d"], key=e["d"].get),
    "sorted by get": lambda e: sorted(e["d"], key=e["d"].get),
    "map len": lambda e: sum(map(len, e["rows"])),
    "map list": lambda e: list(map(list, e["rows"])),
    "map tuple": lambda e: [*map(tuple, e["rows"])],
    "map str": lambda e: " ".join(map(str, e["q"])),
    "map lower": lambda e: list(map(str.lower, e["names"])),
    "join of names": lambda e: list(map(",".join, [e["names"]])),
    "sorted lower": lambda e: sorted(e["names"], key=str.lower),
    "itemgetter": lambda e: sorted(e["rows"], key=operator.itemgetter(0), reverse=True),
    "attrgetter": lambda e: [t.value for t in sorted(e["things"], key=operator.attrgetter("value"))],
    "map getattr": lambda e: list(map(getattr, e["things"], ["value", "value"])),
    "contains": lambda e: list(map(e["d"].__contains__, ["a", "z"])),
    "getitem": lambda e: list(map(e["d"].__getitem__, ["a", "b"])),
    "reduce add": lambda e: functools.reduce(operator.add, e["q"]),
    "reduce with a callable": lambda e: functools.reduce(lambda found, _: found, e["q"], len) is len,
    "groupby": lambda e: [(k, list(g)) for k, g in itertools.groupby(e["rows"], len)],
    "zip_longest": lambda e: [b for _, b in itertools.zip_longest(e["q"], [], fillvalue=len)] == [len] * len(e["q"]),
    "filter none": lambda e: list(filter(None, e["q"])),
    "filter bool": lambda e: list(filter(bool, e["rows"])),
    "a class": lambda e: [t.value for t in map(Thing, e["q"])],
    "index": lambda e: list(map(e["q"].index, [3, 1])),
}


def change(e):
    """As a user might between two calls."""
    e["d"]["b"] = 7
    e["rows"][0].append(9)
    e["q"][2] = 0
    e["names"][0] = "C"
    e["things"][0].value = 0


def ended(function, *args):
    try:
        return shown(function(*args))
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", [*WRITERS, *READERS])
def test_as_eager(name):
    body = (WRITERS | READERS)[name]

    def function(x, e):
        y = x + 1
        found = body(e)
        return y * 2, found

    compiled = firesteel.compile(function, backend="eager")
    firesteel.reset_counters()
    changed = state()
    change(changed)
    for original in (state(), state(), changed, state()):
        ours, theirs, x = copy.deepcopy(original), copy.deepcopy(original), torch.randn(3)
        found, expected = ended(compiled, x, ours), ended(function, x, theirs)
        assert str(found) == str(expected)
        assert shown(ours) == shown(theirs)
    assert firesteel.counters()["hits"] > 0


@functools.lru_cache
def cached(value):
    calls.append(value)
    return -value


calls = []


@pytest.mark.parametrize("body", [lambda: list(map(cached, [1, 2, 1])), lambda: sorted([1, 2], key=cached)])
def test_a_cached_function_runs_for_real(body):
    def function(x):
        return x + 1, body()

    counts = []
    for run in (function, firesteel.compile(function, backend="eager")):
        cached.cache_clear()
        calls.clear()
        _, found = run(torch.ones(2))
        counts.append((found, list(calls), cached.cache_info().misses))
    assert counts[0] == counts[1]


def test_torch_functions_are_nodes():
    def function(xs):
        return list(map(torch.sin, xs)), functools.reduce(torch.add, xs), list(map(torch.Tensor.cos, xs))

    xs = [torch.randn(3) for _ in range(3)]
    firesteel.reset_counters()
    found = firesteel.compile(function, fullgraph=True, backend="eager")(xs)
    torch.testing.assert_close(found, function(xs))
    assert firesteel.counters()["breaks"] == {}
    assert "torch.sin" in str(firesteel.explain(function)(xs).graphs[0])


def test_a_callable_that_escapes_is_the_users():
    def function(x, e):
        e["later"] = map(e["log"].append, [1, 2])
        return x + 1

    compiled, e = firesteel.compile(function, backend="eager"), state()
    for _ in range(2):
        compiled(torch.ones(2), e)
        assert list(e["later"]) == [None, None]
        assert type(e["later"].__reduce__()[1][0]) is type(e["log"].append)
    assert e["log"] == [1, 2, 1, 2]
