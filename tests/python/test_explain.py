"""explain(): what it tells agrees with what happened, and the function runs exactly once a call."""

import pytest
import torch
from torch import nn

import firesteel


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset_counters()
    torch.manual_seed(0)


def broken(x, log):
    y = x.sin() * 2
    log.append(y.sum().item())
    return y.cos()


def test_breaks_graphs_guards_and_ops():
    log, expected_log = [], []
    x = torch.randn(4)
    found = firesteel.explain(broken)(x, log)
    expected = broken(x, expected_log)
    torch.testing.assert_close(found.result, expected)
    assert log == pytest.approx(expected_log)  # once
    counts = firesteel.counters()
    assert counts["captured"] >= len(found.graphs) == 2
    assert [graph.ops for graph in found.graphs] == [
        ["torch.Tensor.sin", "operator.mul", "torch.Tensor.sum"],
        ["torch.Tensor.cos"],
    ] or found.op_count == 4
    assert sum(found.ops.values()) == found.op_count == 4
    assert [graph.node_count for graph in found.graphs] == [3, 1]
    (place,) = found.breaks
    assert place.reason == "FS-DATA-DEPENDENT"
    assert place.file == __file__
    assert place.line == broken.__code__.co_firstlineno + 2
    assert "log.append(y.sum().item())" in place.place
    assert "read it after the call" in place.remedy
    assert found.guards
    assert any("x" in guard for guard in found.guards)
    assert not found.recompiles
    assert found.timings["capture"] > 0
    assert found.timings["call"] >= found.timings["capture"]


def test_it_prints_well():
    text = str(firesteel.explain(broken)(torch.randn(4), []))
    for part in (
        "broken: 2 graphs, 4 operations, 1 graph break",
        "your code ran 1 time",
        "graph 1: `broken` from test_explain.py:",
        "captured in",
        "guards:",
        "graph break at test_explain.py:",
        "reason: ",
        "[FS-DATA-DEPENDENT]",
        "try: ",
    ):
        assert part in text, text
    assert "\x1b" not in text
    assert repr(firesteel.explain(lambda x: x + 1)(torch.ones(1))).startswith("<firesteel.Explanation of ")


def test_recompiles_name_the_guard():
    asked = firesteel.explain(lambda x, scale: x * scale)
    assert asked(torch.ones(3), 2).recompiles == []
    found = asked(torch.ones(3), 3)
    assert found.calls == 2
    (again,) = found.recompiles
    assert "`scale` is 3, was 2" in again.guard
    assert "captured again" in str(found)
    assert len(asked(torch.ones(3), 3).recompiles) == 1


def test_a_compiled_function_and_a_module_stay_as_they_are():
    model = nn.Linear(3, 2)
    compiled = firesteel.compile(model)
    x = torch.randn(2, 3)
    found = firesteel.explain(compiled, backend="eager")(x)
    torch.testing.assert_close(found.result, model(x))
    assert len(found.graphs) == 1
    assert not firesteel._C._entries(compiled._compiled)
    assert found.graphs[0].aten == ""
    assert "aten." in firesteel.explain(model, backend="aot_eager")(x).graphs[0].aten


def test_a_backend_that_is_a_function_is_timed():
    def backend(module, examples):
        return module.forward

    found = firesteel.explain(lambda x: x + 1, backend=backend)(torch.ones(2))
    assert found.timings["backend"] > 0
    assert found.graphs[0].backend_seconds == found.timings["backend"]


def test_code_that_runs_eagerly_is_told():
    def generator(x):
        yield x + 1

    found = firesteel.explain(generator)(torch.ones(2))
    assert found.fallbacks == {"FS-GENERATOR": 1}
    assert found.graphs == []
    assert "ran eagerly 1 time [FS-GENERATOR]" in str(found)


def test_an_exception_is_the_users_own():
    calls = []

    def failing(x):
        x = x + 1
        calls.append(1)
        raise ValueError("mine")

    asked = firesteel.explain(failing)
    with pytest.raises(ValueError, match="mine"):
        asked(torch.ones(2))
    assert calls == [1]
    assert asked.report().calls == 1
    assert "FS-EXCEPTION" in str(asked.report())


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="no backend"):
        firesteel.explain(broken, backend="nope")
    with pytest.raises(TypeError, match="not 3"):
        firesteel.explain(3)


def test_a_compiled_function_is_explained_with_its_options():
    def function(x):
        y = x.sin()
        print("met", end="")
        return y + 1

    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    compiled = firesteel.compile(function, backend=backend, fullgraph=True, dynamic=True)
    explained = firesteel.explain(compiled)(torch.ones(3))
    assert len(explained.breaks) == 1
    assert len(seen) == len(explained.graphs) == 2
    assert "s0" in explained.graphs[0].text
    with pytest.raises(firesteel.GraphBreakError):
        firesteel.explain(compiled, fullgraph=True)(torch.ones(3))
    model = firesteel.compile(nn.Linear(3, 2), backend="eager")
    assert firesteel.explain(model)(torch.ones(3)).graphs[0].aten == ""
    assert firesteel.explain(model, backend="aot_eager")(torch.ones(3)).graphs[0].aten != ""
