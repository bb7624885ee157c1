"""Numbers and sizes that data gives where graphs may break: pieces hold them, and what looks at them is eager's."""

import pytest
import torch
from against_eager import same
from over_data import flat

import firesteel
from firesteel import _C

BACKENDS = ["eager", "aot_eager", "firesteel"]


@pytest.fixture(autouse=True)
def captured_data(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CHECK_SHAPES", "1")
    _C._capture_data(True, True)
    firesteel.reset_counters()
    yield
    _C._capture_data(False, False)


def kept_across(x, t):
    n = t.item()
    y = x * n
    firesteel.graph_break()
    return y + n, n


def float_across(x, t):
    scale = t.item() / 4 + 0.5
    firesteel.graph_break()
    return x * scale, scale


def size_across(x, t):
    part = x[x > t]
    count = part.shape[0]
    firesteel.graph_break()
    return part * count, count, torch.zeros(count, 2)


def on_the_stack(x, t):
    return t.item(), [x * t.item(), firesteel.graph_break()], x + t.item()


def in_containers(x, t):
    held = {"n": [t.item(), (t.item() + 1,)]}
    firesteel.graph_break()
    held["n"].append(held["n"][0] * 2)
    return held, x * held["n"][1][0]


def in_a_cell(x, t):
    n = t.item()

    def inner(y):
        return y * n

    firesteel.graph_break()
    return inner(x), n


def truth_across(x, t):
    large = t.item() > 2
    firesteel.graph_break()
    return (x + 1 if large else x - 1), large


def branches(x, t):
    n = t.item()
    return x * n if n > 2 else x - n


def loops(x, t):
    for i in range(int(t)):
        x = x + i
    return x


def as_text(x, t):
    return x * t.item(), f"{t.item()}"


def asks_a_size(x, t):
    part = x[x > t]
    return part.sum() if part.shape[0] > 1 else x.sum() - 1


def in_a_called_function(x, t):
    def inner(y, n):
        y = y * n
        firesteel.graph_break()
        return y + n

    n = t.item()
    return inner(x, n) + n


def in_a_loop(x, t):
    total = 0
    for row in x.unbind():
        n = (row * t).sum().long().item()
        total = total + row * n
        firesteel.graph_break()
    return total, n


def writes(x, t):
    n = t.item()
    x.mul_(n)
    firesteel.graph_break()
    x.add_(n)
    return x


def handled(x, t):
    try:
        return x[t.item()]
    except IndexError:
        return x.sum()


PROGRAMS = [kept_across, size_across, on_the_stack, in_containers, in_a_cell, truth_across, branches, loops, as_text,
            asks_a_size, in_a_called_function, in_a_loop, writes, handled]  # fmt: skip


def check(function, calls, backend):
    compiled = firesteel.compile(function, backend=backend)
    for args in calls:
        ours, theirs = ([arg.clone() for arg in args] for _ in range(2))
        for one in (ours[0], theirs[0]):
            if function is not writes:
                one.requires_grad_()
        found, wanted = compiled(*ours), function(*theirs)
        assert same(found, wanted), (found, wanted)
        for result, like in zip(flat(found), flat(wanted), strict=True):
            if isinstance(like, torch.Tensor) and like.requires_grad:
                result.sum().backward(retain_graph=True)
                like.sum().backward(retain_graph=True)
        for own, other in zip(ours, theirs, strict=True):
            assert torch.equal(own, other)
            assert (own.grad is None) == (other.grad is None)
            assert own.grad is None or torch.allclose(own.grad, other.grad)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_ints(function, backend):
    check(function, [(torch.arange(6.0).view(3, 2) - 1, torch.tensor(n)) for n in (3, 0, 1, 2, 4)], backend)
    counted = firesteel.counters()
    assert counted["captured"]
    assert counted["breaks"] or function is handled


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [kept_across, float_across, in_containers, in_a_cell, as_text, writes])
def test_floats(function, backend):
    check(function, [(torch.arange(6.0).view(3, 2), torch.tensor(n)) for n in (0.5, 0.0, -3.0, 1.0)], backend)
    assert firesteel.counters()["breaks"]


@pytest.mark.parametrize("every", [1, 2, 3, 5])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_with_a_break_every_few_instructions(function, backend, every):
    _C._break_every(every)
    try:
        check(function, [(torch.arange(6.0).view(3, 2) - 1, torch.tensor(n)) for n in (3, 0, 2)], backend)
    finally:
        _C._break_every(0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_alone_or_sizes_alone(backend):
    def function(x, t):
        return x * t.item(), x[x > 0].sum()

    for numbers, sizes in ((True, False), (False, True)):
        _C._capture_data(numbers, sizes)
        firesteel.reset_counters()
        check(function, [(torch.arange(6.0).view(3, 2) - 2, torch.tensor(n)) for n in (3, 0)], backend)
        assert sum(firesteel.counters()["breaks"].values()) == 2
