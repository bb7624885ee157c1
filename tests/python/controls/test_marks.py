"""allow_in_graph, forbid_in_graph, assume_constant_result and substitute_in_graph: what is said about callables."""

import gc
import math
import operator
import weakref
import zlib

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def whole(function, backend):
    firesteel.reset_counters()
    return firesteel.compile(function, backend=backend, fullgraph=True)


def nodes(function, *args, backend):
    return [name for graph in firesteel.explain(function, backend=backend)(*args).graphs for name in graph.ops]


# ---- allow_in_graph


def test_an_allowed_function_is_one_node(backend):
    def opaque(x, n, pair=()):
        firesteel.graph_break()  # not looked at
        assert firesteel.is_compiling() == firesteel.is_traced(x)
        assert not firesteel.is_dynamo_compiling()
        return x * n, (x + 1, x + sum(pair))

    assert firesteel.allow_in_graph(opaque) is opaque
    assert not hasattr(opaque, "__wrapped__")

    def f(x):
        a, (b, c) = opaque(x.sin(), 3, pair=[x, x])
        return a + b * c

    compiled = whole(f, backend)
    for _ in range(2):
        x = torch.randn(3, requires_grad=True)
        other = x.detach().clone().requires_grad_()
        compiled(x).sum().backward()
        f(other).sum().backward()
        torch.testing.assert_close(x.grad, other.grad)
    assert firesteel.counters()["captured"] == 1
    assert [name.rpartition(".")[2] for name in nodes(f, torch.randn(3), backend=backend)].count("opaque") == 1


def test_lists_are_accepted(backend):
    def one(x):
        return x + 1

    def two(x):
        return x * 2

    assert firesteel.allow_in_graph([one, two]) == [one, two]
    x = torch.randn(3)
    torch.testing.assert_close(whole(lambda x: two(one(x)), backend)(x), (x + 1) * 2)


def test_tensors_it_captures_are_constants(backend):
    held = torch.randn(3)

    @firesteel.allow_in_graph
    def opaque(x):
        return x * held

    compiled = whole(lambda x: opaque(x), backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x * held)
    held.mul_(2)
    torch.testing.assert_close(compiled(x), x * held)
    assert firesteel.counters()["captured"] == 1


def test_what_is_said_ends_with_the_function(backend):
    def opaque(x):
        return x + 1

    firesteel.allow_in_graph(opaque)
    gone = weakref.ref(opaque)
    del opaque
    gc.collect()
    assert gone() is None


# ---- forbid_in_graph


def test_forbidden_calls_are_errors(backend):
    @firesteel.forbid_in_graph
    def never(x):
        return x

    assert torch.equal(never(torch.ones(2)), torch.ones(2))
    for fullgraph in (True, False):
        compiled = firesteel.compile(lambda x: never(x) + 1, backend=backend, fullgraph=fullgraph)
        with pytest.raises(firesteel.ControlError, match=r"never.*forbid_in_graph"):
            compiled(torch.ones(2))
    assert firesteel.forbid_in_graph([never]) == [never]


# ---- assume_constant_result


def test_constant_results(backend):
    calls = []

    @firesteel.assume_constant_result
    def read(key):
        calls.append(key)
        return {"scale": 2.0, "shape": [1, 3]}[key]

    def f(x):
        return x.reshape(read("shape")) * read("scale")

    compiled = whole(f, backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x.reshape(1, 3) * 2)
    seen = len(calls)
    torch.testing.assert_close(compiled(x), x.reshape(1, 3) * 2)
    assert len(calls) == seen  # not called again
    assert firesteel.counters()["captured"] == 1


def test_constant_results_of_methods_and_tensors(backend):
    class Table:
        def __init__(self):
            self.row = 1

        @firesteel.assume_constant_result
        def weights(self, x):
            return torch.arange(3.0) + self.row + x.sum().item()

    table = Table()
    compiled = whole(lambda x: x * table.weights(x), backend)
    x = torch.ones(3)
    torch.testing.assert_close(compiled(x), x * (torch.arange(3.0) + 4))
    table.row = 9  # unguarded
    torch.testing.assert_close(compiled(x), x * (torch.arange(3.0) + 4))
    with pytest.raises(firesteel.ControlError, match="its result is no constant"):
        whole(lambda x: x * table.weights(x + 1), backend)(x)
    with pytest.raises(TypeError, match="needs a function"):
        firesteel.assume_constant_result(3)


# ---- substitute_in_graph


@pytest.mark.parametrize("unknown", [zlib.crc32, zlib.adler32])
def test_substitutes_are_followed(backend, unknown):
    if backend == "eager":

        @firesteel.substitute_in_graph(unknown)
        def checksum(data, value=0 if unknown is zlib.crc32 else 1, /):
            return len(data) + value

        assert checksum(b"ab") == unknown(b"ab")  # outside a capture the original runs
        assert checksum.__name__ == "checksum"
    with pytest.raises(ValueError, match="has a substitute already"):
        firesteel.substitute_in_graph(unknown)(lambda data: 0)
    x = torch.randn(3)
    torch.testing.assert_close(whole(lambda x: x * unknown(b"ab", 3), backend)(x), x * 5)


def test_substitutes_with_other_signatures_are_refused(backend):
    with pytest.raises(TypeError, match="the signatures differ"):
        firesteel.substitute_in_graph(operator.indexOf)(lambda a, b, c: 0)
    with pytest.raises(TypeError, match="needs a function"):
        firesteel.substitute_in_graph(3)
    with pytest.raises(TypeError, match="goes on a Python function"):
        firesteel.substitute_in_graph(math.gcd)(len)
