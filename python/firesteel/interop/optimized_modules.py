"""torch._dynamo.OptimizedModule as programs meet it: modules that Firesteel compiled, and PyTorch's own."""

import torch._dynamo.eval_frame as eval_frame

from .._compiled_module import CompiledModule, is_compiled_module

_theirs = eval_frame.OptimizedModule


class _Either(type):
    def __instancecheck__(cls, module):
        return is_compiled_module(module) or isinstance(module, _theirs)

    def __subclasscheck__(cls, other):
        return issubclass(other, (_theirs, CompiledModule))

    # PyTorch's own compiler uses the name too, for torch.export say.

    def __call__(cls, *args, **kwargs):
        return _theirs(*args, **kwargs)

    def __getattr__(cls, name):
        return getattr(_theirs, name)


class OptimizedModule(metaclass=_Either):
    pass
