"""compile(shapes_spec=...): what it names is open from the first graph on, all else keeps its size."""

import pytest
import torch
from torch.fx.experimental.dynamic_spec import (
    DictSpec,
    IntVar,
    ObjectSpec,
    ParamsSpec,
    SeqSpec,
    ShapesSpec,
    ShapeVar,
    TensorSpec,
)

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


def captures(function, spec, calls, backend="aot_eager"):
    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend=backend, fullgraph=True, shapes_spec=spec)
    for args, kwargs in calls:
        torch.testing.assert_close(compiled(*args, **kwargs), function(*args, **kwargs))
    counters = firesteel.counters()
    assert not counters["fallbacks"]
    return counters["captured"]


def shapes(*sizes):
    return [((torch.randn(size),), {}) for size in sizes]


def double(x):
    return x * 2 + x.shape[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", [dict, ParamsSpec, ShapesSpec])
def test_what_is_open_takes_one_graph(form, backend):
    spec = form({"x": TensorSpec([ShapeVar("batch"), None])})
    assert captures(double, spec, shapes((4, 3), (7, 3), (12, 3)), backend) == 1


def test_all_else_keeps_its_size():
    spec = {"x": TensorSpec([ShapeVar("batch"), None])}
    assert captures(double, spec, shapes((4, 3), (7, 5), (12, 6), (9, 3))) == 3
    assert captures(double, {}, shapes((4, 3), (7, 3), (9, 3))) == 3


def test_places_of_every_kind():
    def function(a, table, items, *rest, **named):
        return a + table["k"] + items[1] + rest[0] + named["q"]

    row = TensorSpec([ShapeVar("n")])
    spec = {
        "a": row,
        "table": DictSpec({"k": row}),
        "items": SeqSpec([None, row]),
        "*args": [row],
        "**kwargs": {"q": row},
    }
    calls = []
    for size in (4, 7, 12):
        args = torch.randn(size), {"k": torch.randn(size)}, [0, torch.randn(size)], torch.randn(size)
        calls.append((args, {"q": torch.randn(size)}))
    assert captures(function, spec, calls) == 1


def test_numbers():
    def function(x, n):
        return x * n

    calls = [((torch.ones(3), n), {}) for n in (2, 5, 9)]
    assert captures(function, {"n": IntVar("n")}, calls) == 1
    assert captures(function, {}, calls) == 2  # a number that has changed is an input from then on


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x, scale=None, *rest):
        y = self.linear(x)
        return y if scale is None else y * scale


@pytest.mark.parametrize("by_name", [False, True])
def test_parameters_of_a_module_s_forward(by_name):
    layer = Layer()
    firesteel.reset_counters()
    compiled = firesteel.compile(layer, backend="aot_eager", shapes_spec={"x": TensorSpec([ShapeVar("batch"), None])})
    for size in (4, 7, 12):
        x = torch.randn(size, 3)
        torch.testing.assert_close(compiled(x=x) if by_name else compiled(x), layer(x))
    assert firesteel.counters()["captured"] == 1


def test_what_the_code_settles_is_an_error():
    def function(x):
        return x * sum(range(x.shape[0]))

    compiled = firesteel.compile(function, shapes_spec={"x": TensorSpec([ShapeVar("n")])})
    with pytest.raises(firesteel.ControlError, match=r"shapes_spec says that dimension 0 of `x` changes"):
        compiled(torch.randn(4))


def test_bounds_and_fixed_sizes():
    spec = {"x": TensorSpec([ShapeVar("n", min=2, max=8), 3])}
    compiled = firesteel.compile(double, backend="aot_eager", shapes_spec=spec)
    compiled(torch.randn(4, 3))
    with pytest.raises(firesteel.ControlError, match="dimension 0 of `x` is 9, and shapes_spec allows 2 to 8"):
        compiled(torch.randn(9, 3))
    with pytest.raises(firesteel.ControlError, match="dimension 1 of `x` is 4, and shapes_spec allows 3 to 3"):
        compiled(torch.randn(4, 4))
    with pytest.raises(firesteel.ControlError, match="gives `x` 2 dimensions, and it has 1"):
        compiled(torch.randn(4))
    x = torch.randn(8, 3)
    torch.testing.assert_close(compiled(x), double(x))


def test_behind_a_break_sizes_are_open():
    def function(x):
        y = x * 2
        firesteel.graph_break()
        return y + y.shape[0]

    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend="aot_eager", shapes_spec={"x": TensorSpec([ShapeVar("n")])})
    for size in (4, 7, 12):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), function(x))
    assert firesteel.counters()["captured"] == 2


N = ShapeVar("n")


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        (3, TypeError, "is a ShapesSpec, a ParamsSpec, a dict or None, not 3"),
        ({"y": TensorSpec([N])}, ValueError, "names `y`, which is no parameter; those there are: `x`"),
        ({"*args": [TensorSpec([N])]}, ValueError, r"has an entry for \*args"),
        ({"x": ObjectSpec({"w": TensorSpec([N])})}, NotImplementedError, "attributes of `x`"),
    ],
    ids=["type", "name", "rest", "object"],
)
def test_bad_specs(spec, error, text):
    with pytest.raises(error, match=text):
        firesteel.compile(double, shapes_spec=spec)


@pytest.mark.parametrize("backend", BACKENDS)
def test_expressions_and_assumptions(backend):
    def function(x, y, count):
        return x.sum() + y.sum() * y.shape[0] + count

    spec = ShapesSpec({"x": TensorSpec([N]), "y": TensorSpec([N * 2 + 1]), "count": N + 3}, assumptions=[N > 3])
    sizes = [(n, 2 * n + 1) for n in (5, 9, 20)] + [(6, 31)]  # the last is not as promised, and computed all the same
    calls = [((torch.randn(n), torch.randn(m), n + 3), {}) for n, m in sizes]
    assert captures(function, spec, calls, backend) == 1


def test_not_beside_dynamic():
    with pytest.raises(ValueError, match="dynamic or shapes_spec, not both"):
        firesteel.compile(double, dynamic=True, shapes_spec={"x": TensorSpec([N, None])})
