"""Tensors of classes with `__torch_dispatch__` that wrap others: what stands for one, and what is guarded of it."""

import copy

import torch


def is_wrapper(value):
    return hasattr(type(value), "__tensor_flatten__")


def like(tensor):
    """One without data, with the same facts; as part of the trace that runs."""
    if is_wrapper(tensor):
        made = wrapper_like(tensor)
    else:
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        made.requires_grad_(tensor.requires_grad)
    if tensor.requires_grad and not tensor.is_leaf:
        with torch.enable_grad():
            made = made.clone()
    return made


def wrapper_like(tensor):
    names, context = tensor.__tensor_flatten__()
    inner = {name: like(getattr(tensor, name)) for name in names}
    made = type(tensor).__tensor_unflatten__(inner, context, tensor.shape, tensor.stride())
    if type(made) is not type(tensor) or made.shape != tensor.shape or made.dtype != tensor.dtype:
        raise TypeError(f"`__tensor_unflatten__` of a {type(tensor).__name__} gives another kind of tensor")
    if tensor.requires_grad and not made.requires_grad:
        made.requires_grad_()
    for name, value in tensor.__dict__.items():
        made.__dict__.setdefault(name, value)
    return made


def facts(tensor):
    return (
        type(tensor),
        tensor.dtype,
        tensor.device,
        tensor.layout,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad,
        tensor.is_leaf,
    )


class SameParts:
    """Asked at each call whether a wrapper has the parts and the context that the captured code went by."""

    __slots__ = ("context", "names", "parts")
    __name__ = "same_parts"

    def __init__(self, tensor):
        self.names, context = tensor.__tensor_flatten__()
        self.names = list(self.names)
        # The class may give the very object that it changes later.
        self.context = copy.copy(context) if isinstance(context, (dict, list, set)) else context
        self.parts = []
        for name in self.names:
            part = getattr(tensor, name)
            self.parts.append((facts(part), SameParts(part) if is_wrapper(part) else None))

    def __call__(self, tensor):
        names, context = tensor.__tensor_flatten__()
        if list(names) != self.names:
            return False
        compare = getattr(type(tensor), "__metadata_guard__", None)
        try:
            same = compare(self.context, context) if compare else self.context == context
            if not same:
                return False
        except Exception:  # what cannot be compared is not the same
            return False
        for name, (known, inside) in zip(self.names, self.parts, strict=True):
            part = getattr(tensor, name)
            if facts(part) != known or (inside is not None and not inside(part)):
                return False
        return True
