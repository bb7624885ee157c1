"""Hooks that captured code leaves on tensors: they run in every backward, as often as eager ones do."""

import functools

import pytest
import torch
from against_eager import BACKENDS, same

import firesteel

SEEN = []


def note(name, gradient):
    SEEN.append((name, gradient.clone()))


def doubles(x):
    x.register_hook(lambda gradient: gradient * 2)
    return (x * 3).sum()


def by_what_was_computed(x):
    factor = x.detach() + 1
    x.register_hook(lambda gradient: gradient * factor)
    return (x * x).sum()


def two_in_order(x):
    x.register_hook(lambda gradient: gradient + 1)
    y = x.sin()
    x.register_hook(lambda gradient: gradient * 2)
    return y.sum()


def noted(x):
    x.register_hook(functools.partial(note, "hook"))
    return x.exp().sum()


def after_accumulation(x):
    y = x * 2
    x.register_post_accumulate_grad_hook(lambda leaf: SEEN.append(leaf.grad.clone()))
    return y.sum()


def in_a_function_inside(x):
    leave(x)
    return (x * 5).sum()


def leave(x):
    x.register_hook(scale)


def scale(gradient):
    return gradient * 7


def taken_back(x):
    handle = x.register_hook(scale)
    handle.remove()
    return (x * 2).sum()


def one_of_two_taken_back(x):
    first = x.register_hook(scale)
    x.register_hook(lambda gradient: gradient + 1)
    first.remove()
    return (x * 2).sum()


def computed(x):
    y = x * 2
    y.register_hook(scale)
    return (y * y).sum()


def computed_by_what_was_computed(x):
    y = x.sin()
    factor = y.detach() + 1
    y.register_hook(lambda gradient: gradient * factor)
    z = y * x
    z.register_hook(functools.partial(note, "computed"))
    return z.exp().sum()


def computed_and_taken_back(x):
    y = x * 2
    handle = y.register_hook(scale)
    y.register_hook(lambda gradient: gradient + 1)
    handle.remove()
    return (y * y).sum()


PROGRAMS = [doubles, by_what_was_computed, two_in_order, noted, after_accumulation, in_a_function_inside]
PROGRAMS += [taken_back, one_of_two_taken_back, computed, computed_by_what_was_computed, computed_and_taken_back]


def trained(function, x):
    """Gradients of three calls, and what was seen: hooks stay, and come on top of each other."""
    SEEN.clear()
    gradients = []
    for _ in range(3):
        function(x).backward()
        gradients.append(x.grad)
        x.grad = None
    return gradients, list(SEEN)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager(program, backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(program, fullgraph=True, backend=backend)
    start = torch.randn(3)
    mine, theirs = (start.clone().requires_grad_() for _ in range(2))
    assert same(trained(compiled, mine), trained(program, theirs))
    mine, theirs = (start.clone().requires_grad_() for _ in range(2))
    assert same(trained(compiled, mine), trained(program, theirs))  # nothing hangs on the first tensor
    assert firesteel.counters()["breaks"] == {}


def test_parameters():
    class Layer(torch.nn.Linear):
        def forward(self, x):
            self.weight.register_hook(scale)
            return super().forward(x).sum()

    mine, theirs = Layer(3, 2), Layer(3, 2)
    theirs.load_state_dict(mine.state_dict())
    compiled = firesteel.compile(mine, fullgraph=True)
    x = torch.randn(4, 3)
    for _ in range(2):
        compiled(x).backward()
        theirs(x).backward()
        assert same([p.grad for p in mine.parameters()], [p.grad for p in theirs.parameters()])


def handed_on(x):
    return in_a_list(x)[0].id >= 0, x * 2


def in_a_list(x):
    return [x.register_hook(*(scale,))]


def differentiated(x):
    x.register_hook(scale)
    (gradient,) = torch.autograd.grad((x * 2).sum(), x)
    return gradient


@pytest.mark.parametrize("program", [handed_on, differentiated], ids=lambda program: program.__name__)
def test_what_stays_with_python(program):
    def called(function):
        x = torch.ones(3, requires_grad=True)
        result = function(x)
        last = result[-1] if type(result) is tuple else result
        if last.requires_grad:
            last.sum().backward()
        return last, x.grad

    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(program, fullgraph=True)(torch.ones(3, requires_grad=True))
    assert same(called(firesteel.compile(program)), called(program))


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_of_each_call(backend):
    def scaling(factor):
        return lambda gradient: gradient * factor

    def program(x, hook):
        y = x * 3
        handle = y.register_hook(hook)
        return y * 2, x.register_hook(hook), handle

    compiled = firesteel.compile(program, fullgraph=True, backend=backend)
    firesteel.reset_counters()
    calls = []
    for factor in (1.0, 2.0, 5.0):
        x = torch.ones(3, requires_grad=True)
        calls.append((factor, x, *compiled(x, scaling(factor))))
    for factor, x, result, on_leaf, on_computed in calls:
        result.sum().backward(retain_graph=True)
        assert same(x.grad, torch.full((3,), 6.0 * factor * factor))
        on_leaf.remove()
        on_computed.remove()
        x.grad = None
        result.sum().backward()
        assert same(x.grad, torch.full((3,), 6.0))
    assert firesteel.counters()["breaks"] == {}


def test_a_result_that_keeps_its_gradient():
    def program(x):
        y = x * 2
        y.retain_grad()
        return y, (y * 3).sum()

    kept, last = firesteel.compile(program, fullgraph=True)(torch.ones(3, requires_grad=True))
    last.backward()
    assert same(kept.grad, torch.full((3,), 3.0))


def test_an_error_in_the_graph():
    def program(x, places):
        x.register_hook(scale)
        return x[places].sum()

    compiled = firesteel.compile(program, fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    compiled(x, torch.tensor([1])).backward()
    assert same(x.grad, torch.tensor([0.0, 7.0, 0.0]))
    mine, theirs = (torch.ones(3, requires_grad=True) for _ in range(2))
    for function, tensor in ((compiled, mine), (program, theirs)):
        with pytest.raises((IndexError, RuntimeError)):
            function(tensor, torch.tensor([9]))
        (tensor * 2).sum().backward()
    assert same(mine.grad, theirs.grad)  # plain code had left one by then
