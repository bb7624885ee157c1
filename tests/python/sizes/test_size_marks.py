"""mark_dynamic, maybe_mark_dynamic, mark_static, and sizes that a nonstrict function is given."""

import math

import pytest
import torch
from over_sizes import same_over

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


def marked(n):
    x = torch.randn(n, 4)
    firesteel.mark_dynamic(x, 0)
    return x


def double(x):
    return x * 2 + x.shape[0]


def settles(x):
    return x * len(str(x.shape[0]) * x.shape[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_marked_size_is_open_from_the_first_call(backend):
    compiled = firesteel.compile(double, backend=backend, fullgraph=True)
    firesteel.reset_counters()
    for n in (3, 4, 9):
        x = marked(n)
        torch.testing.assert_close(compiled(x), double(x))
    assert firesteel.counters()["captured"] == 1


def test_marks_of_pytorch_count():
    compiled = firesteel.compile(double, backend="aot_eager", fullgraph=True)
    firesteel.reset_counters()
    for n in (3, 4, 9):
        x = torch.randn(n, 4)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), double(x))
    assert firesteel.counters()["captured"] == 1


def test_a_marked_size_that_is_settled_is_an_error():
    with pytest.raises(firesteel.ControlError, match=r"mark_dynamic\(x, 0\).*one size alone: 3") as error:
        firesteel.compile(settles, backend="aot_eager")(marked(3))
    assert "test_size_marks.py" in str(error.value)
    x = torch.randn(3, 4)
    firesteel.maybe_mark_dynamic(x, 0)
    torch.testing.assert_close(firesteel.compile(settles, backend="aot_eager")(x), settles(x))


def test_a_range_is_a_condition():
    compiled = firesteel.compile(double, backend="aot_eager", fullgraph=True)
    firesteel.reset_counters()
    x = torch.randn(5, 4)
    firesteel.mark_dynamic(x, 0, min=4, max=8)
    compiled(x)
    for n in (4, 8, 6):
        compiled(torch.randn(n, 4))
    assert firesteel.counters()["captured"] == 1
    torch.testing.assert_close(compiled(torch.ones(9, 4)), double(torch.ones(9, 4)))
    assert firesteel.counters()["captured"] == 2


def test_a_size_outside_its_own_range():
    x = torch.randn(9, 4)
    firesteel.mark_dynamic(x, 0, min=4, max=8)
    with pytest.raises(firesteel.ControlError, match=r"dimension 0 of `x` is 9, outside the range .* 4 to 8"):
        firesteel.compile(double, backend="aot_eager")(x)


def test_a_static_size_keeps_graphs_of_its_own():
    compiled = firesteel.compile(double, backend="aot_eager", fullgraph=True)
    firesteel.reset_counters()
    for n in (3, 4, 5):
        x = torch.randn(n, 4)
        firesteel.mark_static(x)
        compiled(x)
    assert firesteel.counters()["captured"] == 3


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: firesteel.mark_dynamic(x, 2), IndexError, "no dimension 2 in a tensor of 2"),
        (lambda x: firesteel.mark_dynamic(x, "0"), TypeError, "number of a dimension"),
        (lambda x: firesteel.mark_dynamic(x, True), TypeError, "number of a dimension"),
        (lambda x: firesteel.mark_dynamic([x], 0), TypeError, "needs a tensor"),
        (lambda x: firesteel.mark_dynamic(x, 0, min=5, max=3), ValueError, "leaves no size"),
        (lambda x: firesteel.mark_dynamic(x, 0, min=-1), ValueError, "is a size or None"),
        (lambda x: firesteel.maybe_mark_dynamic(x, 9), IndexError, "no dimension 9"),
        (lambda x: firesteel.mark_static(3), TypeError, "needs a tensor"),
    ],
)
def test_bad_marks(call, error, text):
    with pytest.raises(error, match=text):
        call(torch.randn(3, 4))


@firesteel.nonstrict_trace
def scaled(x, n, options):
    half = n // 2
    return x[:half] * n + options["rows"] * torch.ones(half, 1), n * 2


def calls_nonstrict(x):
    n = x.shape[0]
    y, doubled = scaled(x, n, {"rows": n + 1})
    return y.sum(0) + doubled


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_nonstrict_function_is_given_sizes(backend):
    same_over(calls_nonstrict, lambda n: [torch.randn(n, 3, requires_grad=True)], [4, 5, 6, 9, 12, 17, 20, 33, 64, 7],
              backend=backend)  # fmt: skip


@firesteel.nonstrict_trace
def decides(x, n):
    assert isinstance(n, (int, torch.SymInt))
    return x * 2 if n > 10 else x + math.prod([n, 2])


@pytest.mark.parametrize("backend", ["aot_eager", "firesteel"])
def test_a_decision_inside_a_nonstrict_function_is_a_condition(backend):
    def function(x):
        return decides(x, x.shape[0])

    same_over(function, lambda n: [torch.randn(n, 3, requires_grad=True)], [4, 5, 6, 11, 30, 7, 12], backend=backend,
              captures=3)  # fmt: skip
