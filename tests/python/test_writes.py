"""Writes to what existed before a call: after every call all of it is as eager execution would have left it."""

import pytest
import torch
import writing_libraries
import writing_programs
from against_eager import BACKENDS, picture

import firesteel

# What is known to be wrong, in one place: the case, or (case, every), and why.
OPEN = {}


def marked(every):
    for make in writing_programs.CASES + writing_libraries.CASES:
        reason = OPEN.get(make.__name__) or OPEN.get((make.__name__, every))
        marks = [pytest.mark.xfail(reason=reason)] if reason else []
        yield pytest.param(make, every, id=f"{make.__name__}-{every}", marks=marks)


def history(make, backend=None):
    """What each of several calls gave and left behind."""
    step, look = make()
    function = step if backend is None else firesteel.compile(step, backend=backend, recompile_limit=64)
    torch.manual_seed(1)
    pictures = []
    for i in range(5):
        x = torch.randn(3, 4, requires_grad=i == 3)
        result = function(x)
        pictures.append(picture([x, result, look()]))
    return pictures


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("make", "every"), [param for every in (0, 1, 2, 5) for param in marked(every)])
def test_all_that_is_left_is_as_eager_leaves_it(make, every, backend):
    expected = history(make)
    firesteel._C._break_every(every)
    try:
        got = history(make, backend)
    finally:
        firesteel._C._break_every(0)
    for i, (a, b) in enumerate(zip(expected, got, strict=True)):
        assert a == b, f"call {i}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_object_passed_twice_later(backend):
    def step(x, a, b):
        a.append(1)
        b.append(len(a))
        a[0] = x
        return x * len(b), a is b

    compiled = firesteel.compile(step, backend=backend)
    for alike in (False, True, False, True, True):
        histories = []
        for function in (step, compiled):
            a, b = [0], [0]
            b = a if alike else b
            histories.append(picture([function(torch.ones(2), a, b), a, b]))
        assert histories[0] == histories[1]


class Node:
    def __init__(self):
        self.value, self.items = 0, {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_that_become_one(backend):
    def step(x, one, two):
        one.value = one.value + 1
        two.value = two.value + 10
        one.items["k"] = two.value
        two.items["k"] = one.value
        return x * one.value + two.items["k"]

    compiled = firesteel.compile(step, backend=backend, recompile_limit=64)
    for shape in ("apart", "same", "items", "apart", "items", "same"):
        histories = []
        for function in (step, compiled):
            one, two = Node(), Node()
            if shape == "same":
                two = one
            if shape == "items":
                two.items = one.items
            histories.append(picture([[function(torch.ones(2), one, two) for _ in range(2)], one, two]))
        assert histories[0] == histories[1], shape


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_made_object_is_new_in_every_call(backend):
    kept = []

    def step(x):
        made = [x, {"x": x}]
        kept.append(made)
        return made, made[1]

    compiled = firesteel.compile(step, backend=backend, fullgraph=True)
    for _ in range(3):
        made, inner = compiled(torch.ones(2))
        assert kept[-1] is made
        assert made[1] is inner
    assert len({id(made) for made in kept}) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
def test_a_list_that_names_a_tensor_twice(backend):
    def function(x, written):
        z = x * 1
        torch._foreach_add_([z, z], 1.0)
        torch._foreach_mul_([written, z, written], 2.0)
        torch._foreach_add_(list(z.view(2, 2)), 1.0)  # rows: no memory twice
        return z.sin()

    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend=backend)
    for _ in range(2):
        x, found, expected = torch.randn(4), torch.ones(3), torch.ones(3)
        torch.testing.assert_close(compiled(x, found), function(x, expected))
        torch.testing.assert_close(found, expected)
    assert firesteel.counters()["fallbacks"] == {}
