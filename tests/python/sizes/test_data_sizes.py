"""Sizes that data decides, under fullgraph=True: one graph for all of them, each against eager."""

import pytest
import torch
from over_data import captured_once

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CHECK_SHAPES", "1")
    firesteel.reset_counters()


MASKS = [
    [True, False, True, True],
    [False, True, False, False],
    [True, True, True, True],
    [False, False, False, True],
]
EMPTY = [False, False, False, False]


def masked(*masks):
    return [(torch.arange(12.0).view(4, 3).requires_grad_(), torch.tensor(mask)) for mask in masks]


def nonzero(x, mask):
    places = mask.nonzero()
    return places, places * 2 + 1, places.sum(), x[places[:, 0]].sum(0)


def picked(x, mask):
    return x[mask], x[mask].sum(), (x[mask] * 2 + 1).relu()


def of_columns(x, mask):
    return x.t()[:, mask] * 2, x.t().contiguous()[:, mask].sum(1)


def of_both(x, mask):
    return x[mask] * 2 + (x + 1)[mask]


def selected(x, mask):
    wide = mask[:, None].expand(4, 3)
    return x.masked_select(wide).sin(), torch.masked_select(x, wide).sum()


def multiplied(x, mask):
    return x[mask] @ torch.ones(3, 2), (x[mask].t() @ x[mask]).sum()


def joined(x, mask):
    return torch.cat([x[mask], x]).sum(0), torch.cat([x[mask], x[~mask]]), torch.stack([x[mask], x[mask]], 1)


def sizes(x, mask):
    part = x[mask]
    return part.shape[0], part.numel(), part.size(), torch.zeros(part.shape[0]), part.new_ones(part.shape[0] + 1, 2)


def where(x, mask):
    (rows,) = torch.where(mask)
    return rows, x[rows], torch.argwhere(mask)


def written(x, mask):
    y = x * 2
    y[mask] = y[mask] + 10
    return y


def normalized(x, mask):
    part = x[mask]
    return part.softmax(-1), part.mean(1, keepdim=True), part.view(-1), part.reshape(-1, 3, 1)


PROGRAMS = [nonzero, picked, of_columns, of_both, selected, multiplied, joined, sizes, where, written, normalized]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_masks(function, backend):
    captured_once(function, masked(*MASKS), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [nonzero, picked, of_both, selected, multiplied, sizes, where, written])
def test_masks_that_pick_nothing(function, backend):
    captured_once(function, masked(MASKS[0], EMPTY, MASKS[1]), backend)


def integers(*lists):
    return [(torch.tensor(numbers),) for numbers in lists]


def unique(t):
    return torch.unique(t), t.unique(sorted=True) * 2


def unique_all(t):
    values, places, counts = torch.unique(t, return_inverse=True, return_counts=True)
    return values[places], counts.sum(), values.shape[0], counts + values


def consecutive(t):
    values, counts = torch.unique_consecutive(t, return_counts=True)
    return values, counts, values * counts


def repeated(t):
    return torch.repeat_interleave(torch.arange(5), t), t.repeat_interleave(2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [unique, unique_all, consecutive, repeated])
def test_values(function, backend):
    captured_once(function, integers([3, 1, 1, 2, 3], [1, 2, 3, 4, 5], [2, 2, 2, 2, 2], [0, 1, 0, 1, 0]), backend)


