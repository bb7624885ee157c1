"""The words of the controls' errors, against golden files: set FIRESTEEL_WRITE_GOLDEN=1 to write them anew."""

import os
import pathlib
import re

import pytest
import torch

import firesteel

FOLDER = pathlib.Path(__file__).parent / "golden"
X = torch.ones(3)


class Thing:
    pass


THING = Thing()
TOTAL = 0


@firesteel.nonstrict_trace
def opaque(x, *rest, **named):
    return x + 1


@firesteel.nonstrict_trace
def branching(x):
    return x if x.sum() > 0 else -x


@firesteel.nonstrict_trace
def counting(x):
    global TOTAL
    TOTAL += 1
    return x


@firesteel.nonstrict_trace
def odd_result(x):
    return {"ok": x, "bad": [Thing()]}


@firesteel.nonstrict_trace
def filling(items, x):
    items.append(x)
    return x


@firesteel.allow_in_graph
def allowed(x, thing=None):
    return 3


@firesteel.disable(reason="it writes a file")
def disabled(x):
    return x


@firesteel.forbid_in_graph
def forbidden(x):
    return x


def inner_break(x):
    return disabled(x.sin())


def strict(x):
    with firesteel.error_on_graph_break(True):
        firesteel.graph_break("strict")
    return x


def made_inside(x):
    return firesteel.nonstrict_trace(lambda y: y)(x)


def in_region(function, fullgraph=True):
    return lambda: firesteel.compile(function, fullgraph=fullgraph)(X)


def failing_to_recompile():
    compiled = firesteel.compile(lambda x: x + 1)
    compiled(X)
    with firesteel.set_stance("fail_on_recompile"):
        compiled(torch.ones(2))


CASES = {
    "nonstrict_no_function": lambda: firesteel.nonstrict_trace(3),
    "nonstrict_class": lambda: firesteel.nonstrict_trace(Thing),
    "nonstrict_argument": in_region(lambda x: opaque(x, cfg=[1, THING])),
    "nonstrict_result": in_region(lambda x: odd_result(x)),
    "nonstrict_branch": in_region(lambda x: branching(x)),
    "nonstrict_global": in_region(lambda x: counting(x)),
    "nonstrict_list": in_region(lambda x: filling([], x)),
    "nonstrict_made_inside": in_region(made_inside),
    "allowed_result": in_region(lambda x: allowed(x)),
    "allowed_argument": in_region(lambda x: allowed(x, THING)),
    "disabled": in_region(inner_break),
    "disable_no_function": lambda: firesteel.disable(3),
    "disallow_no_operator": lambda: firesteel.disallow_in_graph(inner_break),
    "forbidden": in_region(lambda x: forbidden(x), fullgraph=False),
    "graph_break": in_region(lambda x: firesteel.graph_break("here")),
    "skip_frame": in_region(lambda x: firesteel.skip_frame()),
    "error_on_graph_break": in_region(strict, fullgraph=False),
    "error_on_graph_break_value": lambda: firesteel.error_on_graph_break("yes"),
    "stance_unknown": lambda: firesteel.set_stance("typo"),
    "stance_inside": in_region(lambda x: firesteel.set_stance("default"), fullgraph=False),
    "stance_fail_on_recompile": failing_to_recompile,
    "substitute_signature": lambda: firesteel.substitute_in_graph(torch.is_tensor)(inner_break.__class__),
    "register_constant": lambda: firesteel.register_constant(Thing),
    "backend_unknown": lambda: firesteel.compile(inner_break, backend="typo"),
}


def text_of(error):
    text = f"{type(error).__name__}: {error}\n"
    # Where the tests lie and at which line says nothing; the marks under a line stand where these end.
    text = re.sub(r"[^\s(]*test_error_texts\.py:\d+", "test_error_texts.py:N", text)
    text = re.sub(r"\n +(\^+)", r"\n    \1", text)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


@pytest.mark.parametrize("name", CASES)
def test_error_text(name):
    try:
        CASES[name]()
    except Exception as error:
        text = text_of(error)
    else:
        pytest.fail("nothing was raised")
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("FIRESTEEL_WRITE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_no_golden_file_is_left_over():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
