"""Python's random numbers in one graph: each draw runs at every call of the graph, and gives a number of it."""

import random
import weakref

import torch

from . import _C


def _leaf(draw, dtype):
    """The draw as a tensor of the graph."""

    def drawn(*args, **kwargs):
        return torch.tensor(draw(*args, **kwargs), dtype=dtype)

    def like_it(*args, **kwargs):
        return torch.zeros((), dtype=dtype)

    drawn.__name__ = drawn.__qualname__ = draw.__name__
    _C._set_mark(drawn, "Leaf", like_it)
    return drawn


def _form(draw, dtype):
    """The draw as capture follows it: the number that is in the tensor."""
    drawn = _leaf(draw, dtype)

    def form(*args, **kwargs):
        return drawn(*args, **kwargs).item()

    return form


# Followed where fullgraph=True allows no break. All others of the module look at what they draw.
_DTYPES = {
    "random": torch.float64, "uniform": torch.float64, "gauss": torch.float64, "normalvariate": torch.float64,
    "randint": torch.int64, "randrange": torch.int64,
}  # fmt: skip
FORMS_OF_DRAWS = {getattr(random, name): _form(getattr(random, name), dtype) for name, dtype in _DTYPES.items()}

# The same of any generator, by the method's name. A mark that is set later would make all that is compiled stale: the
# functions that draw are there from the beginning, and find the generator by its place.
METHODS_THAT_DRAW = {getattr(random.Random, name): name for name in _DTYPES}
_generators = weakref.WeakValueDictionary()
_of_generators = weakref.WeakKeyDictionary()


def _drawing(name):
    def draw(place, *args, **kwargs):
        return getattr(_generators[place], name)(*args, **kwargs)

    draw.__name__ = name
    return _leaf(draw, _DTYPES[name])


_DRAWN = {name: _drawing(name) for name in _DTYPES}


def form_of(generator, name):
    """The form of a generator's own method. It keeps no generator alive: who calls it has guarded the very object."""
    known = _of_generators.setdefault(generator, {})
    if name not in known:
        place, drawn = hex(id(generator)), _DRAWN[name]
        _generators[place] = generator

        def form(*args, **kwargs):
            return drawn(place, *args, **kwargs).item()

        known[name] = form
    return known[name]