def rows_of(t):
    return torch.unique(t, dim=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unique_rows(backend):
    calls = integers([[1, 2], [1, 2], [3, 4]], [[1, 2], [5, 6], [3, 4]])
    captured_once(rows_of, calls, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_that_must_fit(backend):
    """What holds for no size but the right one is what eager raises an error for."""

    def function(x, mask):
        part = x[mask]
        torch._check(part.shape[0] == 2)
        return part + torch.ones(2, 3)

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    x = torch.randn(4, 3)
    for mask in ([True, False, True, False], [False, True, True, False]):
        picks = torch.tensor(mask)
        assert torch.equal(compiled(x, picks), function(x, picks))
    with pytest.raises(RuntimeError):
        compiled(x, torch.tensor(MASKS[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_where_another_was_taken_for_granted(backend):
    """squeeze() gives another rank for a size of one: that call runs as it is."""

    def function(x, mask):
        return x[mask].squeeze(0)

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    x = torch.randn(4, 3)
    several, one = torch.tensor(MASKS[0]), torch.tensor(MASKS[1])
    assert torch.equal(compiled(x, several), x[several])
    assert torch.equal(compiled(x, one), x[one].squeeze(0))
    assert sum(firesteel.counters()["fallbacks"].values()) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_on_a_size_is_an_error(backend):
    def function(x, mask):
        return x[mask] + 1 if x[mask].shape[0] > 2 else x

    with pytest.raises(firesteel.GraphBreakError, match="FS-DATA-DEPENDENT"):
        firesteel.compile(function, fullgraph=True, backend=backend)(torch.randn(4, 3), torch.tensor(MASKS[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_fullgraph_it_is_a_break(backend):
    compiled = firesteel.compile(picked, backend=backend)
    x = torch.randn(4, 3)
    for mask in map(torch.tensor, MASKS):
        torch.testing.assert_close(compiled(x, mask), picked(x, mask))
    assert firesteel.counters()["breaks"]


COUNTED = []


@torch.library.custom_op("tests_of_data_sizes::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    COUNTED.append(x.shape[0])
    return x + 1


@counted.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_function_of_the_users_runs_twice(backend):
    def function(x, mask):
        return counted(x), x[mask].squeeze(0)

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    x = torch.randn(4, 3)
    several, one = torch.tensor(MASKS[0]), torch.tensor(MASKS[1])
    torch.testing.assert_close(compiled(x, several), function(x, several))
    COUNTED.clear()
    with pytest.raises(RuntimeError, match="takes for granted"):
        compiled(x, one)
    assert COUNTED == [4]


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_before_what_does_not_hold(backend):
    """Call by call they have happened when it is found out, and the call is an error; else nothing is written twice."""

    def function(x, mask):
        x.add_(1)
        return x[mask].squeeze(0)

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    several, one = torch.tensor(MASKS[0]), torch.tensor(MASKS[1])
    for mask in (several, one):
        x, y = torch.ones(4, 3), torch.ones(4, 3)
        wanted = function(y, mask)
        if mask is one and backend == "eager":
            with pytest.raises(RuntimeError, match="takes for granted"):
                compiled(x, mask)
        else:
            assert torch.equal(compiled(x, mask), wanted)
        assert torch.equal(x, y)


def test_a_backend_of_the_users_finds_what_does_not_hold():
    def function(x, mask):
        part = x[mask].squeeze(0)
        return part * part.dim()

    compiled = firesteel.compile(function, fullgraph=True, backend=lambda graph, examples: graph.forward)
    x = torch.randn(4, 3)
    several, one = torch.tensor(MASKS[0]), torch.tensor(MASKS[1])
    assert torch.equal(compiled(x, several), function(x, several))
    with pytest.raises(RuntimeError, match="takes for granted"):
        compiled(x, one)


def test_a_backend_of_the_users_finds_other_numbers_of_results():
    def function(x, mask):
        return x[mask].chunk(2)

    compiled = firesteel.compile(function, fullgraph=True, backend=lambda graph, examples: graph.forward)
    x = torch.randn(4, 3)
    several, one = torch.tensor(MASKS[0]), torch.tensor(MASKS[1])
    torch.testing.assert_close(compiled(x, several), function(x, several))
    with pytest.raises(RuntimeError, match="takes for granted"):
        compiled(x, one)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["std", "var", "mean", "norm", "logsumexp"])
def test_made_up_sizes_are_in_no_result(name, backend):
    """Of few elements only so many can be picked: torch's formulas that want the plain number are refused."""

    def function(x, mask):
        part = x[mask].view(-1)
        return part.logsumexp(0) if name == "logsumexp" else getattr(part, name)()

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    x = torch.arange(12.0).view(4, 3).sin()
    for mask in map(torch.tensor, MASKS):
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        if name in ("std", "var") and backend != "eager":
            with pytest.raises(firesteel.GraphBreakError, match="FS-TRACE"):
                compiled(ours, mask)
            continue
        found, wanted = compiled(ours, mask), function(theirs, mask)
        torch.testing.assert_close(found, wanted)
        found.backward()
        wanted.backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_small_masks(backend):
    def function(x, mask):
        parts = [x[(x + i).sum(1) > 9] for i in range(12)]
        return torch.cat(parts), [part.shape[0] for part in parts], x[mask]

    captured_once(function, masked(*MASKS), backend)


def test_a_backend_of_the_users():
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph.forward

    def function(x, mask, t):
        return x[mask] * t.item(), t.item(), x[mask].shape[0]

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    x = torch.randn(4, 3)
    for mask, number in zip(MASKS, (2.0, 3.0, -1.0, 0.5), strict=True):
        found = compiled(x, torch.tensor(mask), torch.tensor(number))
        wanted = function(x, torch.tensor(mask), torch.tensor(number))
        assert torch.equal(found[0], wanted[0])
        assert found[1:] == wanted[1:]
    assert len(graphs) == 1
