"""compile(shapes_spec=...): which sizes of which arguments are open, as torch.fx.experimental.dynamic_spec says it.

What it names by parameters is spelled here as the native part finds it: `x`, `batch['mask']`, `args[1]`.
A size that is an expression of others is open like them, and an assumption is true or not: guards find out what holds,
where PyTorch has to be told.
"""

import inspect

import torch
from torch.fx.experimental.dynamic_spec import DictSpec, IntVar, ObjectSpec, ParamsSpec, SeqSpec, ShapesSpec, TensorSpec

_MOST = 2**63 - 1


def checked(spec):
    """A ShapesSpec of what compile() was given; an error for all else."""
    if isinstance(spec, (dict, ParamsSpec)):
        spec = ShapesSpec(spec)
    if not isinstance(spec, ShapesSpec):
        raise TypeError(f"compile(shapes_spec=...) is a ShapesSpec, a ParamsSpec, a dict or None, not {spec!r}")
    return spec


def places(spec, function, is_module):
    """The sizes of each tensor and the names of the ints that change, for calls of `function`."""
    params = spec._params
    tensors, numbers = {}, []
    if params is None:
        return tensors, numbers
    signature = inspect.signature(function)
    kinds = inspect.Parameter
    named = [p for p in signature.parameters.values() if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    rest = next((p.name for p in signature.parameters.values() if p.kind is kinds.VAR_POSITIONAL), None)
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in signature.parameters.values())
    for name, entry in params._named_args.items():
        index = next((i for i, p in enumerate(named) if p.name == name), None)
        if index is None and not takes_any:
            known = ", ".join(f"`{p.name}`" for p in named)
            raise ValueError(
                f"compile(shapes_spec=...) names `{name}`, which is no parameter; those there are: {known}"
            )
        # A module is called with what its forward gets, by place or by name.
        for spelled in (name, f"args[{index}]") if is_module and index is not None else (name,):
            _walk(spelled, entry, tensors, numbers)
    for i, entry in enumerate(params._varargs or ()):
        if rest is None:
            raise ValueError("compile(shapes_spec=...) has an entry for *args, which the function does not take")
        _walk(f"args[{len(named) + i}]" if is_module else f"{rest}[{i}]", entry, tensors, numbers)
    for name, entry in (params._varkw or {}).items():
        _walk(name, entry, tensors, numbers)
    return tensors, numbers


def _walk(name, entry, tensors, numbers):
    if isinstance(entry, TensorSpec):
        tensors[name] = [_size(size) for size in entry]
    elif isinstance(entry, ObjectSpec):
        raise NotImplementedError(f"compile(shapes_spec=...): attributes of `{name}` are not supported yet")
    elif isinstance(entry, DictSpec):
        for key, below in entry.items():
            _walk(f"{name}[{key!r}]", below, tensors, numbers)
    elif isinstance(entry, SeqSpec):
        for i, below in enumerate(entry._entries):
            _walk(f"{name}[{i}]", below, tensors, numbers)
    elif isinstance(entry, torch.SymInt):
        numbers.append(name)


def _size(size):
    if isinstance(size, IntVar):
        return size.min or 0, _MOST if size.max is None else size.max
    return (0, _MOST) if isinstance(size, torch.SymInt) else size
