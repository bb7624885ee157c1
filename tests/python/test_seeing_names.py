"""Names a user knows: values kept over a break, closures, modules; and warnings and errors with line and next step."""

import os
import re
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import firesteel
from firesteel._report import gather, page

THIS = os.path.relpath(__file__)


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset()
    firesteel.reset_counters()
    yield
    firesteel.logs()


def lines_of(caplog, kind):
    return [record.getMessage() for record in caplog.records if record.name == f"firesteel.{kind}"]


def line(function, offset):
    return function.__code__.co_firstlineno + offset


# --- values kept over a break


def loop_with_a_break(x):
    for step in range(4):
        x = torch.tanh(x) + step
        print(end="")
    return x


def two_halves(x, scale):
    return x.sin() + kept(x, scale) * 2


@firesteel.disable
def kept(x, scale):
    return x * scale


def shown(found):
    return "\n".join([*found.guards, *(it.guard for it in found.recompiles), str(found), found._repr_html_()])


def test_the_value_of_a_loop_is_named_by_its_line(caplog):
    with firesteel.logs("recompiles", "guards"):
        found = firesteel.explain(loop_with_a_break)(torch.ones(3))
    name = f"the value of the loop at line {line(loop_with_a_break, 1)}"
    (again,) = found.recompiles
    assert again.guard == f"`{name}` is 2, was 1"
    assert "take what breaks out of the loop" in again.remedy
    assert any(name in text for text in lines_of(caplog, "recompiles"))
    assert any(name in text for text in lines_of(caplog, "guards"))
    assert not re.search(r"\bstack\d", shown(found))
    assert not re.search(r"\bstack\d", caplog.text)


def test_other_values_are_named_by_the_break_and_the_call():
    found = firesteel.explain(two_halves)(torch.ones(3), 2)
    at = line(two_halves, 1)
    assert any(f"value 1 kept over the break at line {at}" in guard for guard in found.guards)
    assert any(f"the result of the call at line {at}" in guard for guard in found.guards)
    assert not re.search(r"\bstack\d", shown(found))


def inner(x):
    y = x.cos() + kept(x, 3)
    return y * 2


def outer(x):
    return x.exp() + inner(x.sin())


def test_in_functions_called_inside_too():
    found = firesteel.explain(outer)(torch.ones(3))
    assert not re.search(r"\bstack\d", shown(found))
    names = " ".join(found.guards)
    assert f"value 1 kept over the break at line {line(outer, 1)}" in names
    assert f"at line {line(inner, 1)} of inner" in names


def test_the_report_has_the_same_names():
    compiled = firesteel.compile(loop_with_a_break)
    compiled(torch.ones(3))
    text = page.html(gather.facts(), "a title")
    assert f"the value of the loop at line {line(loop_with_a_break, 1)}" in text
    assert not re.search(r"\bstack\d", text)


# --- closures and modules


def test_a_variable_of_a_closure_has_its_name():
    names = ["a"]

    def f(x):
        return x.sin() * len(names)

    explainer = firesteel.explain(f)
    explainer(torch.ones(3))
    names.append("b")
    (again,) = explainer(torch.ones(3)).recompiles
    assert again.guard == "`names in the closure of f` has 2 items, had 1"
    assert "pass what the closure holds as an argument" in again.remedy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x).relu()


FORWARD = line(Net.forward, 1)


def test_a_compiled_module_is_named_by_its_class_and_the_users_line(caplog):
    with firesteel.logs("all"):
        explainer = firesteel.explain(Net())
        explainer(torch.ones(3))
        found = explainer(torch.ones(3, dtype=torch.float64).float().requires_grad_())
    (again,) = found.recompiles
    assert (again.function, again.file, again.line) == ("Net", __file__, FORWARD)
    assert {(graph.function, graph.file, graph.line) for graph in found.graphs} == {("Net", __file__, FORWARD)}
    for kind in ("recompiles", "graphs", "guards", "timings"):
        lines = lines_of(caplog, kind)
        assert lines
        assert all(text.startswith(f"{THIS}:{FORWARD}: ") and "`Net`" in text for text in lines), lines
    assert "_wrapped_call_impl" not in "\n".join(lines_of(caplog, "recompiles") + lines_of(caplog, "graphs"))


