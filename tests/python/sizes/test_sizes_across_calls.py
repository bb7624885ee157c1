"""Sizes that change, as arguments and results of nonstrict functions: in every container, of every kind."""

import collections
import dataclasses

import pytest
import torch

import firesteel

SIZES = (5, 6, 7, 11)


class Pair(collections.namedtuple("Pair", "first second")):
    __slots__ = ()


@dataclasses.dataclass
class Record:
    tensor: torch.Tensor
    sizes: tuple


firesteel.register_dataclass(Record)


@firesteel.nonstrict_trace
def takes_pair(x, pair):
    return Pair(x + pair.first, pair.second)


@firesteel.nonstrict_trace
def takes_size(x, shape):
    assert isinstance(shape, torch.Size)
    return x.new_ones(shape[0] * 2).sum() + x.view(shape), shape, shape[0]


@firesteel.nonstrict_trace
def takes_slice(x, part):
    return x[part].sum() + part.stop


@firesteel.nonstrict_trace
def takes_entries(x, entries):
    return x * entries["n"] + entries["more"][0]


@firesteel.nonstrict_trace
def takes_ordered(x, entries):
    return x * entries["n"]


@firesteel.nonstrict_trace
def takes_deque(x, queue):
    return x * queue[0]


@firesteel.nonstrict_trace
def takes_record(x, record):
    return record.tensor * record.sizes[0] + x


@firesteel.nonstrict_trace
def takes_number(x, number):
    return x * number


@firesteel.nonstrict_trace
def gives_entries(x, n):
    return {"n": n, "y": x * n, "more": [n + 1, (n * 2,)]}


@firesteel.nonstrict_trace
def gives_record(x, n):
    return Record(x * n, (n, 3))


@firesteel.nonstrict_trace
def gives_float(x, n):
    return x * (n / 2), n / 2, n**0.5


@firesteel.nonstrict_trace
def gives_truth(x, n):
    return x * n, n > 3, n == 4


def decides_by_what_it_gave(x):
    y, large, _ = gives_truth(x, x.shape[0])
    return y + 1 if large else y - 1


# The function, and whether one graph serves all sizes: one that goes into a container made by C code is settled.
CASES = [
    (lambda x: takes_pair(x, Pair(x.shape[0], x.shape[0] + 1)), True),
    (lambda x: takes_size(x, x.shape), True),
    (lambda x: takes_slice(x, slice(0, x.shape[0] - 1)), True),
    (lambda x: takes_entries(x, {"n": x.shape[0], "more": [x.shape[0] + 1]}), True),
    (lambda x: takes_ordered(x, collections.OrderedDict(n=x.shape[0])), False),
    (lambda x: takes_deque(x, collections.deque([x.shape[0], 2])), False),
    (lambda x: takes_record(x, Record(x + 1, (x.shape[0], 2))), True),
    (lambda x: takes_number(x, x.shape[0] / 2), True),
    (lambda x: takes_number(x, x.shape[0] > 3), True),
    (lambda x: gives_entries(x, x.shape[0]), True),
    (lambda x: gives_record(x, x.shape[0]), True),
    (lambda x: gives_float(x, x.shape[0]), True),
    (lambda x: gives_truth(x, x.shape[0]), True),
    (decides_by_what_it_gave, True),
]
NAMES = ["pair", "size", "slice", "entries", "ordered", "deque", "record", "float", "truth"]
NAMES += ["gives-entries", "gives-record", "gives-float", "gives-truth", "decides"]


def alike(given, expected):
    assert type(given) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(given, expected)
    elif isinstance(expected, (tuple, list)):
        assert len(given) == len(expected)
        for a, b in zip(given, expected, strict=True):
            alike(a, b)
    elif isinstance(expected, dict):
        assert list(given) == list(expected)
        alike(list(given.values()), list(expected.values()))
    elif dataclasses.is_dataclass(expected):
        alike(vars(given), vars(expected))
    else:
        assert given == expected


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
@pytest.mark.parametrize(("function", "one_graph"), CASES, ids=NAMES)
def test_sizes_go_through_nonstrict_calls(function, one_graph, backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend=backend, dynamic=True, fullgraph=True)
    for size in SIZES:
        x = torch.randn(size, 3)
        alike(compiled(x), function(x))
    counters = firesteel.counters()
    assert counters["captured"] == (1 if one_graph else len(SIZES))
    assert not counters["breaks"]
    assert not counters["fallbacks"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
def test_named_tuples_keep_sizes_open(backend):
    def function(x):
        pair = Pair(x.shape[0], second=2)
        return x.new_zeros(pair.first * pair.second), pair

    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend=backend, dynamic=True, fullgraph=True)
    for size in SIZES:
        x = torch.randn(size, 3)
        alike(compiled(x), function(x))
    assert firesteel.counters()["captured"] == 1
