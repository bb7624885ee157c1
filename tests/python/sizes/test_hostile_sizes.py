"""Sizes that programs make life hard with: bad input, values at the edges, and the operators that ask most of them."""

import time

import pytest
import torch
import torch.nn.functional as F
from over_sizes import same_over

import firesteel

SIZES = [4, 5, 6, 9, 12, 17, 20, 33, 64, 7]
BACKENDS = ["aot_eager", "firesteel"]


# ---- bad input: an error, or a graph of its own with the reason; never a hang


def test_marks_that_contradict_one_another():
    def add(x, y):
        return x + y

    x, y = torch.randn(5, 2), torch.randn(5, 2)
    firesteel.mark_dynamic(x, 0, min=4, max=8)
    firesteel.mark_dynamic(y, 0, min=16, max=32)
    with pytest.raises(firesteel.ControlError, match=r"dimension 0 of `y` is 5, outside the range .* 16 to 32"):
        firesteel.compile(add, backend="aot_eager")(x, y)


def test_a_mark_and_its_opposite():
    x = torch.randn(5, 2)
    firesteel.mark_static(x, 0)
    firesteel.mark_dynamic(x, 0)  # the last one counts
    compiled = firesteel.compile(lambda x: x * 2, backend="aot_eager", fullgraph=True)
    firesteel.reset_counters()
    for n in (5, 6, 7):
        compiled(x) if n == 5 else compiled(torch.randn(n, 2))
    assert firesteel.counters()["captured"] == 1


def test_ranges_of_equal_sizes_that_do_not_meet():
    def add(x, y):
        return x + y

    compiled = firesteel.compile(add, backend="aot_eager", fullgraph=True)
    for n in (6, 7, 8, 12):
        x, y = torch.randn(n, 2), torch.randn(n, 2)
        if n <= 8:
            firesteel.mark_dynamic(x, 0, min=4, max=8)
            firesteel.mark_dynamic(y, 0, min=6, max=32)
        torch.testing.assert_close(compiled(x, y), add(x, y))


def undecided(x):
    """Asks what no solver answers for all sizes: products of sizes, remainders of remainders."""
    a, b, c = x.shape
    total = 0
    for k in range(2, 12):
        if (a * b * c + k) % (a + k) == (b * b * k) % (c + 1):
            total += k
        if (a**2 + b**2) % (k * c + 1) > a * b // (c + k):
            total -= k
    return x * total


def test_questions_that_no_solver_answers():
    compiled = firesteel.compile(undecided, backend="aot_eager", dynamic=True, recompile_limit=64)
    begin = time.perf_counter()
    for a, b, c in [(3, 5, 7), (4, 6, 9), (11, 13, 2), (8, 8, 8), (21, 2, 34), (3, 5, 8)]:
        x = torch.randn(a, b, c)
        torch.testing.assert_close(compiled(x), undecided(x))
    assert time.perf_counter() - begin < 60


def test_a_size_as_the_key_of_a_dict():
    table = {4: 1.0, 5: 2.0, 6: 3.0}

    def function(x):
        seen = {x.shape[0]: x.sum()}
        return x * table.get(x.shape[0], 0.5), seen, {x.shape[0], 3}

    compiled = firesteel.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (4, 5, 6, 7, 4):
        x = torch.randn(n, 2)
        given, expected = compiled(x), function(x)
        torch.testing.assert_close(given[:2], expected[:2])
        assert given[2] == expected[2]
        assert [type(key) for key in given[1]] == [int]


@pytest.mark.parametrize("backend", BACKENDS)
def test_huge_sizes(backend):
    def function(x):
        n = x.shape[0]
        return x[:3] * 2, n * n * n * n, n * n // 7, x.shape[0] * 3 + 1

    compiled = firesteel.compile(function, backend=backend, dynamic=True)
    for n in (2**31, 2**33 + 1, 2**40, 2**62, 5):
        x = torch.zeros(1).expand(n)
        given, expected = compiled(x), function(x)
        torch.testing.assert_close(given[0], expected[0])
        assert given[1:] == expected[1:]


def test_an_int_that_no_size_can_be():
    def function(x, n):
        return x + n, n * 2

    compiled = firesteel.compile(function, backend="aot_eager")
    for n in (1, 2, 2**40, 2**62, -(2**62), 0, -1, 3):
        x = torch.zeros(2, dtype=torch.int64)
        given, expected = compiled(x, n), function(x, n)
        torch.testing.assert_close(given, expected)
    for n in (2**64, 2**70):
        for called in (function, compiled):
            with pytest.raises(OverflowError, match="too big"):
                called(torch.zeros(2, dtype=torch.int64), n)


