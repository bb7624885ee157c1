"""Functions of autograd that give back an input, or a view of one: gradients go through their backward."""

import pytest
import torch

import firesteel


class Second(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return x * gradient, gradient * 3


class Flat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * 5).view(ctx.shape)


def several(x, y):
    z = Flat.apply(x)
    return z, z.view(1, -1), x.view(1, -1), y * 2


PROGRAMS = {
    "an input": lambda x, y: (Second.apply(x, y),),
    "a view of an input given back": lambda x, y: (Second.apply(x, y).view(1, -1),),
    "a view": lambda x, y: (Flat.apply(x), y * 2),
    "several views": several,
    "a view of a view": lambda x, y: (Flat.apply(x.view(1, -1)).view(2, 1), y * x),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_memory(name, backend):
    def function(x, y):
        return PROGRAMS[name](x, y)

    def run(function, values):
        leaves = [value.clone().requires_grad_() for value in values]
        x, y = (leaf * 1 for leaf in leaves)
        results = function(x, y)
        sum((result * (place + 1)).sum() for place, result in enumerate(results)).backward()
        shared = [result.data_ptr() in (x.data_ptr(), y.data_ptr()) for result in results]
        return [leaf.grad for leaf in leaves], list(results), shared

    compiled = firesteel.compile(function, backend=backend, wait=True)
    for _ in range(2):
        values = torch.randn(2), torch.randn(2)
        ours, theirs = run(compiled, values), run(function, values)
        torch.testing.assert_close(ours[:2], theirs[:2])
        assert ours[2] == theirs[2]
