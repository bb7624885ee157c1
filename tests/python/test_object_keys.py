"""Dicts and sets from outside whose keys are objects, modules, tensors or tuples: one graph, guarded by the keys."""

import collections

import pytest
import torch

import firesteel


class Thing:
    pass


A, B = Thing(), Thing()
M, N = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
P, Q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2) * 5)

KEYS = {
    "objects": (A, B),
    "modules": (M, N),
    "parameters": (P, Q),
    "tuples": ((1, "a"), (1, (None, 2.5))),
    "functions": (torch.sin, len),
}

PROGRAMS = {
    "item": lambda x, d, s, k, other: x + d[k] * (d[other] if other in d else 7),  # noqa: SIM401
    "get": lambda x, d, s, k, other: x + d.get(k) + d.get(other, 11),
    "in": lambda x, d, s, k, other: x + (k in d) * 2 + (other in d) * 4 + (k in s) * 8 + (other in s) * 16,
    "loop": lambda x, d, s, k, other: x + sum(value * (3 if key is k else 1) for key, value in d.items()),
    "set loop": lambda x, d, s, k, other: x + sum(3 if one is k else 1 for one in s),
    "missing": lambda x, d, s, k, other: x + attempt(d, other),
}


def attempt(d, key):
    try:
        return d[key]
    except KeyError:
        return 100


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("make", [dict, collections.OrderedDict])
def test_as_eager(program, kind, make):
    first, second = KEYS[kind]

    def function(x, d, s, k, other):
        return PROGRAMS[program](x, d, s, k, other)

    # What names a missing tensor in its error looks at data: a break.
    whole = (program, kind) != ("missing", "parameters")
    compiled = firesteel.compile(function, backend="eager", fullgraph=whole, recompile_limit=64)
    dicts = make({first: 1}), make({first: 1, second: 2}), make({second: 3}), make({first: 4})
    for d in dicts * 2:
        for s in {first}, {second, first}, set():
            for given in (first, second), (second, first), (first, first):
                if program in ("item", "get") and given[0] not in d:
                    continue
                x = torch.randn(2)
                torch.testing.assert_close(compiled(x, d, s, *given), function(x, d, s, *given))


def test_what_a_module_is_kept_under():
    layers = {M: N, N: M}

    def function(x):
        for layer in (M, N):
            x = layers[layer](x)
        return x

    x = torch.randn(2)
    compiled = firesteel.compile(function, fullgraph=True)
    torch.testing.assert_close(compiled(x), function(x))
    layers[M] = M
    torch.testing.assert_close(compiled(x), function(x))


def test_a_set_of_modules():
    chosen = {M, N}

    def function(x):
        return sum(layer(x) for layer in chosen)

    x = torch.randn(2)
    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), function(x))
    chosen.discard(N)
    torch.testing.assert_close(compiled(x), function(x))


def test_state_kept_by_parameter():
    """As optimizers keep it."""
    state = collections.defaultdict(dict, {P: {"step": 0, "mean": torch.zeros(2)}})

    def function(gradient):
        own = state[P]
        own["step"] += 1
        own["mean"].lerp_(gradient, 0.5)
        return own["mean"] * own["step"]

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    mean = torch.zeros(2)
    for step in range(1, 4):
        gradient = torch.randn(2)
        mean.lerp_(gradient, 0.5)
        torch.testing.assert_close(compiled(gradient), mean * step)
    assert state[P]["step"] == 3
