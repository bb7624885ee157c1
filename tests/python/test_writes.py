"""Writes to what existed before a call: after every call all of it is as eager execution would have left it."""

import pytest
import torch
import writing_programs
from against_eager import BACKENDS, picture

import firesteel

# What is known to be wrong, in one place: the case, or (case, every), and why.
OPEN = {}


def marked(every):
    for make in writing_programs.CASES:
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
