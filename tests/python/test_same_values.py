"""What the code writes may be what is there already; the next call must write it all the same."""

import pytest
import torch

import firesteel

STATE = {"n": 2, "m": None}
FLAG = 2


class Holder:
    n = 0


HOLDER = Holder()


@firesteel.disable
def count(x):
    STATE["n"] += 1
    HOLDER.n += 1
    return x


def local(x, n, values):
    y = x.sin()
    n = 3
    firesteel.graph_break()
    return y + n, n


def of_none(x, n, values):
    y = x.sin()
    values = None
    firesteel.graph_break()
    return y, values


def key(x, n, values):
    STATE["n"] = 2
    return count(x + 1), dict(STATE)


def updated(x, n, values):
    STATE.update(n=2)
    STATE.update({"m": n})
    return count(x + 1), dict(STATE)


def attribute(x, n, values):
    HOLDER.n = 2
    return count(x + 1), HOLDER.n


def read_again(x, n, values):
    STATE["n"] = 1
    n = STATE["n"]
    firesteel.graph_break()
    values[n] = 7
    return x + n, n


def item(x, n, values):
    values[-1] = 2
    values[0] = 1
    return x + 1, values


def variable(x, n, values):
    global FLAG
    FLAG = 2
    y = x + 1
    return y, FLAG


def cell(x, n, values):
    kept = n

    def inner():
        nonlocal kept
        kept = 3
        firesteel.graph_break()
        return kept

    return x + inner(), kept


PROGRAMS = [local, of_none, key, updated, attribute, read_again, item, variable, cell]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_next_call_writes_it_as_well(program, backend):
    global FLAG

    def calls(function):
        global FLAG
        STATE.update(n=2, m=None)
        HOLDER.n = 2
        FLAG = 2
        for i, (n, values) in enumerate([(1, [1, 2]), (1, None), (3, [1, 2]), (0, [5, 6]), (2, [1, 9]), (7, [8, 2])]):
            values = values or [4, 2]
            x = torch.arange(3.0) + i
            yield function(x, n, values), list(values), dict(STATE), HOLDER.n, FLAG
            if i % 2:
                STATE["n"], HOLDER.n, FLAG = i, i + 1, i + 2

    compiled = firesteel.compile(program, backend=backend)
    for found, expected in zip(list(calls(compiled)), list(calls(program)), strict=True):
        torch.testing.assert_close(found, expected)
