"""Runs a function over many sizes, compiled and as it is, and compares everything."""

import torch

import firesteel


def gradients(results, inputs):
    leaves = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    tensors = results if isinstance(results, (tuple, list)) else [results]
    wanted = [value for value in tensors if isinstance(value, torch.Tensor) and value.requires_grad]
    if not leaves or not wanted:
        return []
    total = sum((value * torch.linspace(-1, 1, value.numel()).view(value.shape)).sum() for value in wanted)
    return torch.autograd.grad(total, leaves, allow_unused=True)


def copies(inputs):
    return [
        value.detach().clone(memory_format=torch.preserve_format).requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else value
        for value in inputs
    ]


def same_over(function, make_inputs, sizes, *, backend="aot_eager", captures=2, **options):
    """Every size gives eager's results, gradients and writes; the whole takes that many captures and no break."""
    compiled = firesteel.compile(function, backend=backend, fullgraph=True, **options)
    firesteel.reset_counters()
    for size in sizes:
        torch.manual_seed(0)
        inputs = make_inputs(*size) if isinstance(size, tuple) else make_inputs(size)
        ours = copies(inputs)
        torch.manual_seed(1)
        expected = function(*inputs)
        torch.manual_seed(1)
        given = compiled(*ours)
        torch.testing.assert_close(given, expected, msg=lambda text, size=size: f"size {size}: {text}")
        for before, after in zip(gradients(expected, inputs), gradients(given, ours), strict=True):
            assert (before is None) == (after is None)
            if before is not None:
                torch.testing.assert_close(after, before, msg=lambda text, size=size: f"size {size}: {text}")
        plain = [value.detach() for value in inputs if isinstance(value, torch.Tensor)]
        torch.testing.assert_close([value.detach() for value in ours if isinstance(value, torch.Tensor)], plain)
    counted = firesteel.counters()
    assert counted["captured"] == captures, counted
    assert counted["breaks"] == {}, counted
    assert counted["fallbacks"] == {}, counted
    assert counted["hits"] == len(sizes), counted
    return compiled
