"""Writes to inputs by kernels themselves: numbers, versions and memory as eager's, and no copy where none is needed."""

import pytest
import torch

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sum(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

LARGE = (300, 301)  # large enough for the pool, which counts what it gives out


@torch.no_grad()
def adamw(p, g, m, v):
    p.mul_(1 - 1e-5)
    m.lerp_(g, 0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.addcdiv_(m, (v.sqrt() / 0.04).add_(1e-8), value=-0.01)


def state():
    torch.manual_seed(0)
    return [torch.randn(LARGE), torch.randn(LARGE), torch.randn(LARGE), torch.rand(LARGE)]


def results_made(function, *args):
    firesteel.reset_native_counters()
    function(*args)
    counts = firesteel.native_counters()
    return counts["buffers_fresh"] + counts["buffers_reused"], counts["native_ops"], counts["aten_ops"]


def same(got, wanted):
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_an_optimizer_step_copies_nothing():
    ours, theirs = state(), state()
    ours[0].requires_grad_()
    traced = firesteel.trace(adamw, *ours, native=True)
    pointers, versions = [x.data_ptr() for x in ours], [x._version for x in ours]
    for step in range(1, 4):
        assert results_made(traced, *ours) == (0, 8, 0)
        adamw(*theirs)
        same([x.detach() for x in ours], theirs)
        assert [x.data_ptr() for x in ours] == pointers
        assert all(x._version >= old + step for x, old in zip(ours, versions, strict=True) if x is not ours[1])
    assert ours[0].requires_grad
    assert ours[0].is_leaf


def test_inputs_that_share_memory():
    def f(x, y):
        with torch.no_grad():
            x.mul_(2).add_(y)

    torch.manual_seed(0)
    ours = torch.randn(600, 301)
    theirs, example = ours.clone(), ours.clone()
    traced = firesteel.trace(f, example[:300], example[300:], native=True)
    _, native_ops, _ = results_made(traced, ours[:300], ours[300:])
    assert native_ops == 2
    f(theirs[:300], theirs[300:])
    same([ours], [theirs])


def test_an_input_read_later_is_copied():
    def f(x, w):
        with torch.no_grad():
            turned = x.t()
            x.mul_(2).add_(1)
            return turned.mm(w)

    def g(x, w):
        with torch.no_grad():
            old = x * 3
            x.mul_(2).add_(1)
            return old.mm(w)

    for function in (f, g):
        x, w = torch.randn(300, 300), torch.randn(300, 300)
        y = x.clone()
        traced = firesteel.trace(function, torch.randn(300, 300), w, native=True)
        torch.testing.assert_close(traced(x, w), function(y, w), rtol=1e-3, atol=1e-3)  # of another matrix library
        same([x], [y])


def test_a_result_that_is_the_new_value_is_its_own():
    def f(x):
        with torch.no_grad():
            y = x * 2 + 1
            x.copy_(y)
        return y

    x = torch.randn(LARGE)
    wanted = x * 2 + 1
    y = firesteel.trace(f, torch.randn(LARGE), native=True)(x)
    same([x, y], [wanted, wanted])
    assert x.data_ptr() != y.data_ptr()


@pytest.mark.parametrize("make", [lambda: torch.randn(301, 300).t(), lambda: torch.randn(300, 602)[:, ::2]])
def test_other_layouts(make):
    def f(x, y):
        with torch.no_grad():
            x.mul_(2).add_(y)

    x, y = make(), torch.randn(LARGE)
    wanted = x * 2 + y
    traced = firesteel.trace(f, make(), torch.randn(LARGE), native=True)
    traced(x, y)
    same([x], [wanted])


def test_where_autograd_watches():
    def f(x, w):
        x.mul_(w).add_(1)
        return x.sum()

    w = torch.randn(LARGE, requires_grad=True)
    x, y = torch.randn(LARGE), None
    y = x.clone()
    traced = firesteel.trace(f, torch.randn(LARGE), w, grad=True, native=True)
    traced(x, w).backward()
    got, w.grad = w.grad, None
    f(y, w).backward()
    same([x.detach(), got], [y.detach(), w.grad])


def test_a_call_that_fails_changes_nothing_eager_would_not():
    def f(x, table, index):
        with torch.no_grad():
            rows = torch.nn.functional.embedding(index, table)  # checks the numbers when it runs
            x.mul_(2).add_(1)
            return rows

    traced = firesteel.trace(f, torch.randn(LARGE), torch.randn(5, 3), torch.tensor([1, 2]), native=True)
    x, table = torch.randn(LARGE), torch.randn(5, 3)
    old, wanted = x.clone(), x * 2 + 1
    with pytest.raises(IndexError):
        traced(x, table, torch.tensor([1, 7]))
    assert torch.equal(x, old)
    assert torch.equal(traced(x, table, torch.tensor([1, 4])), table[[1, 4]])
    same([x], [wanted])
