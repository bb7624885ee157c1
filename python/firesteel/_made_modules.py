"""Modules that captured code made, as arguments of functions that are not looked into: each call makes them anew."""

import copy

import torch
from torch.utils import _pytree as pytree


class MadeModule:
    """Stands in a graph for a module: its tensors are the graph's, everything else is copied."""

    def __init__(self, template, known, places, tensors):
        self.template = template
        self.known = known
        self.places = places
        self.tensors = tensors


def stand_in(module, known):
    """What stands for the module; itself where it holds no tensor. The modules in `known` were there before: these stay
    themselves."""
    memo = {id(part): part for part in known}
    tensors = []
    for part in _made_parts(module, memo):
        for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(value, torch.Tensor) and id(value) not in memo:
                tensors.append(value)
                memo[id(value)] = object()
    if not tensors:
        return module
    places = [memo[id(tensor)] for tensor in tensors]
    return MadeModule(copy.deepcopy(module, memo), known, places, tensors)


def _made_parts(module, memo):
    if id(module) in memo:
        return
    yield module
    for child in module.children():
        yield from _made_parts(child, memo)


def _take_apart(made):
    return made.tensors, (made.template, made.known, made.places)


def _build(tensors, context):
    template, known, places = context
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):  # a graph is described, not run
        return MadeModule(template, known, places, list(tensors))
    memo = {id(part): part for part in known}
    memo.update((id(place), tensor) for place, tensor in zip(places, tensors, strict=True))
    return copy.deepcopy(template, memo)


pytree.register_pytree_node(MadeModule, _take_apart, _build)
