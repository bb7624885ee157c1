"""Sizes that are equal in one call by chance, and those that the code needs to be equal."""

import pytest
import torch
from over_sizes import same_over

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


def both_ways(x):
    return (x.sin() + 1).sum(0), x.cos().sum(1)


def apart(x, y):
    return (x.sin() + 1).sum(0), y * 2


def square(x):
    return (x + x.transpose(0, 1)).sin() * 2


def product(x, y):
    return (x @ y).relu() + 1


def matrix(n, m):
    return [torch.randn(n, m, requires_grad=True)]


def two(n, m):
    return [torch.randn(n, 8, requires_grad=True), torch.randn(m, requires_grad=True)]


def factors(n, k, m):
    return [torch.randn(n, k, requires_grad=True), torch.randn(k, m, requires_grad=True)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "inputs", "sizes"),
    [
        pytest.param(both_ways, matrix, [(3, 7), (5, 5), (4, 6), (9, 2)], id="once different"),
        pytest.param(both_ways, matrix, [(3, 3), (5, 5), (4, 6), (6, 4), (7, 7)], id="two dimensions of a tensor"),
        pytest.param(apart, two, [(3, 7), (5, 5), (4, 6), (9, 2)], id="two tensors"),
        pytest.param(square, matrix, [(3, 3), (5, 5), (9, 9), (2, 2)], id="must be equal"),
        pytest.param(product, factors, [(3, 4, 5), (6, 6, 6), (2, 9, 4), (8, 2, 8)], id="a product's, by chance"),
    ],
)
def test_two_graphs_serve_all(function, inputs, sizes, backend):
    same_over(function, inputs, sizes, backend=backend)


def test_sizes_of_several_tensors_stay_one_where_they_always_were():
    """What was equal before and is equal now is one size, and guarded to be: no broadcast slips through."""

    def function(x, y):
        return x.sin() + y

    compiled = firesteel.compile(function, backend="aot_eager", fullgraph=True)
    for n in (3, 5, 9):
        compiled(torch.randn(n), torch.randn(n))
    firesteel.reset_counters()
    with pytest.raises(RuntimeError, match="must match the size"):
        compiled(torch.randn(4), torch.randn(6))
    x, y = torch.randn(6), torch.randn(1)
    torch.testing.assert_close(compiled(x, y), function(x, y))


def test_kernels_know_which_sizes_are_equal():
    firesteel.trace(lambda x: (x + 1) * 2, torch.ones(2), native=True)(torch.ones(2))
    if firesteel.native_counters()["native_ops"] == 0:
        pytest.skip("built without LLVM")
    compiled = same_over(square, matrix, [(3, 3), (5, 5), (40, 40)], backend="firesteel")
    firesteel.reset_native_counters()
    with torch.no_grad():
        compiled(*matrix(17, 17))  # another graph: without gradients
        compiled(*matrix(23, 23))
    firesteel.reset_native_counters()
    with torch.no_grad():
        compiled(*matrix(33, 33))
    counts = firesteel.native_counters()
    assert counts["open_kernels"] == 1, counts
    assert counts["aten_ops"] <= 1, counts  # the view
