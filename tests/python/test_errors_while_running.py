"""Operators that raise when a graph runs: handlers, blocks and torch's state are as in eager, and later calls work."""

import traceback

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


def handled(x, i):
    try:
        return x.index_select(0, i) + 1
    except IndexError:
        return x * 2


def handled_after_a_break(x, i):
    try:
        print(end="")
        return x.index_select(0, i) + 1
    except IndexError:
        return x * 2


def handled_by_the_caller(x, i):
    def inner(i):
        print(end="")
        return x.index_select(0, i).sum(0)

    y = x.sin()
    try:
        y = y + inner(i)
    except IndexError:
        y = y * 3
    return y


def in_a_block(x, i):
    with torch.no_grad():
        print(end="")
        y = x.index_select(0, i) + 1
    return y * 2


def in_a_block_of_the_graph(x, i):
    with torch.no_grad():
        y = x.index_select(0, i) + 1
    return y * x.sum()


def at_last(x, i):
    log = []
    try:
        try:
            print(end="")
            y = x.index_select(0, i)
        finally:
            log.append(1)
    except IndexError:
        y = x
    return y, log


def writes_before(x, i):
    with torch.no_grad():
        print(end="")
        x.add_(1)
        return x.index_select(0, i)


def draws_before(x, i):
    with torch.no_grad():
        print(end="")
        return torch.nn.functional.dropout(x).index_select(0, i)


def draws_inside_a_try(x, i):
    try:
        y = torch.nn.functional.dropout(x).index_select(0, i)
    except IndexError:
        y = x * torch.rand(2)
    return y + torch.rand(2)


GENERATOR = torch.Generator()


def draws_from_its_own_generator(x, i):
    try:
        y = x * torch.rand(2, generator=GENERATOR) + torch.rand(2)
        y = y.index_select(0, i)
    except IndexError:
        y = x * torch.rand(2, generator=GENERATOR)
    return y + torch.rand(2)


PROGRAMS = [handled, handled_after_a_break, handled_by_the_caller, in_a_block, in_a_block_of_the_graph, at_last,
            writes_before, draws_before, draws_inside_a_try, draws_from_its_own_generator]  # fmt: skip


def outcome(function, x, i):
    torch.manual_seed(0)
    GENERATOR.manual_seed(1)
    try:
        return function(x, i), None
    except IndexError as error:
        return str(error), error


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program, backend):
    compiled = firesteel.compile(program, backend=backend)
    good, bad = torch.tensor([0, 1]), torch.tensor([7])
    for i in (good, good, bad, good, bad):
        inputs = [torch.arange(6.0).view(3, 2) for _ in range(2)]
        for x in inputs:
            if program is not writes_before:
                x.requires_grad_()
        (expected, error), (found, own) = outcome(program, inputs[0], i), outcome(compiled, inputs[1], i)
        assert type(own) is type(error)
        if error is None:
            torch.testing.assert_close(found, expected)
        else:
            assert found == expected
        torch.testing.assert_close(inputs[1], inputs[0])
        assert torch.is_grad_enabled()
    firesteel.reset_counters()
    compiled(torch.ones(3, 2), good)
    assert firesteel.counters()["fallbacks"] == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_traceback_shows_the_line(backend):
    def function(x, i):
        y = x.sin()
        return y.index_select(0, i)  # here

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    x = torch.randn(3, 2)
    compiled(x, torch.tensor([0]))
    firesteel.reset_counters()
    with pytest.raises(IndexError) as raised:
        compiled(x, torch.tensor([5]))
    assert any(frame.line.endswith("# here") for frame in traceback.extract_tb(raised.value.__traceback__))
    assert firesteel.counters()["fallbacks"] == {"FS-EXCEPTION": 1}
    torch.testing.assert_close(compiled(x, torch.tensor([1])), function(x, torch.tensor([1])))


class Doubled(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Doubled.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_code_of_the_user_s_does_not_run_twice(backend):
    compiled = firesteel.compile(lambda x, i: Doubled.apply(x).index_select(0, i), backend=backend)
    x = torch.randn(3, 2, requires_grad=True)
    for _ in range(2):
        compiled(x, torch.tensor([0]))
    before = Doubled.calls
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([7]))
    assert Doubled.calls == before + 1