# --- numpy in a graph


def test_numpy_that_no_graph_holds_is_not_called_the_programs_wish(caplog):
    def f(x):
        y = x * 2
        return y + len(np.abs(y.numpy()).tobytes())

    firesteel.install()
    try:
        with firesteel.logs("breaks"):
            result = torch.compile(f)(torch.ones(3))
        facts = gather.facts()
    finally:
        firesteel.uninstall()
    torch.testing.assert_close(result, f(torch.ones(3)))
    first, *_ = lines_of(caplog, "breaks")
    assert first.startswith(f"{THIS}:{line(f, 2)}: graph break in ")
    assert (
        "[FS-NUMPY]: numpy is used in a way that no graph holds: `.tobytes` of an array; try: use torch's own" in first
    )
    assert not any(it["asked"] for it in facts["breaks"])


# --- a graph that raises where its code does not


def table_or_zeros(table, index):
    try:
        return torch.nn.functional.embedding(index, table) * 2
    except IndexError:
        return torch.zeros(1)


def raised(function, *args):
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        result = function(*args)
    return result, [str(it.message) for it in met if "has raised an error" in str(it.message)]


def test_code_that_catches_what_its_graph_raises_is_right():
    compiled = firesteel.compile(table_or_zeros, backend="aot_eager")
    table, bad = torch.randn(4, 2), torch.tensor([7])
    assert raised(compiled, table, torch.tensor([1]))[1] == []
    result, said = raised(compiled, table, bad)
    torch.testing.assert_close(result, torch.zeros(1))
    assert said == []
    assert firesteel.counters()["fallbacks"] == {"FS-EXCEPTION": 1}


def test_code_that_raises_too_is_not():
    def f(table, index):
        return torch.nn.functional.embedding(index, table) * 2

    compiled = firesteel.compile(f, backend="aot_eager")
    compiled(torch.randn(4, 2), torch.tensor([1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IndexError):
            compiled(torch.randn(4, 2), torch.tensor([7]))


@pytest.fixture
def planted():
    """What runs when a graph, or the code, computes erfc: at first what it should."""
    actions = []

    def erfc(x):
        if actions:
            actions.pop()()
        return torch.erf(x).neg().add(1)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another kernel is there already
        library.impl("erfc", erfc, "CPU")
    yield actions
    library._destroy()


def fail():
    raise ValueError("planted")


@pytest.mark.parametrize("breaks", [False, True])
def test_a_fault_of_the_graph_alone_is_told_of(breaks, planted):
    """An operator that fails once: in the graph, and not when the code runs again."""

    def f(x):
        if breaks:
            print(end="")
        return torch.special.erfc(x) * 2

    compiled = firesteel.compile(f, backend="aot_eager")
    x = torch.ones(3)
    compiled(x)
    planted.append(fail)
    result, said = raised(compiled, x)
    torch.testing.assert_close(result, f(x))
    assert len(said) == 1
    assert "ValueError: planted [FS-EXCEPTION]" in said[0]
    # As an error, where warnings are.
    firesteel.reset()
    compiled(x)
    planted.append(fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="has raised an error"):
            compiled(x)


# --- calls that cannot go on


def breaks_inside(x):
    y = torch.special.erfc(x)
    print(end="")
    return y


def calls_it(x):
    return breaks_inside(x) * 2


def test_code_that_changes_on_its_way_is_an_error_with_line_and_advice(planted):
    def change():
        breaks_inside.__code__ = (lambda a, b, c: a).__code__

    compiled, x, code = firesteel.compile(calls_it, backend="aot_eager"), torch.ones(3), breaks_inside.__code__
    compiled(x)
    planted.append(change)
    try:
        with pytest.raises(RuntimeError, match="the call of `breaks_inside` cannot go on after a graph break") as met:
            compiled(x)
    finally:
        breaks_inside.__code__ = code
    _, place, _, reason, advice = str(met.value).splitlines()
    assert place == f"  {THIS}:{line(calls_it, 1)}  return breaks_inside(x) * 2"
    assert "its code was changed (`__code__`)" in reason
    assert advice.startswith("  try: change the code of functions outside of compiled calls, or mark the function ")
    torch.testing.assert_close(compiled(x), calls_it(x))
