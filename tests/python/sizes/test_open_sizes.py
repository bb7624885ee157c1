"""One graph for many sizes: results, gradients and writes against eager, and how many captures it took."""

import math

import pytest
import torch
import torch.nn.functional as F
from over_sizes import same_over

import firesteel

SIZES = [4, 5, 7, 2, 17, 31, 64, 3]
BACKENDS = ["eager", "aot_eager", "firesteel"]


@pytest.fixture(autouse=True)
def checked_shapes(monkeypatch):
    """Every operator's result is compared with the layout that was recorded for it."""
    monkeypatch.setenv("FIRESTEEL_CHECK_SHAPES", "1")


def rows(n):
    return [torch.randn(n, 6, requires_grad=True)]


def two(n):
    return [torch.randn(n, 6, requires_grad=True), torch.randn(n, 6)]


def images(n):
    return [torch.randn(2, 3, n + 6, n + 9, requires_grad=True)]


WEIGHT = torch.randn(6, 8)
TABLE = torch.randn(100, 6)
KERNEL = torch.randn(4, 3, 3, 3)


def pointwise(x):
    return (x.sin() * 2 + x.exp()).tanh() - x


def broadcast(x, y):
    return x[:, None] * y[None] + y.sum(0)


def matmul(x):
    return (x @ WEIGHT).relu() @ WEIGHT.t()


def linear(x):
    return F.linear(x.view(x.shape[0], 2, 3), WEIGHT[:4, :3], WEIGHT[0, :4])


def gram(x):
    return x @ x.t(), (x.t() @ x).softmax(-1)


def reshape(x):
    n = x.shape[0]
    return x.view(n, 2, 3).transpose(1, 2).reshape(n * 3, 2), x.view(-1), x.reshape(3, -1)


def joined(x):
    n = x.size(0)
    return torch.cat([x, x * 2], 0)[1 : 2 * n - 1], torch.stack([x, x], 1), F.pad(x, (1, 2, 0, n))


def attention(x):
    q = x.view(1, x.shape[0], 2, 3).transpose(1, 2)
    mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def normed(x):
    return F.layer_norm(x, (6,)) + F.softmax(x, 0) + F.log_softmax(x, 1)


def lookup(x):
    index = torch.arange(x.shape[0]) % 50
    return F.embedding(index, TABLE) * x, TABLE[index] + x, x.gather(0, index[:, None] % x.shape[0])


def loss(x):
    target = torch.arange(x.shape[0]) % 6
    return F.cross_entropy(x, target), F.mse_loss(x, x.detach() * 0.5), F.nll_loss(F.log_softmax(x, 1), target)


def numbers(x):
    n, m = x.shape
    scale = 1 / math.sqrt(n)
    return x * scale + n // 2, n * m, (n + 1) // 3, torch.full((n + 1,), 2.0), x.numel(), len(x)


def written(x):
    y = x * 1
    y[1:] += y[:-1].clone()
    y[:, 0] = 3
    y.mul_(2)
    return y


def reduced(x):
    return x.sum(), x.mean(0), x.amax(1), x.logsumexp(0), x.max(0).values, x.norm(), x.cumsum(0), x.detach().var(0)


def drawn(x):
    return F.dropout(x, 0.5), torch.rand(x.shape[0]) + x[:, 0], torch.randn_like(x) * x


def convolved(x):
    y = F.conv2d(x, KERNEL, padding=1)
    return F.max_pool2d(y, 2).sum(1), F.avg_pool2d(y, 3, 2), F.adaptive_avg_pool2d(y, 2)


def split(x):
    a, b = x.split([2, 4], 1)
    first, last = x.chunk(2, 1)
    return a.sum() + b.mean(), first * last, x.unbind(1)[2], torch.where(x > 0, x, x.flip(0)), x.roll(1, 0)


def masked(x):
    n = x.shape[0]
    causal = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
    return (x @ x.t() + causal).softmax(-1), x.masked_fill(x < 0, 0.0), torch.eye(n) @ x


def among_keywords(x, **options):
    options["n"] = x.shape[0]
    return x * (2 if "m" in options or "n" not in options else 3) + options["n"]


def strided(x):
    return x[::2] * 2, x[-2:], x[:, 1::2].contiguous(), x.t().contiguous().view(6, -1), x.expand(3, -1, -1).sum(0)


