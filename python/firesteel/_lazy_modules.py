"""Initializes lazy modules while a capture runs: they may look at the shapes of their inputs, never at data."""

import copy

import torch

from . import _C

_FACTS = ("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_cuda", "is_cpu")
_METHODS = ("size", "dim", "ndimension", "numel", "nelement", "stride", "is_floating_point", "is_complex")
_ALLOWED = {getattr(torch.Tensor, name).__get__ for name in _FACTS} | {getattr(torch.Tensor, n) for n in _METHODS}


class DataReadError(Exception):
    """The module asks for more than shapes."""


class _Shape(torch.Tensor):
    """A tensor without data of its own: stands for one that the captured code computes."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function not in _ALLOWED:
            raise DataReadError
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


def initialize(module, args, kwargs):
    """Does what the module's first call would do to it; True where that is done."""
    args, kwargs = [_example(arg) for arg in args], {k: _example(v) for k, v in (kwargs or {}).items()}
    try:
        with torch.random.fork_rng(devices=[]):  # a copy goes first: what fails leaves nothing behind
            trial = copy.deepcopy(module, _empty_buffers(module))
            trial._infer_parameters(trial, args, kwargs)
        module._infer_parameters(module, args, kwargs)
    except Exception:  # the call itself raises it, or does what cannot be done here
        return False
    return True


def _empty_buffers(module):
    """For deepcopy(), which torch refuses for these."""
    found = (buffer for buffer in module.buffers() if isinstance(buffer, torch.nn.UninitializedBuffer))
    return {id(buffer): torch.nn.UninitializedBuffer(device=buffer.device, dtype=buffer.dtype) for buffer in found}


def _example(value):
    if isinstance(value, torch.Tensor) and _C.is_traced(value):
        with torch.no_grad():
            return torch.empty(tuple(value.shape), dtype=value.dtype, device=value.device).as_subclass(_Shape)
    if type(value) in (list, tuple):
        return type(value)(map(_example, value))
    return {key: _example(item) for key, item in value.items()} if type(value) is dict else value
