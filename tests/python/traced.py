"""What the tests of tracing share: tensors from a seed, and the comparison of a replay with eager."""

import torch

import firesteel


def tensors(*shapes, seed=0, grad=False, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator).to(dtype).requires_grad_(grad) for shape in shapes]


def leaves_of(result):
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


def assert_same(actual, expected):
    actual, expected = leaves_of(actual), leaves_of(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=False):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        assert a.stride() == e.stride()
        torch.testing.assert_close(a.detach(), e.detach(), rtol=0, atol=0, equal_nan=True)


def check(function, *shapes, grad=False, dtype=torch.float32):
    """Traces on one set of values, replays on another; compares results, inputs and, with grad, gradients."""
    graph = firesteel.trace(function, *tensors(*shapes, seed=1, grad=grad, dtype=dtype), grad=grad)
    ours, theirs = (tensors(*shapes, seed=2, grad=grad, dtype=dtype) for _ in range(2))
    torch.manual_seed(5)
    actual = graph(*ours)
    state = torch.get_rng_state()
    torch.manual_seed(5)
    expected = function(*theirs)
    assert torch.equal(state, torch.get_rng_state()), "the generator did not advance as eager's does"
    assert_same(actual, expected)
    assert_same(ours, theirs)
    if grad:
        assert [t.requires_grad for t in leaves_of(actual)] == [t.requires_grad for t in leaves_of(expected)]
        for result in (actual, expected):
            sum(t.float().pow(2).sum() for t in leaves_of(result) if t.requires_grad).backward()
        for a, e in zip(ours, theirs, strict=False):
            assert (a.grad is None) == (e.grad is None)
            if e.grad is not None:
                torch.testing.assert_close(a.grad, e.grad, rtol=1e-6, atol=1e-6)
    return graph
