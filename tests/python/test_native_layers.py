"""Layers and losses in native kernels, forward and backward, against eager, with counters that say what ran where."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import firesteel

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sum(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")


def close(got, wanted, loose=1):
    torch.testing.assert_close(got, wanted, rtol=1e-4 * loose, atol=2e-5 * loose, equal_nan=True)
    assert got.stride() == wanted.stride()


def run(function, *args):
    """Results and gradients of all that needs them."""
    args = [arg.detach().clone().requires_grad_(arg.is_floating_point()) for arg in args]
    result = function(*args)
    torch.manual_seed(3)
    (result * torch.randn(result.shape)).sum().backward()
    return result.detach(), [arg.grad for arg in args if arg.requires_grad]


def check(function, *args, aten_ops=0, loose=1):
    traced = firesteel.trace(function, *[arg.detach().requires_grad_(arg.is_floating_point()) for arg in args],
                             grad=True, native=True)  # fmt: skip
    firesteel.reset_native_counters()
    got, gradients = run(traced, *args)
    counts = firesteel.native_counters()
    wanted, wanted_gradients = run(function, *args)
    close(got, wanted, loose)
    for ours, theirs in zip(gradients, wanted_gradients, strict=True):
        close(ours, theirs, loose)
    assert counts["aten_ops"] == aten_ops
    return counts


SHAPES = {
    nn.BatchNorm1d: [(17, 13), (5, 13, 37)],
    nn.BatchNorm2d: [(3, 5, 7, 9), (4, 18, 16, 16)],
    nn.BatchNorm3d: [(2, 3, 4, 5, 6)],
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("kind", "shape"), [(kind, shape) for kind, shapes in SHAPES.items() for shape in shapes])
def test_batch_norm(kind, shape, affine, training):
    torch.manual_seed(0)
    ours = kind(shape[1], affine=affine).train(training)
    ours.running_mean.normal_()
    ours.running_var.uniform_(0.5, 2)
    theirs = copy.deepcopy(ours)
    x = torch.randn(shape)
    with torch.set_grad_enabled(training):
        traced = firesteel.trace(lambda x: F.relu(ours(x)), x, grad=training, native=True)
        for _ in range(2):
            firesteel.reset_native_counters()
            got = traced(x)
            counts = firesteel.native_counters()
            close(got, F.relu(theirs(x)))
            close(ours.running_mean, theirs.running_mean)
            close(ours.running_var, theirs.running_var)
            # In training ATen counts the batches.
            assert (counts["native_ops"], counts["aten_ops"], counts["kernels_run"]) == (2, int(training), 1)
    if training and affine:
        wanted = F.relu(theirs(x))
        weights = torch.randn(shape)
        (traced(x) * weights).sum().backward()
        (wanted * weights).sum().backward()
        close(ours.weight.grad, theirs.weight.grad, 5)
        close(ours.bias.grad, theirs.bias.grad, 5)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_of_batch_norm(layout):
    x = torch.randn(4, 6, 9, 11).to(memory_format=layout)
    mean, var = torch.zeros(6), torch.ones(6)

    def f(x, weight, bias):
        return F.relu(F.batch_norm(x, mean.clone(), var.clone(), weight, bias, training=True))

    counts = check(f, x, torch.randn(6), torch.randn(6), loose=5)
    assert counts["kernels_run"] == 2


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [-100, 3])
def test_cross_entropy(reduction, ignored):
    target = torch.randint(0, 45, (37,))
    target[4] = ignored

    def f(x):
        return F.cross_entropy(x * 2, target, reduction=reduction, ignore_index=ignored)

    counts = check(f, torch.randn(37, 45), aten_ops=1)  # the pick, or the targets' check
    assert counts["kernels_run"] == {"mean": 3, "sum": 4, "none": 2}[reduction]


def test_all_targets_ignored():
    target = torch.full((5,), -100)
    check(lambda x: F.cross_entropy(x * 2, target), torch.randn(5, 7), aten_ops=1)


def test_attention_with_masked_rows():
    mask = torch.rand(2, 1, 9, 11) > 0.3
    mask[:, :, 4] = False

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=1e-9)

    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 9, 16), torch.randn(2, 3, 11, 16), torch.randn(2, 3, 11, 16)
    traced = firesteel.trace(f, q, k, v, native=True)
    firesteel.reset_native_counters()
    got = traced(q, k, v)
    counts = firesteel.native_counters()
    close(got, f(q, k, v))
    assert counts["native_ops"] >= 2


POINTWISE = [
    lambda x, y, z: torch.addcmul(x, y, z, value=-0.3) * 2,
    lambda x, y, z: torch.addcdiv(x, y, z * z + 1, value=0.7),
    lambda x, y, z: torch.lerp(x, y, 0.1) + torch.lerp(y, z, 0.9),
    lambda x, y, z: F.leaky_relu(x * y, 0.2) + z,
    lambda x, y, z: F.mse_loss(x * y, z),
    lambda x, y, z: F.mse_loss(x * y, z, reduction="sum"),
]


@pytest.mark.parametrize("case", range(len(POINTWISE)))
@pytest.mark.parametrize("shape", [(33, 35), (7, 130)])
def test_pointwise(case, shape):
    function = POINTWISE[case]
    torch.manual_seed(case)
    x, y, z = (torch.randn(shape) for _ in range(3))
    traced = firesteel.trace(function, x, y, z, native=True)
    firesteel.reset_native_counters()
    close(traced(x, y, z), function(x, y, z))
    counts = firesteel.native_counters()
    assert counts["aten_ops"] == 0
    run_both(function, x, y, z)


def run_both(function, *args):
    examples = [arg.detach().requires_grad_() for arg in args]
    got, gradients = run(firesteel.trace(function, *examples, grad=True, native=True), *args)
    wanted, wanted_gradients = run(function, *args)
    close(got, wanted)
    for ours, theirs in zip(gradients, wanted_gradients, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("rows", "classes"), [(2, 2), (5, 7), (64, 131), (300, 1000)])
def test_cross_entropy_wholly_native(rows, classes, reduction, dtype):
    x, target = torch.randn(rows, classes, dtype=dtype), torch.randint(classes, (rows,))
    target[: rows // 3] = -100
    counts = check(
        lambda x, t: F.cross_entropy(x * 2, t, reduction=reduction), x, target, aten_ops=1
    )  # the targets' check
    assert counts["native_ops"] >= 6


def test_cross_entropy_ignoring_everything():
    check(lambda x, t: F.cross_entropy(x, t, reduction="sum"), torch.randn(4, 9), torch.full((4,), -100), aten_ops=1)
    check(lambda x, t: F.cross_entropy(x, t, ignore_index=2), torch.randn(4, 9), torch.tensor([2, 2, 1, 0]), aten_ops=1)


@pytest.mark.parametrize("wrong", [9, -1, 1 << 40, -(1 << 40)])
def test_targets_out_of_bounds_are_eagers_error(wrong):
    x, target = torch.randn(4, 9), torch.tensor([0, 8, -100, 3])
    traced = firesteel.trace(F.cross_entropy, x, target, native=True)
    torch.testing.assert_close(traced(x, target), F.cross_entropy(x, target))
    target[3] = wrong
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
        F.cross_entropy(x, target)
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
        traced(x, target)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("shape", [(), (7,), (5, 33)])
def test_gradient_of_an_embedding(shape, padding, dtype):
    table, indices = torch.randn(400, 257).to(dtype), torch.randint(0, 40, shape)

    def f(table, indices):
        return F.embedding(indices, table, padding_idx=padding)

    large = indices.numel() * 257 * dtype.itemsize >= 256 << 10
    check(f, table, indices, aten_ops=1 if large else 2)  # the adding, and the reading where it is worth no kernel


def test_gradients_of_embeddings_reuse_memory():
    table, indices = torch.randn(1000, 300, requires_grad=True), torch.randint(0, 1000, (40,))
    traced = firesteel.trace(lambda t, i: F.embedding(i, t) * 2, table, indices, grad=True, native=True)
    traced(table, indices).sum().backward()
    table.grad = None
    firesteel.reset_native_counters()
    traced(table, indices).sum().backward()
    assert firesteel.native_counters()["buffers_reused"] >= 1
    wanted = torch.zeros(1000, 300).index_add_(0, indices, torch.full((40, 300), 2.0))
    torch.testing.assert_close(table.grad, wanted)
