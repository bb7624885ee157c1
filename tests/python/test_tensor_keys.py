"""Tensors as keys of dicts and sets from outside, as optimizers have them: found and written as eagerly."""

import collections
import copy
import operator

import pytest
import torch

import firesteel

P, Q = torch.ones(2), torch.zeros(2)


def state():
    return {
        "d": {P: 1},
        "default": collections.defaultdict(list, {P: [1]}),
        "s": {P},
        "ordered": collections.OrderedDict({P: 1}),
        "pairs": {(P, 1): 5},
        "counter": collections.Counter({P: 3}),
    }


def shown(e):
    return {
        name: [str(item) for item in (held.items() if isinstance(held, dict) else held)] for name, held in e.items()
    }


PROGRAMS = {
    "default": lambda e, p, q: (len(e["default"][p]), e["default"][q].append(2), len(e["default"])),
    "get": lambda e, p, q: (e["d"].get(p), e["d"].get(q), e["default"].get(p)),
    "in": lambda e, p, q: (p in e["d"], q in e["d"], p in e["s"], q in e["s"], p in e["default"].keys()),  # noqa: SIM118
    "setdefault": lambda e, p, q: (e["d"].setdefault(p, 7), e["d"].setdefault(q, 8), len(e["d"])),
    "pop": lambda e, p, q: (e["d"].pop(p), len(e["d"]), e["d"].pop(q, 3)),
    "set": lambda e, p, q: (e["d"].__setitem__(p, 9), operator.setitem(e["d"], q, 1), e["d"][p], len(e["d"])),
    "delete": lambda e, p, q: (e["d"].__delitem__(p), len(e["d"])),
    "add": lambda e, p, q: (e["s"].add(p), len(e["s"]), e["s"].add(q), len(e["s"])),
    "discard": lambda e, p, q: (e["s"].discard(p), len(e["s"])),
    "ordered": lambda e, p, q: (e["ordered"][p], e["ordered"].get(p), p in e["ordered"], e["ordered"].move_to_end(p)),
    "pairs": lambda e, p, q: (e["pairs"].get((p, 1)), (p, 1) in e["pairs"], e["pairs"][(p, 1)]),
    "counter": lambda e, p, q: (e["counter"][p], e["counter"][q]),
    "update": lambda e, p, q: (e["d"].update({p: 5}), e["d"][p], e["d"].update([(q, p)]), len(e["d"])),
    "ior": lambda e, p, q: (operator.ior(e["d"], {p: 5})[p], len(e["d"]), len(operator.isub(e["s"], {p}))),
    "sets": lambda e, p, q: (len(e["s"] | {p}), len(e["s"] - {p}), len(e["s"] & {p, q}), e["s"] >= {p}),
    "made inside": lambda e, p, q: ({p: 1}[p], p in {p}, len({p, p, q}), {(p, 1): 2}.get((p, 1))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    def function(p, q, e):
        y = p + q
        found = PROGRAMS[name](e, p, q)
        return y * 2, found

    compiled = firesteel.compile(function, backend="eager")
    firesteel.reset_counters()
    for _ in range(3):
        ours, theirs = state(), state()
        assert str(compiled(P, Q, ours)) == str(function(P, Q, theirs))
        assert shown(ours) == shown(theirs)
    assert firesteel.counters()["hits"] > 0


def test_values_that_are_tensors_need_no_break():
    def function(x, e):
        e.update(a=x + 1, b=x)
        e.update([("c", x * 2)])
        e["d"] = x * 3
        return e["a"]

    ours, theirs = {}, {}
    firesteel.compile(function, backend="eager", fullgraph=True)(P, ours)
    function(P, theirs)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_steps_of_optimizers(name, backend):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4)]
    layers.append(copy.deepcopy(layers[0]))
    settings = {"lr": 0.01, "momentum": 0.9} if name == "SGD" else {"lr": 0.01}
    optimizers = [getattr(torch.optim, name)(layer.parameters(), **settings) for layer in layers]
    compiled = firesteel.compile(lambda: optimizers[0].step(), backend=backend)
    for step in (compiled, compiled, compiled, compiled):
        x = torch.randn(3, 4)
        for layer, optimizer in zip(layers, optimizers, strict=True):
            optimizer.zero_grad()
            layer(x).square().sum().backward()
        step()
        optimizers[1].step()
    torch.testing.assert_close(layers[0].weight, layers[1].weight, rtol=1e-4, atol=1e-5)
    ours, theirs = (next(iter(optimizer.state.values())) for optimizer in optimizers)
    assert list(ours) == list(theirs)
    assert float(ours.get("step", 0)) == float(theirs.get("step", 0))
