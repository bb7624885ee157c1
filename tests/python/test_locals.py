"""`locals()` under fullgraph=True: the variables as they are, in a dict of the frame's own."""

import pytest
import torch
from against_eager import same

import firesteel

SCALE = 3


def one_of_them(x, scale=SCALE):
    shift = x + 1
    return x * locals()["scale"] + locals_of_another(shift)


def locals_of_another(given):
    other = given * 2
    variables = locals()
    return variables["other"] + len(variables)


def all_of_them(x, n):
    later = None
    found = locals()
    later = n + 1
    del n
    return found, sorted(found)


def from_closures(x):
    inside = x * 2

    def inner(y):
        used = inside + y
        return locals(), used

    return inner(x)


def written(x, n):
    found = locals()
    found["n"] = 7
    found["new"] = x
    return found, n


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(one_of_them, ()), (all_of_them, (2,)), (from_closures, ()), (written, (2,))],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_one_graph(program, arguments):
    firesteel.reset_counters()
    compiled = firesteel.compile(program, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3)
        mine, theirs = compiled(x, *arguments), program(x, *arguments)
        assert same(mine, theirs)
        if type(theirs) is tuple and type(theirs[0]) is dict:
            assert list(mine[0]) == list(theirs[0])
    assert firesteel.counters()["breaks"] == {}


def test_values_are_guarded_and_gradients_flow():
    def program(x, n, flag):
        found = locals()
        return found["x"] * found["n"] + (1 if found["flag"] else 2)

    compiled = firesteel.compile(program, fullgraph=True)
    for n, flag in ((2, True), (3, True), (2, False), (4, False)):
        mine, theirs = (torch.ones(3, requires_grad=True) for _ in range(2))
        a, b = compiled(mine, n, flag), program(theirs, n, flag)
        assert same(a, b)
        a.sum().backward()
        b.sum().backward()
        assert same(mine.grad, theirs.grad)


def test_an_argument_that_is_a_cell():
    def program(x, cell):
        return x + 1, locals()["cell"] is cell

    cell = (lambda y: lambda: y)(2).__closure__[0]
    assert same(firesteel.compile(program, fullgraph=True)(torch.ones(2), cell), program(torch.ones(2), cell))


def twice(x):
    first = locals()
    second = locals()
    return x + len(first), first is second


def test_asked_for_again():
    assert same(firesteel.compile(twice, fullgraph=True)(torch.ones(2)), twice(torch.ones(2)))
    assert same(firesteel.compile(twice)(torch.ones(2)), twice(torch.ones(2)))


def test_what_stays_with_python():
    firesteel.reset_counters()
    assert same(firesteel.compile(one_of_them)(torch.ones(2)), one_of_them(torch.ones(2)))
    assert firesteel.counters()["breaks"]