FUNCTIONS = [pointwise, matmul, linear, gram, reshape, joined, attention, normed, lookup, loss, numbers, written,
             reduced, drawn, split, masked, among_keywords, strided]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_size_that_changed_is_left_open(function, backend):
    # Where a part of two rows is one row, two rows have a graph of their own.
    captures = 3 if function in (written, strided) else 2
    same_over(function, rows, SIZES, backend=backend, captures=captures)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_tensors_of_one_size(backend):
    same_over(broadcast, two, SIZES, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_images_of_many_sizes(backend):
    same_over(convolved, images, SIZES, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dynamic_true_takes_one_capture(backend):
    same_over(matmul, rows, SIZES, backend=backend, captures=1, dynamic=True)


def test_dynamic_false_takes_one_a_size():
    same_over(pointwise, rows, SIZES[:6], captures=6, dynamic=False)


def test_sizes_zero_and_one_have_graphs_of_their_own():
    same_over(pointwise, rows, [4, 5, 0, 1, 6, 0, 1, 7], captures=4)


def test_two_sizes_that_change():
    def function(x, y):
        return x @ y.t(), torch.cat([x, y]).sum(0)

    def make(n, m):
        return [torch.randn(n, 4, requires_grad=True), torch.randn(m, 4)]

    same_over(function, make, [(3, 5), (4, 9), (7, 2), (11, 13), (2, 3)])


def test_equal_sizes_are_taken_to_stay_equal():
    """x and y have one size at first: a graph that takes them for one serves no call where they are two."""

    def function(x, y):
        return x.sum(0) + y.sum(0), x.shape[0] == y.shape[0]

    def make(n, m):
        return [torch.randn(n, 4, requires_grad=True), torch.randn(m, 4)]

    same_over(function, make, [(3, 3), (4, 4), (5, 6), (7, 7), (8, 9)], captures=3)


def test_a_decision_is_part_of_the_guards():
    def function(x):
        return x * 2 if x.shape[0] > 10 else x.sum(0)

    same_over(function, rows, [4, 5, 10, 11, 12, 30, 9], captures=3)


def test_a_loop_over_a_size_settles_it():
    def function(x):
        total = x[0]
        for i in range(x.shape[0]):
            total = total + x[i]
        return total

    same_over(function, rows, [4, 5, 6, 5, 4], captures=3)


def test_a_view_of_an_input_is_one():
    def function(x):
        return x.view(x.shape[0] * 2, 3)

    compiled = firesteel.compile(function, backend="aot_eager", fullgraph=True)
    for n in (3, 4, 5):
        x = torch.randn(n, 6)
        view = compiled(x)
        view.zero_()
        assert x.eq(0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_int_argument_is_a_size(backend):
    def function(x, n):
        return x[:n] * 2, torch.zeros(n, 3), n + 1

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    firesteel.reset_counters()
    x = torch.randn(40, 3)
    for n in (4, 5, 7, 20, 33):
        torch.testing.assert_close(compiled(x, n), function(x, n))
    assert firesteel.counters()["captured"] == 2


def test_nothing_is_served_outside_its_conditions():
    """A slice of a fixed length: graphs below and above it, and right at it."""

    def function(x):
        return x[:8] * 2, x.shape[0]

    same_over(function, rows, [4, 5, 7, 8, 9, 20, 3, 6, 10], captures=3)


def test_conditions_can_be_read():
    graph = firesteel.trace(lambda x: x.view(-1, 4).sum(0), torch.randn(8), dynamic=True)
    assert graph.conditions[0] == "2 <= s0"
    assert any(line.startswith("s0 % 4 == 0") and "test_open_sizes.py" in line for line in graph.conditions)
    torch.testing.assert_close(graph(torch.ones(12)), torch.full((4,), 3.0))
    with pytest.raises(firesteel.InputMismatchError, match="condition"):
        graph(torch.ones(13))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_number_that_no_graph_can_hold_spoils_no_other(backend):
    """An attribute becomes one that the code raises for, and then what it was again."""

    class Reshaped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.width = 6

        def forward(self, x):
            return (x * 2).view(x.size()[:-1] + (self.width,))  # noqa: RUF005 - a join is what is asked for

    model = Reshaped()
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(4, 6)
    for width, works in ((6, True), (5, False), (6, True), (7, False), (6, True)):
        model.width = width
        if works:
            torch.testing.assert_close(compiled(x), model(x))
        else:
            with pytest.raises(RuntimeError, match="invalid for input of size"):
                compiled(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_are_given_back(backend):
    def function(x):
        n = x.shape[0]
        return x.shape, (*x.size()[:1], n * 2), x.size()[1:] + x.shape, [x.shape[1:], n], x.sum()

    same = firesteel.compile(function, backend=backend, fullgraph=True)
    firesteel.reset_counters()
    for n in (4, 5, 7, 9):
        x = torch.ones(n, 3)
        got, wanted = same(x), function(x)
        assert got == wanted
        assert [type(value) for value in got] == [type(value) for value in wanted]
    assert firesteel.counters()["captured"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_live_across_a_break(backend):
    def function(x, k):
        n, shape, part = x.shape[0], x.size()[:-1] + (k,), slice(k, None)  # noqa: RUF005
        firesteel.graph_break()
        return x[part].sum() + n, shape

    compiled = firesteel.compile(function, backend=backend)
    for n, k in ((4, 2), (5, 2), (5, 3), (7, 3), (4, 2), (9, 4), (4, 3)):
        x = torch.randn(n, 3)
        got, wanted = compiled(x, k), function(x, k)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1] == wanted[1]
