"""Fields of namedtuples: made inside, given as arguments, found outside; a changed field is noticed."""

from collections import namedtuple
from typing import NamedTuple

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)

Pair = namedtuple("Pair", "x k")


class Rule(NamedTuple):
    scale: float
    function: object = torch.sin

    @property
    def twice(self):
        return self.scale * 2

    def run(self, x):
        return self.function(x) * self.twice


RULES = {list: Rule(2.0), dict: Rule(3.0, lambda x: x.cos())}
OUTSIDE = Pair(torch.full((3,), 2.0), 3)


def made_inside(pair):
    inner = Pair(pair[0] * 2, k=3)
    return inner.x * inner.k, inner._replace(k=4).k


def fields(pair):
    return pair.x * pair.k + pair.x


def outside(pair):
    return pair.x * OUTSIDE.x * OUTSIDE.k


def called(pair):
    return RULES[list].function(pair.x) + RULES[dict].run(pair.x)


def given_back(pair):
    return pair._replace(x=pair.x + 1), pair


@pytest.mark.parametrize("program", [made_inside, fields, outside, called, given_back], ids=lambda p: p.__name__)
def test_captured_whole(program, backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        pair = Pair(torch.randn(3), 2)
        found, expected = compiled(pair), program(pair)
        assert type(found) is type(expected)
        torch.testing.assert_close(found, expected)
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"]) == (1, 3)
    assert counters["breaks"] == counters["fallbacks"] == {}


def test_another_field_is_noticed(backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(fields, backend=backend, fullgraph=True)
    x = torch.randn(3)
    for k in (2, 3, 2.5, 2):
        torch.testing.assert_close(compiled(Pair(x, k)), fields(Pair(x, k)))
    with pytest.raises(AttributeError, match="no attribute 'k'"):
        compiled(namedtuple("Other", "x z")(x, 1))


def nested(x, seen):
    seen["last"] = len(seen)
    inner = Pair(x * 2, 3)
    outer = Pair(inner, Rule(4.0))
    return outer, outer.x is inner, outer.k.scale, Pair._make([outer, 1]), tuple.__new__(Pair, (inner, outer))


def test_in_each_other(backend):
    compiled, ours, theirs = firesteel.compile(nested, backend=backend), {}, {}
    for _ in range(3):
        x = torch.randn(3)
        found, expected = compiled(x, ours), nested(x, theirs)
        assert repr(found) == repr(expected)
        assert found[1:3] == (True, 4.0)
        assert ours == theirs
