"""Logs: one line an event with the user's line first, nothing unless asked, and the same by variable and by call."""

import abc
import logging
import os
import subprocess
import sys

import pytest
import torch

import firesteel


@pytest.fixture(autouse=True)
def quiet():
    firesteel.reset_counters()
    yield
    firesteel.logs()


def collected(caplog, kind):
    return [record.getMessage() for record in caplog.records if record.name == f"firesteel.{kind}"]


def breaking(x):
    y = x.sin() * 2
    print(end="")
    return y.cos() + 1


def test_nothing_by_default(caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        firesteel.compile(breaking)(torch.ones(3))
    assert firesteel.counters()["captured"] == 2
    assert not [record for record in caplog.records if record.name.startswith("firesteel")]
    assert capfd.readouterr().err == ""


def test_a_break_names_line_reason_and_remedy(caplog):
    firesteel.logs("breaks")
    compiled = firesteel.compile(breaking)
    for _ in range(3):
        compiled(torch.ones(3))
    (line,) = collected(caplog, "breaks")
    at = breaking.__code__.co_firstlineno + 2
    assert line.startswith(f"{os.path.relpath(__file__)}:{at}: graph break in `breaking` [FS-C-FUNCTION]: ")
    assert "`print`" in line
    assert "; try: " in line
    assert "fullgraph" not in line
    assert "\n" not in line


@pytest.mark.usefixtures("native")
def test_graphs_guards_kernels_and_timings(caplog):
    firesteel.logs("graphs", "guards,kernels", "timings")
    firesteel.compile(lambda x, y: ((x + y) * 2).relu())(torch.ones(64, 64), torch.ones(64, 64))
    assert firesteel.counters()["captured"] == 1
    here = f"{os.path.relpath(__file__)}:"
    (graph,) = collected(caplog, "graphs")
    assert graph.startswith(here)
    assert "3 operations (add, mul, relu), 2 inputs, 1 output" in graph
    guards = collected(caplog, "guards")
    assert len(guards) > 2
    assert any("Tensor x Float[64, 64] cpu" in line for line in guards)
    (kernel,) = collected(caplog, "kernels")
    assert kernel.startswith(here)
    assert "add.Tensor, mul.Tensor, relu as loops [4096]" in kernel
    assert "compiled in" in kernel or "taken from disk" in kernel
    (timing,) = collected(caplog, "timings")
    assert " ms" in timing
    assert "code " in timing
    assert not collected(caplog, "breaks")


def test_a_recompile_for_what_is_gone_says_so(caplog):
    firesteel.logs("recompiles")
    compiled = firesteel.compile(lambda x, step: step(x), backend="eager")
    for _ in range(3):
        compiled(torch.ones(3), firesteel.nonstrict_trace(lambda x: x + 1))
    lines = collected(caplog, "recompiles")
    assert len(lines) == 2
    expected = "`step`, which it was compiled for, is gone; try: make the object once and keep it"
    assert all(expected in line for line in lines)


def test_a_recompile_for_a_class_registered_later_names_it(caplog):
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    firesteel.logs("recompiles")
    compiled = firesteel.compile(lambda x, o: x + isinstance(o, Shape))
    compiled(torch.ones(3), Square())
    Shape.register(Square)
    compiled(torch.ones(3), Square())
    (line,) = collected(caplog, "recompiles")
    assert "`Square` is a subclass of `Shape`, was none" in line


def test_a_recompile_names_the_guard(caplog):
    firesteel.logs("recompiles")
    compiled = firesteel.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    compiled(torch.ones(3, dtype=torch.float64))
    (line,) = collected(caplog, "recompiles")
    assert "is captured again: `x`: dtype is Double, was Float" in line
    assert "; try: keep to one dtype" in line


def test_the_limit_is_told(caplog):
    firesteel.logs("recompiles")
    compiled = firesteel.compile(lambda x, how: x + len(how), recompile_limit=2)
    compiled(torch.ones(3), "a")
    compiled(torch.ones(3), "bb")
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        compiled(torch.ones(3), "ccc")
    compiled(torch.ones(3), "dddd")
    lines = collected(caplog, "recompiles")
    assert len(lines) == 2
    assert "is compiled no more and runs eagerly" in lines[1]


def test_what_runs_eagerly_is_told_once(caplog):
    def generator(x):
        yield x + 1

    firesteel.logs("breaks")
    compiled = firesteel.compile(generator)
    compiled(torch.ones(2))
    compiled(torch.ones(2))
    (line,) = collected(caplog, "breaks")
    assert "`test_what_runs_eagerly_is_told_once.<locals>.generator` runs eagerly [FS-GENERATOR]" in line


def test_a_block_has_its_own(caplog):
    firesteel.logs("recompiles")
    with firesteel.logs("all") as inside:
        assert inside.names == ("breaks", "recompiles", "guards", "graphs", "kernels", "timings")
        firesteel.compile(lambda x: x * 2)(torch.ones(3))
    told = len(caplog.records)
    assert told >= 4
    firesteel.compile(lambda x: x * 3)(torch.ones(3))
    assert len(caplog.records) == told


@pytest.mark.parametrize("wrong", ["brakes", "breaks,guardss"])
def test_unknown_names_are_refused(wrong):
    with pytest.raises(ValueError, match=r"no log '(brakes|guardss)'; those there are: breaks, recompiles, guards"):
        firesteel.logs(wrong)
    with pytest.raises(TypeError, match="takes names"):
        firesteel.logs(3)


PROGRAM = """
import torch, firesteel
def f(x):
    print("hello")
    return x + 1
firesteel.compile(f)(torch.ones(3))
"""


def run(tmp_path, program=PROGRAM, **variables):
    script = tmp_path / "prögram.py"
    script.write_text(program, encoding="utf-8")
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, script.name], cwd=tmp_path, env=environment, capture_output=True, text=True,
                          timeout=120)  # fmt: skip


def test_the_variable_writes_to_stderr(tmp_path):
    done = run(tmp_path, FIRESTEEL_LOGS="breaks, graphs")
    assert done.returncode == 0
    assert done.stdout == "hello\n"
    lines = done.stderr.splitlines()
    assert lines[0].startswith("prögram.py:4: graph break in `f` [FS-C-FUNCTION]")
    assert "graph" in lines[1]
    assert len(lines) == 2


def test_a_wrong_variable_is_refused(tmp_path):
    done = run(tmp_path, FIRESTEEL_LOGS="brakes")
    assert done.returncode != 0
    assert "FIRESTEEL_LOGS knows no log 'brakes'; those there are: breaks," in done.stderr


def test_the_programs_own_logging_gets_the_lines(tmp_path):
    program = "import logging\nlogging.basicConfig(format='%(name)s|%(message)s')\n" + PROGRAM
    done = run(tmp_path, program, FIRESTEEL_LOGS="breaks")
    assert done.stderr.startswith("firesteel.breaks|prögram.py:6: graph break")
    assert len(done.stderr.splitlines()) == 1


def test_a_listener_that_fails_does_not_harm_the_call(monkeypatch):
    def fails(kind, facts):
        raise RuntimeError("the listener's own")

    met = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: met.append(error.exc_value))
    firesteel._events.add(fails)
    try:
        x = torch.randn(3)
        torch.testing.assert_close(firesteel.compile(lambda x: x + 4)(x), x + 4)
    finally:
        firesteel._events.remove(fails)
    assert firesteel.counters()["captured"] == 1
    assert [str(error) for error in met] == ["the listener's own"]
