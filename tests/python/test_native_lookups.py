"""Lookups in native kernels: embedding, index_select, gather and index, by themselves and with what reads them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sin() + 1, torch.ones(4), native=True)(torch.ones(4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


@pytest.fixture(autouse=True)
def single_operators_too(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_SMALLEST_KERNEL", "1")


def values(shape, dtype):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 99, shape, dtype=dtype)


def run(function, *args, native_ops=1, aten_ops=0):
    traced = firesteel.trace(function, *args, native=True)
    firesteel.reset_native_counters()
    got = traced(*args)
    counts = firesteel.native_counters()
    assert (counts["native_ops"], counts["aten_ops"]) == (native_ops, aten_ops)
    return got


def check(function, *args, exact=True, **counts):
    got, wanted = run(function, *args, **counts), function(*args)
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(got, wanted, equal_nan=True, **tolerance)
    assert got.stride() == wanted.stride()


def same_error(function, good, bad):
    """What eager raises for `bad` the kernel raises too, and runs again afterwards."""
    traced = firesteel.trace(function, *good, native=True)
    firesteel.reset_native_counters()
    torch.testing.assert_close(traced(*good), function(*good), rtol=0, atol=0)
    assert firesteel.native_counters()["native_ops"] > 0
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        function(*bad)
    with pytest.raises(type(wanted.value)) as got:
        traced(*bad)
    assert str(got.value) == str(wanted.value)
    torch.testing.assert_close(traced(*good), function(*good), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 16, 33, 130])
def test_embedding(width, dtype):
    table, ids = values((50, width), dtype), torch.randint(0, 50, (3, 5))
    check(lambda t, i: F.embedding(i, t), table, ids)
    check(lambda t, i: F.embedding(i, t), table, ids.int())


def test_embedding_of_layouts():
    ids = torch.randint(0, 20, (3, 5))
    check(lambda t, i: F.embedding(i, t), torch.randn(33, 20).t(), ids)
    check(lambda t, i: F.embedding(i, t), torch.randn(33).expand(20, 33), ids)
    check(lambda t, i: F.embedding(i, t[1:, ::2]), torch.randn(21, 66), ids)
    check(lambda t, i: F.embedding(i.t(), t), torch.randn(20, 33), ids)
    check(lambda t, i: F.embedding(i[:, 1:4], t), torch.randn(20, 33), ids)
    check(lambda t, i: F.embedding(i[0, 0], t), torch.randn(20, 33), ids)
    check(lambda t, i: F.embedding(i, t), torch.randn(20, 33), ids[:1, :1].expand(3, 5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -2])
def test_index_select(dim, dtype):
    x, places = values((6, 19, 35), dtype), torch.randint(0, 6, (11,))
    check(lambda x, i: x.index_select(dim, i), x, places)
    check(lambda x, i: x.index_select(dim, i), x.transpose(0, 1)[:, :, 3:], places)
    check(lambda x, i: x[0, 0].index_select(0, i), x, places)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -2])
def test_gather(dim, dtype):
    x, places = values((6, 19, 35), dtype), torch.randint(0, 6, (5, 7, 33))
    check(lambda x, i: x.gather(dim, i), x, places)
    check(lambda x, i: x.gather(dim, i), x.permute(2, 1, 0), places.permute(0, 2, 1)[:, :17, :6])
    check(lambda x, i: x.gather(dim, i), x, places[:, :1].expand(5, 7, 33))
    check(lambda x, i: x.gather(dim, i), x, places.int())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_index_counts_from_either_end(dtype):
    x, places = values((6, 19, 35), dtype), torch.randint(-6, 6, (4, 3))
    check(lambda x, i: x[i], x, places)
    check(lambda x, i: x[:, i], x, places)
    check(lambda x, i: x[:2, ..., i], x, places)
    check(lambda x, i: x[i[0]], x, places)
    check(lambda x, i: x[i.int()], x, places, native_ops=2)
    check(lambda x, i: x.transpose(0, 2)[:, i], x, places)


def test_index_by_several():
    x, rows, columns = torch.randn(6, 19, 7, 35), torch.randint(-6, 6, (4, 1)), torch.randint(-7, 7, (3,))
    check(lambda x, i, j: x[i, j], x, rows, columns)
    check(lambda x, i, j: x[:, i, j], x, rows, columns)
    check(lambda x, i, j: x[i, :, j], x, rows, columns)
    check(lambda x, i, j: x[:, i, :, j], x, rows, columns)
    check(lambda x, i, j: x[:2, :, j, i], x, rows, columns)
    check(lambda x, i, j: x[i, i, i, j], x, rows, columns)


@pytest.mark.parametrize("dtype", DTYPES)
def test_single_columns(dtype):
    x, places = values((6, 19, 35), dtype), torch.randint(0, 35, (6, 19, 1))
    check(lambda x, i: x.gather(-1, i), x, places)
    check(lambda x, i: x[0].gather(1, i), x, places[0])
    check(lambda x, i: x.index_select(2, i), x, places[0, 0])


def test_what_copies_faster_is_left_to_aten():
    x, places = torch.randn(40, 400), torch.randint(0, 400, (40, 33))
    check(lambda x, i: x.gather(1, i), x, places, native_ops=0, aten_ops=1)
    check(lambda x, i: x.index_select(1, i[0]), x, places, native_ops=0, aten_ops=2)
    check(lambda x, i: F.embedding(i, x.view(-1, 5)), x, places, native_ops=0, aten_ops=2)


def test_nothing_to_look_up_is_left_to_aten():
    x = torch.randn(6, 4)
    check(lambda x, i: F.embedding(i, x), x, torch.zeros(0, 3, dtype=torch.long), native_ops=0, aten_ops=1)
    check(lambda x, i: x[i], x, torch.zeros(0, dtype=torch.long), native_ops=0, aten_ops=1)
    check(lambda x, i: x[:, :0].index_select(0, i), x, torch.tensor([1, 2]), native_ops=0, aten_ops=2)


@pytest.mark.parametrize("bad", [7, -1, -8, 2**40, -(2**63)])
@pytest.mark.parametrize("function", [
    lambda x, i: F.embedding(i, x), lambda x, i: x.index_select(0, i), lambda x, i: x.index_select(1, i[3:4]),
    lambda x, i: x.gather(0, i.unsqueeze(1)), lambda x, i: x.gather(1, i.unsqueeze(1)),
])  # fmt: skip
def test_out_of_bounds(function, bad):
    good = torch.arange(7)
    spoiled = good.clone()
    spoiled[3] = bad
    same_error(function, (torch.randn(7, 7), good), (torch.randn(7, 7), spoiled))


@pytest.mark.parametrize("bad", [7, -8, 2**40, -(2**63)])
@pytest.mark.parametrize("function", [lambda x, i: x[i], lambda x, i: x[:, i] + 1, lambda x, i: x[i, i - 1]])
def test_index_out_of_bounds(function, bad):
    good = torch.arange(7)
    spoiled = good.clone()
    spoiled[3] = bad
    same_error(function, (torch.randn(7, 7), good), (torch.randn(7, 7), spoiled))


def test_only_what_is_read_must_be_in_bounds():
    x, ids = torch.randn(7, 5), torch.tensor([[1, 2, 900], [3, 6, -4]])
    check(lambda x, i: F.embedding(i[:, :2], x), x, ids)


def test_writes_before_an_error_happen_once():
    """As in eager: no kernel writes to an input before all that may raise has run."""

    def step(p, table, ids):
        p.mul_(2.0)
        return F.embedding(ids, table) * p

    p, table = torch.ones(5), torch.randn(7, 5)
    compiled = firesteel.compile(step, wait=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(p, table, torch.tensor([1, 2])), table[1:3] * 2, rtol=0, atol=0)
        with pytest.raises(IndexError):
            compiled(p, table, torch.tensor([1, 7]))
    assert torch.equal(p, torch.full((5,), 4.0))


def test_indices_that_kernels_compute():
    table, x = torch.randn(31, 33), torch.randn(9, 5)
    check(lambda t, x: F.embedding((x.abs() * 3).long() + 1, t) * 2, table, x, native_ops=6)
    check(lambda t, x: (t * 2).index_select(0, x.argmax(1)) + 1, table, x, native_ops=4)
    check(lambda t, i: t.gather(0, i) + i, torch.arange(12).view(4, 3), torch.tensor([[3, 0, 1]]), native_ops=2)
    check(lambda i: i.gather(0, i), torch.tensor([2, 0, 1]))


@pytest.mark.parametrize("width", [32, 45])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embeddings_and_a_norm_are_one_kernel(dtype, width):
    words, places = torch.randn(90, width).to(dtype), torch.randn(17, width).to(dtype)
    weight, bias = torch.randn(width).to(dtype), torch.randn(width).to(dtype)

    def f(ids, words, places, weight, bias):
        x = F.embedding(ids, words) + places[: ids.shape[1]]
        return F.layer_norm(x, (x.shape[-1],), weight, bias)

    ids = torch.randint(0, 90, (3, 15))
    args = (ids, words, places, weight, bias)
    got = run(f, *args, native_ops=3)
    assert firesteel.native_counters()["kernels_run"] == 1
    torch.testing.assert_close(got, f(*args))


def test_a_reduction_over_looked_up_columns():
    x, places = torch.randn(41, 37), torch.randint(0, 41, (23,))
    check(lambda x, i: x.index_select(0, i).sum(0), x, places, native_ops=2, exact=False)
    check(lambda x, i: x.index_select(0, i).sum(1), x, places, native_ops=2, exact=False)
    check(lambda x, i: x[i].sum(), x, places, native_ops=2, exact=False)
    check(lambda x, i: x[:, i].softmax(-1), x, places[places < 37], native_ops=2, exact=False)
    check(lambda x, i: x[:, i].sum(0) * 2, x, places[places < 37], native_ops=3, exact=False)
    long = torch.rand(9, 70000)
    check(lambda x, i: x.index_select(0, i).sum(1), long, torch.tensor([3, 8]), native_ops=2, exact=False)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(60, 33, padding_idx=0), nn.Embedding(20, 33)
        self.norm = nn.LayerNorm(33)
        self.register_buffer("position", torch.arange(20).expand(1, -1))

    def forward(self, ids):
        return self.norm(self.words(ids) + self.places(self.position[:, : ids.shape[1]]))


def test_embeddings_train():
    torch.manual_seed(3)
    model, ids = Embeddings(), torch.randint(0, 60, (4, 13))
    compiled = firesteel.compile(model, wait=True)
    wanted = model(ids)
    wanted.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    firesteel.reset_native_counters()
    got = compiled(ids)
    counts = firesteel.native_counters()
    assert (counts["native_ops"], counts["kernels_run"]) == (4, 2)  # the places are looked up once for all rows
    got.square().sum().backward()
    torch.testing.assert_close(got, wanted)
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient)
    with pytest.raises(IndexError, match="index out of range in self"):
        compiled(ids + 59)


def test_a_table_changed_in_place_is_read_anew():
    table, ids = torch.randn(9, 17), torch.tensor([1, 8, 1])
    compiled = firesteel.compile(lambda t, i: F.embedding(i, t) * 2, wait=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(table, ids), table[ids] * 2, rtol=0, atol=0)
        table.add_(1)