# ---- numbers that are attributes


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5
        self.shift = 3
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) * self.scale + self.shift


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_attributes_that_change(backend, dynamic):
    module = Scaled()
    compiled = firesteel.compile(module, backend=backend, fullgraph=True, dynamic=dynamic)
    firesteel.reset_counters()
    for step, n in enumerate(SIZES):
        module.scale, module.shift = 0.5 / (step + 1), 3 + step
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), module(x))
    counted = firesteel.counters()
    assert counted["captured"] <= 3, counted
    assert counted["fallbacks"] == {}


# ---- equal sizes, and sizes 0 and 1


def products(x, y):
    return x @ y.t(), x.shape[0] * y.shape[0], torch.cat([x, y])


def test_sizes_that_are_equal_now_and_then():
    def make(n, m):
        return [torch.randn(n, 3), torch.randn(m, 3)]

    pairs = [(4, 5), (6, 7), (8, 8), (9, 9), (5, 12), (12, 5), (7, 7), (2, 3), (3, 2), (33, 33)]
    same_over(products, make, pairs, captures=2)


def edges(x):
    return x.sum(0), x * 2, x.reshape(-1), torch.cat([x, x]), x.shape[0]


def test_sizes_zero_and_one():
    same_over(edges, lambda n: [torch.randn(n, 3)], [5, 1, 0, 6, 7, 1, 0, 2, 12, 3], captures=4)


# ---- views, joins and parts


def divisible(x):
    n = x.shape[0]
    return x.view(n // 4, 4, 6).sum(1), x.reshape(2, -1).amax(1), x.unflatten(0, (-1, 2)).mean(1)


def merged(x):
    n, m = x.shape
    return x.reshape(n * m), x.reshape(m, n).t().reshape(-1), x.flatten().view(n, m) + 1, x.reshape(1, n, m, 1)


def joined(x):
    n = x.shape[0]
    y = torch.cat([x, x[: n // 2], torch.zeros(n, 6)], 0)
    return y, torch.stack([x, x * 2], 1), torch.cat([x, x], 1).chunk(2, 1)[1], y[n : n + n // 2]


def parted(x):
    n = x.shape[0]
    a, b = x.split([n // 2, n - n // 2])
    return a.sum(0) + b.sum(0), x[1 : n - 1] * 2, x[n // 3 :], x[-(n // 2) :], x.narrow(0, n // 4, n // 2)


def padded(x):
    n = x.shape[0]
    return F.pad(x, (1, 2, 0, n // 2)), F.pad(x, (0, 0, 0, 3), value=1.5), F.pad(x[:, :2], (0, n % 3))


def attended(x):
    n = x.shape[0]
    q = x.view(1, n, 2, 3).transpose(1, 2)
    scores = (q @ q.transpose(-2, -1)) * (1.0 / n**0.5)
    mask = torch.ones(n, n).tril() == 0
    by_hand = scores.masked_fill(mask, float("-inf")).softmax(-1) @ q
    fused = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return by_hand.transpose(1, 2).reshape(n, 6), fused.transpose(1, 2).reshape(n, 6)


def cached(x):
    n = x.shape[0]
    keys = torch.cat([torch.ones(2, 6), x])
    places = torch.arange(n + 2)
    return (x @ keys.t()).softmax(-1) @ keys, places[-n:], keys[: n + 1].flip(0), torch.arange(n)[:, None] < places


PARTS = [merged, joined, parted, padded, attended, cached]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PARTS, ids=lambda f: f.__name__)
def test_one_graph_for_all_sizes(function, backend):
    grad = function is not merged  # a gradient of sizes that change places is compared with its tensor's
    same_over(function, lambda n: [torch.randn(n, 6, requires_grad=grad)], SIZES, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_that_need_sizes_to_divide(backend):
    same_over(divisible, lambda n: [torch.randn(n, 6, requires_grad=True)], [4, 8, 12, 16, 20, 64, 32, 24, 40, 100],
              backend=backend)  # fmt: skip


def test_a_size_that_does_not_divide_is_eagers_error():
    compiled = firesteel.compile(divisible, backend="aot_eager", fullgraph=True)
    for n in (4, 8, 12):
        compiled(torch.randn(n, 6))
    with pytest.raises(RuntimeError):
        compiled(torch.randn(7, 6))
    torch.testing.assert_close(compiled(torch.ones(16, 6)), divisible(torch.ones(16, 6)))
