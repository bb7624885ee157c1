"""Python's random numbers in one graph: each draw runs at every call of the graph, and gives a number of it."""

import random

import torch

from . import _C


def _form(draw, dtype):
    """The draw as capture follows it: a tensor of the graph, and the number that is in it."""

    def drawn(*args, **kwargs):
        return torch.tensor(draw(*args, **kwargs), dtype=dtype)

    def like_it(*args, **kwargs):
        return torch.zeros((), dtype=dtype)

    drawn.__name__ = drawn.__qualname__ = draw.__name__
    _C._set_mark(drawn, "Leaf", like_it)
    kept.append(drawn)  # marks hold nothing alive

    def form(*args, **kwargs):
        return drawn(*args, **kwargs).item()

    return form


kept = []

# Followed where fullgraph=True allows no break. All others of the module look at what they draw.
FORMS_OF_DRAWS = {
    random.random: _form(random.random, torch.float64),
    random.uniform: _form(random.uniform, torch.float64),
    random.gauss: _form(random.gauss, torch.float64),
    random.normalvariate: _form(random.normalvariate, torch.float64),
    random.randint: _form(random.randint, torch.int64),
    random.randrange: _form(random.randrange, torch.int64),
}
