"""Contexts that only watch what runs inside them: a capture leaves them out, as PyTorch's does."""

import contextlib

import torch

from . import _C


def _record_function(name, args=None):
    return contextlib.nullcontext()


_C._set_mark(torch.autograd.profiler.record_function, "Substituted", _record_function)
