"""Graph breaks: the code around them is compiled in pieces, and nobody can tell, wherever the breaks fall."""

import breaking_blocks
import breaking_programs
import breaking_values
import pytest
import torch
from against_eager import BACKENDS, check_calls

import firesteel

CASES = breaking_programs.CASES + breaking_blocks.CASES + breaking_values.CASES


def inputs():
    torch.manual_seed(0)
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    return [a, a.abs() + 1, -a.abs() - 1, b.requires_grad_(), b]


# What is known to be wrong, in one place: name of the case, or (case, every), and why.
OPEN = {}


def marked(every):
    for function in CASES:
        reason = OPEN.get(function.__name__) or OPEN.get((function.__name__, every))
        marks = [pytest.mark.xfail(reason=reason)] if reason else []
        yield pytest.param(function, id=function.__name__, marks=marks)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", list(marked(0)))
def test_pieces_are_like_eager(program, backend):
    check_calls(program, inputs(), backend)


@pytest.mark.parametrize(
    ("program", "every"),
    [pytest.param(*p.values, n, id=f"{p.id}-{n}", marks=p.marks) for n in (1, 2, 3, 5, 7) for p in marked(n)],
)
def test_breaks_anywhere_are_like_eager(program, every):
    for backend in BACKENDS:
        check_calls(program, inputs()[2:4], backend, every)


def test_both_sides_of_a_break_are_compiled():
    def function(x):
        y = x * 2
        print("between")
        return y + 1

    firesteel.reset_counters()
    compiled = firesteel.compile(function)
    for _ in range(3):
        compiled(torch.ones(2))
    before, after = firesteel._C._entries(compiled)
    assert "x * 2" in before["graph"] or "mul" in before["graph"]
    assert before["reason"] == "FS-C-FUNCTION"
    assert "add" in after["graph"]
    assert after["reason"] is None
    counters = firesteel.counters()
    assert counters == {"captured": 2, "hits": 3, "misses": 2, "breaks": {"FS-C-FUNCTION": 3}, "fallbacks": {}}


def test_a_loop_with_a_break_is_compiled_once(capsys):
    def function(x):
        for item in [x, x + 1, x + 2, x + 3]:
            x = x + item.sin()
            print("between")
            x = x * 2
        return x

    compiled = firesteel.compile(function)
    firesteel.reset_counters()
    compiled(torch.ones(2))
    captured = firesteel.counters()["captured"]
    assert captured <= 5
    compiled(torch.ones(2))
    assert firesteel.counters()["captured"] == captured
    assert firesteel.counters()["fallbacks"] == {}
