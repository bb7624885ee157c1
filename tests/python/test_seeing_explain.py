"""explain() as data and on every screen: kernels, stages, recompiles with advice, colour, notebooks, pipes."""

import builtins
import io
import os
import sys

import pytest
import torch

import firesteel


def program(x, y):
    z = (x + y) * 2
    return z.relu().sum()


def explained():
    x = torch.randn(8, 8, requires_grad=True)
    return firesteel.explain(program, wait=True)(x, torch.randn(8, 8))


@pytest.mark.usefixtures("native")
def test_kernels_tell_operators_lines_and_loops():
    found = explained()
    forward = [kernel for kernel in found.kernels if kernel.phase == "forward"]
    assert [op for kernel in forward for op in kernel.ops] == [
        "aten.add.Tensor", "aten.mul.Tensor", "aten.relu", "aten.sum",
    ]  # fmt: skip
    first = program.__code__.co_firstlineno
    assert [place for kernel in forward for place in kernel.places] == [(__file__, first + 1), (__file__, first + 2)]
    assert all(kernel.state == "native" and kernel.text.startswith("loops [") for kernel in found.kernels)
    assert any(kernel.phase == "backward" for kernel in found.kernels)
    assert "kernels:\n    forward: add.Tensor, mul.Tensor, relu, sum (test_seeing_explain.py:" in str(found)


def test_stages_are_parts_of_the_capture():
    timings = explained().timings
    assert timings["code"] > 0
    assert timings["passes"] + timings["partition"] + timings["code"] <= timings["capture"]


def test_an_eager_backend_has_no_kernels():
    found = firesteel.explain(program, backend="eager")(torch.ones(2), torch.ones(2))
    assert found.kernels == []
    assert len(found.graphs) == 1


def test_recompiles_come_with_place_and_advice():
    asked = firesteel.explain(program)
    asked(torch.ones(2), torch.ones(2))
    (again,) = asked(torch.ones(2, dtype=torch.float64), torch.ones(2)).recompiles
    assert (again.file, again.line) == (__file__, program.__code__.co_firstlineno)
    assert again.guard == "`x`: dtype is Double, was Float"
    assert "keep to one dtype" in again.remedy
    assert not again.is_last


def test_a_recompile_runs_no_code_of_the_users_unless_explained():
    spelled = []

    class Value:
        def __repr__(self):
            spelled.append(1)
            return "value"

    compiled = firesteel.compile(lambda x, value: x + 1 if value is kept else x + 2)
    kept = Value()
    globals()["kept"] = kept
    try:
        for value in (kept, Value(), 3):
            compiled(torch.ones(2), value)
    finally:
        del globals()["kept"]
    assert not spelled
    assert firesteel._C._recompiles(compiled)


def test_notebooks_get_escaped_html():
    def hostile(x, text):
        return x + len(text)

    text = firesteel.explain(hostile)(torch.ones(2), "<script>alert(1)</script>")._repr_html_()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.count("<details") == text.count("</details>") >= 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_colour_and_a_pipe_does_not(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    found = explained()
    screen, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    found.show()
    monkeypatch.setattr(sys, "stdout", pipe)
    found.show()
    assert "\x1b[" in screen.getvalue()
    assert pipe.getvalue() == str(found) + "\n"
    assert "1 graph, 4 operations" in screen.getvalue()


def test_without_rich_a_terminal_gets_plain_text(monkeypatch):
    load = builtins.__import__

    def without_rich(name, *args, **kwargs):
        if name.split(".")[0] == "rich":
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    found, screen = explained(), Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    found.show()
    assert screen.getvalue() == str(found) + os.linesep
