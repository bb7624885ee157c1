"""Who calls a routed name: PyTorch's own compiler, where a program uses it by name, must find its own parts."""

import sys
import types

import firesteel

from . import dropin

_PYTORCHS = ("torch._dynamo", "torch._export", "torch._functorch", "torch._higher_order_ops", "torch._inductor",
             "torch.export", "torch.nn.attention")  # fmt: skip
_USERS = "torch._dynamo.test"  # what tests are written with: testing, test_case


def is_pytorch():
    """Whether a routed name was called by PyTorch's compiler. To be asked first of all."""
    frame = sys._getframe(2)
    if dropin.stands_in(frame.f_code):
        frame = frame.f_back
    name = frame.f_globals.get("__name__") or ""
    return name.startswith(_PYTORCHS) and not name.startswith(_USERS)


def is_backward(model):
    """Whether it is a graph that PyTorch's compiled autograd has recorded, which only its own compiler understands."""
    is_named = type(model).__name__.startswith("CompiledAutograd")
    return is_named and isinstance(model, sys.modules["torch.fx"].GraphModule)


def compile(model, backend, fullgraph, dynamic, mode, options, disable):
    """PyTorch's torch.compile: of operators that compile the functions they are given (torch.cond and its kin)."""
    import torch._dynamo

    backend = backend or "inductor"
    if backend == "inductor":
        backend = torch._TorchCompileInductorWrapper(mode, options, dynamic)
    elif options or mode:
        backend = torch._TorchCompileWrapper(backend, mode, options, dynamic)
    make = dropin.original(torch._dynamo.optimize)(backend, nopython=fullgraph, dynamic=dynamic, disable=disable)
    return (lambda model: _left_alone(make(model))) if model is None else _left_alone(make(model))


def _left_alone(compiled):
    """Called on the way through a compiled function, its frames are for PyTorch's compiler to take."""
    return firesteel.disable(compiled) if isinstance(compiled, types.FunctionType) else compiled
