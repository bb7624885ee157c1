"""The contract's table of what PyTorch 2.13 gets wrong: one test a row, on Firesteel."""

import collections
import warnings

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def whole(function, backend):
    firesteel.reset_counters()
    return firesteel.compile(function, backend=backend, fullgraph=True)


def test_nonstrict_trace_is_there(backend):
    assert firesteel.compiler.nonstrict_trace is firesteel.nonstrict_trace


def test_a_captured_tensor_is_a_constant_everywhere(backend):
    plain, learned = torch.randn(3), torch.randn(3, requires_grad=True)
    opaque = firesteel.nonstrict_trace(lambda x: x * plain + learned)
    firesteel.reset()
    compiled = whole(lambda x: opaque(x), backend)
    x = torch.randn(3)
    if backend == "eager":
        torch.testing.assert_close(compiled(x), x * plain + learned)
        return
    with pytest.warns(UserWarning, match="no gradient will reach it"):
        result = compiled(x)
    torch.testing.assert_close(result, (x * plain + learned).detach())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(x)


def test_attributes_of_a_module_argument_are_guarded(backend):
    @firesteel.nonstrict_trace
    def apply(module, x):
        return x * module.factor if module.training else x

    module = torch.nn.Identity()
    compiled = whole(lambda x: apply(module, x), backend)
    x = torch.randn(3)
    for factor in (2.0, 3.0):
        module.factor = factor
        torch.testing.assert_close(compiled(x), x * factor)
    module.eval()
    torch.testing.assert_close(compiled(x), x)


def test_a_changed_list_is_not_lost(backend):
    @firesteel.nonstrict_trace
    def fill(items, x):
        items.append(x)
        return x + 1

    def f(x):
        items = []
        return fill(items, x), len(items)

    x = torch.randn(3)
    assert firesteel.compile(f, backend=backend)(x)[1] == 1
    with pytest.raises(firesteel.GraphBreakError, match="changes a container"):
        whole(f, backend)(x)


def test_an_exception_is_reported_as_itself(backend):
    @firesteel.nonstrict_trace
    def fails(x):
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        whole(lambda x: fails(x), backend)(torch.randn(3))


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize("value", ["text", None, {1, 2}, range(3), Pair(1, 2)], ids=repr)
def test_kinds_that_pytorch_refuses(backend, value):
    opaque = firesteel.nonstrict_trace(lambda x, given: (x + 1, given))
    result, given = whole(lambda x: opaque(x, value), backend)(torch.zeros(3))
    assert torch.equal(result, torch.ones(3))
    assert given == value
    assert type(given) is type(value)


def test_breaks_in_a_loop_or_try_leave_both_sides_compiled(backend):
    def f(x):
        for _ in range(3):
            x = x.sin()
            try:
                firesteel.graph_break()
                x = x + 1
            finally:
                x = x * 2
        return x

    firesteel.reset_counters()
    compiled = firesteel.compile(f, backend=backend)
    x = torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), f(x))
    counts = firesteel.counters()
    assert counts["captured"] >= 2
    assert counts["hits"] == 2
    assert not counts["fallbacks"]


def test_a_wrong_stance_is_refused(backend):
    with pytest.raises(ValueError, match="typo"):
        firesteel.set_stance("typo")


def test_a_module_made_inside_works(backend):
    opaque = firesteel.nonstrict_trace(lambda module, x: module(x))

    def f(x):
        return opaque(torch.nn.Softplus(beta=2.0), x)

    x = torch.randn(3)
    torch.testing.assert_close(whole(f, backend)(x), f(x))
    assert firesteel.counters()["captured"] == 1


@pytest.mark.parametrize("known", [False, True])
def test_a_module_with_parameters_made_inside_works(backend, known):
    opaque = firesteel.nonstrict_trace(lambda modules, x: modules["net"](x) * modules["net"][1].weight.sum())
    outside = torch.nn.Linear(3, 3)

    def f(x):
        net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), outside if known else torch.nn.Linear(3, 3))
        y = opaque({"net": net}, x)
        return y + net[0].running_mean, net

    compiled = whole(f, backend)
    for seed in (0, 1):
        x = torch.randn(4, 3, requires_grad=True)
        torch.manual_seed(seed)
        expected, net = f(x)
        torch.manual_seed(seed)
        result, made = compiled(x)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(made.state_dict(), net.state_dict())
        expected_gradients = torch.autograd.grad(expected.sum(), (x, net[1].weight, net[0].weight))
        torch.testing.assert_close(
            torch.autograd.grad(result.sum(), (x, made[1].weight, made[0].weight)), expected_gradients
        )
    assert firesteel.counters()["captured"] == 1
    assert not firesteel.counters()["fallbacks"]
