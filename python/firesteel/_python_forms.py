"""Functions that capture follows in another form: what C code does to its arguments, written in Python.

A form takes what the function takes and does the same, in code that a graph can hold. It answers NotImplemented,
before it has done anything, where it cannot: then the capture ends at the call.
"""

import copyreg
import functools
import math
import operator
import types

import torch
import torch.utils.checkpoint
from torch._functorch import eager_transforms
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder
from torch.overrides import _pop_mode, _push_mode
from torch.utils._device import DeviceContext

from . import _C, _loop_forms, _optimizer_forms

# ---- functions of the operator module that are no operators


def _iconcat(a, b):
    if not hasattr(a, "__getitem__"):
        return NotImplemented  # raises
    a += b
    return a


def _setitem(a, b, c):
    a[b] = c


def _delitem(a, b):
    del a[b]


# ---- operators that are called as functions


def _of(count, form):
    """The form with so many arguments; with others it raises, in words of C code."""

    def checked(*args, **kwargs):
        return NotImplemented if kwargs or len(args) != count else form(*args)

    return checked


def _count_of(items, wanted):
    return sum(1 for item in items if item is wanted or item == wanted)


def _index_of(items, wanted):
    for place, item in enumerate(items):
        if item is wanted or item == wanted:
            return place
    raise ValueError("sequence.index(x): x not in sequence")


_OPERATORS = {
    operator.getitem: _of(2, lambda a, b: a[b]),
    operator.contains: _of(2, lambda a, b: b in a),
    operator.is_: _of(2, lambda a, b: a is b),
    operator.is_not: _of(2, lambda a, b: a is not b),
    operator.eq: _of(2, lambda a, b: a == b),
    operator.ne: _of(2, lambda a, b: a != b),
    operator.not_: _of(1, lambda a: not a),
    operator.truth: _of(1, lambda a: bool(a)),
    operator.countOf: _of(2, _count_of),
    operator.indexOf: _of(2, _index_of),
}
if hasattr(operator, "call"):  # Python 3.11
    _OPERATORS[operator.call] = lambda function, /, *args, **kwargs: function(*args, **kwargs)

# ---- tensors by the names of their types


def _tensor_type(dtype):
    """The constructor of a tensor type of a fixed dtype; None: of the default one."""

    def form(*args, **kwargs):
        if kwargs:
            return NotImplemented
        wanted = dtype or torch.get_default_dtype()
        if len(args) == 1 and isinstance(args[0], torch.Size):
            return torch.empty(args[0], dtype=wanted)
        if len(args) == 1 and type(args[0]) in (list, tuple):
            return torch.tensor(args[0], dtype=wanted)
        if all(type(arg) is int for arg in args):
            return torch.empty(args or (0,), dtype=wanted)
        return NotImplemented

    return form


_DTYPES_OF_TYPES = {
    torch.FloatTensor: torch.float32,
    torch.DoubleTensor: torch.float64,
    torch.HalfTensor: torch.float16,
    torch.BFloat16Tensor: torch.bfloat16,
    torch.ByteTensor: torch.uint8,
    torch.CharTensor: torch.int8,
    torch.ShortTensor: torch.int16,
    torch.IntTensor: torch.int32,
    torch.LongTensor: torch.int64,
    torch.BoolTensor: torch.bool,
}


def _as_type(tensor, kind):
    """Tensor.type with one of these types, which are those of the CPU."""
    if kind not in _DTYPES_OF_TYPES or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return NotImplemented
    return tensor.to(_DTYPES_OF_TYPES[kind])


def _new(tensor, *args, **kwargs):
    """Tensor.new: of the same type."""
    if kwargs:
        return NotImplemented
    if len(args) == 1 and type(args[0]) in (list, tuple):
        return tensor.new_tensor(args[0])
    if not (all(type(arg) is int for arg in args) or (len(args) == 1 and isinstance(args[0], torch.Size))):
        return NotImplemented
    return tensor.new_empty(*(args or (0,)))


def _scalars(data, found):
    """Puts all numbers of nested lists into `found`; False where there is something else, or a tensor of many."""
    for item in data:
        if type(item) in (list, tuple):
            if not _scalars(item, found):
                return False
        elif isinstance(item, torch.Tensor):
            if item.dim() or item.device.type != "cpu":
                return False
            found.append(item)
        elif type(item) in (bool, int, float):
            found.append(item)
        else:
            return False
    return bool(data)


def _dtype_of(item):
    if isinstance(item, torch.Tensor):
        return item.dtype
    return torch.get_default_dtype() if type(item) is float else torch.int64 if type(item) is int else torch.bool


def _stacked(data, dtype):
    parts = [
        _stacked(item, dtype)
        if type(item) in (list, tuple)
        else item.detach().to(dtype)
        if isinstance(item, torch.Tensor)
        else torch.tensor(item, dtype=dtype)
        for item in data
    ]
    return torch.stack(parts)


def _tensor_of_tensors(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """torch.tensor() of lists with tensors of one number in them."""
    found = []
    if requires_grad or pin_memory or device is not None or not _scalars(data, found):
        return NotImplemented
    if dtype is None:
        dtype = _dtype_of(found[0])
        for item in found[1:]:
            dtype = torch.promote_types(dtype, _dtype_of(item))
    return _stacked(data, dtype)


def _tensor_of_data(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """torch.tensor() of a number that data gives, and of lists of such."""
    found = []
    if requires_grad or pin_memory or device is not None or not _scalars([data], found):
        return NotImplemented
    if dtype is None:
        dtype = _dtype_of(found[0])
        for item in found[1:]:
            dtype = torch.promote_types(dtype, _dtype_of(item))
    return _of_data(data, dtype)


def _of_data(data, dtype):
    if type(data) in (list, tuple):
        return torch.stack([_of_data(item, dtype) for item in data])
    if isinstance(data, torch.Tensor):
        return data.detach().to(dtype)
    return (torch.zeros((), dtype=_dtype_of(data)) + data).to(dtype)


def _constrain_size(size, *, min=None, max=None):
    torch._check(size >= (0 if min is None else min))
    if max is not None:
        torch._check(size <= max)


def _constrain(size, *, min=None, max=None):
    if min is not None:
        torch._check(size >= min)
    if max is not None:
        torch._check(size <= max)


# ---- loops over tensors


def _split(tensor, sizes, dim=0):
    """Parts whose sizes data gives: that they make up the whole is looked at when a run has found them out."""
    if not isinstance(sizes, (list, tuple)) or not isinstance(tensor, torch.Tensor):
        return NotImplemented
    whole, starts = tensor.shape[dim], [0]
    for size in sizes:
        torch._check(size >= 0)
        starts.append(starts[-1] + size)
        torch._check(starts[-1] <= whole)
    torch._check(starts[-1] == whole)
    return tuple(tensor.narrow(dim, start, size) for start, size in zip(starts, sizes, strict=False))


def rows(tensor):
    """What a loop over a tensor goes through."""
    return tensor.unbind()


# ---- activation checkpointing


def _checkpoint(function, *args, use_reentrant=None, context_fn=None, preserve_rng_state=True, debug=False, **kwargs):
    """The function as it is: a graph decides by itself what it keeps for its backward and what it computes again."""
    plain = context_fn is None or context_fn is torch.utils.checkpoint.noop_context_fn
    if not plain and (use_reentrant is not False or not _chooses_what_is_kept(context_fn)):
        return NotImplemented
    if use_reentrant is None or debug:
        return NotImplemented
    if use_reentrant and (kwargs or not _gives_gradients(args)):
        return NotImplemented  # it then cuts the history of what the function gives
    kwargs.pop("determinism_check", None)
    kwargs.pop("early_stop", None)
    return function(*args, **kwargs)


def _chooses_what_is_kept(context_fn):
    """Its contexts say what to keep and what to compute again: they change no value."""
    maker = torch.utils.checkpoint.create_selective_checkpoint_contexts
    return type(context_fn) is functools.partial and context_fn.func is maker


def _gives_gradients(args):
    if not torch.is_grad_enabled():
        return True
    return any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)


# ---- functions that torch.compiler.nested_compile_region() marks


def _region(function, *args, **kwargs):
    """The function as it is: kernels that are alike are made once anyway."""
    return function(*args, **kwargs)


# ---- blocks that ask no __torch_function__


class _NoTorchFunction:
    def __init__(self, state):
        self.state = state

    def __enter__(self):
        self.before = _C._torch_function_state()
        _C._set_torch_function_state(max(self.state, self.before))

    def __exit__(self, *error):
        _C._set_torch_function_state(self.before)


def _no_torch_function():
    return _NoTorchFunction(2)


def _no_torch_function_of_subclasses():
    return _NoTorchFunction(1)


# ---- blocks of a device: the mode that gives it to factories


def _enter_device(device):
    _push_mode(DeviceContext(device))
    return device


def _exit_device(device, *error):
    _pop_mode()


# ---- the backward of torch.func's transforms, which asks PyTorch's own compiler to stay away


def _gradients(outputs, inputs, grad_outputs=None, retain_graph=False, create_graph=True):
    """Those of the outputs that have a history; zeros where there are none."""
    places = [place for place, output in enumerate(outputs) if output.requires_grad]
    if not places:
        return tuple(torch.zeros_like(one) for one in inputs)
    found = torch.autograd.grad(
        [outputs[place] for place in places],
        inputs,
        None if grad_outputs is None else [grad_outputs[place] for place in places],
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    return tuple(
        torch.zeros_like(one) if gradient is None else gradient for gradient, one in zip(found, inputs, strict=True)
    )


# ---- blocks of autocast by their old names, and blocks that only watch


def _autocast_of(device, dtype):
    def form(enabled=True, dtype=dtype, cache_enabled=True):
        return torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    return form


class _Unwatched:
    """A profiler inside a graph: it sees nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def _unwatched(*args, **kwargs):
    return _Unwatched()


# ---- min() and max() of tensors with one value, which Python finds by looking at data


def _extreme(is_better):
    def form(*items):
        best, *others = items if len(items) > 1 else items[0]
        for item in others:
            if isinstance(best, torch.Tensor) or isinstance(item, torch.Tensor):
                best = choice(best, item)
                if best is NotImplemented:
                    return NotImplemented
            elif is_better(item, best):
                best = item
        return best

    def choice(first, second):
        tensors = [one for one in (first, second) if isinstance(one, torch.Tensor)]
        facts = {(one.shape, one.dtype, one.device) for one in tensors}
        if len(facts) != 1 or tensors[0].numel() != 1:
            return NotImplemented  # data decides about more than a value, or it raises
        chosen = torch.where(is_better(second, first), second, first)
        return chosen if chosen.dtype == tensors[0].dtype else NotImplemented

    return form


# ---- the names of what classes, modules and objects have


def _dir(*things):
    if len(things) != 1:
        return NotImplemented
    (thing,) = things
    kind = type(thing)
    if kind is types.ModuleType:
        return NotImplemented if "__dir__" in thing.__dict__ else sorted(thing.__dict__)
    if kind is not type and (kind.__dir__ is not object.__dir__ or not hasattr(thing, "__dict__")):
        return NotImplemented
    names = {} if kind is type else dict.fromkeys(thing.__dict__)
    for base in (thing if kind is type else kind).__mro__:
        names.update(dict.fromkeys(base.__dict__))
    return sorted(names)


# ---- copy.copy() and copy.deepcopy() of objects that keep all they are in their dicts and as containers

_CONTAINERS = (list, dict, set, frozenset, tuple)


def _reduce(thing, protocol):
    kind = type(thing)
    base = next((one for one in _CONTAINERS if issubclass(kind, one)), object)
    own = ("__reduce__", "__getstate__", "__new__")
    if (
        protocol < 2
        or any(getattr(kind, name) is not getattr(base, name) for name in own)
        or getattr(kind, "__getnewargs__", None) is not getattr(base, "__getnewargs__", None)
        or hasattr(kind, "__getnewargs_ex__")
        or copyreg._slotnames(kind)
        or not hasattr(thing, "__dict__")
    ):
        return NotImplemented
    state = thing.__dict__ or None
    if base in (set, frozenset):
        return kind, (list(thing),), state
    if base is tuple:
        return copyreg.__newobj__, (kind, tuple(thing)), state, None, None
    items = iter(thing) if base is list else None
    pairs = iter(thing.items()) if base is dict else None
    return copyreg.__newobj__, (kind,), state, items, pairs


FORMS = {
    **_loop_forms.FORMS,
    object.__reduce_ex__: _reduce,
    **_OPERATORS,
    operator.iconcat: _iconcat,
    operator.setitem: _setitem,
    operator.delitem: _delitem,
    torch.Tensor.new: _new,
    torch.Tensor: _tensor_type(None),
    **{kind: _tensor_type(dtype) for kind, dtype in _DTYPES_OF_TYPES.items()},
    dir: _dir,
    torch.cpu.amp.autocast: _autocast_of("cpu", torch.bfloat16),
    torch.cuda.amp.autocast: _autocast_of("cuda", torch.float16),
    torch.utils.checkpoint.checkpoint: _checkpoint,
    invoke_subgraph_placeholder: _region,
    eager_transforms._autograd_grad: _gradients,
    torch.device.__enter__: _enter_device,
    torch.device.__exit__: _exit_device,
    **_optimizer_forms.FORMS,
    torch._C.DisableTorchFunction: _no_torch_function,
    torch._C.DisableTorchFunctionSubclass: _no_torch_function_of_subclasses,
}

# Functions of torch that take sizes, which may be any, and numbers: of numbers they give what Python's do.
FORMS_OF_SIZES = {
    torch.sym_float: lambda a: float(a),
    torch.sym_int: lambda a: int(a),
    torch.sym_max: lambda a, b: max(a, b) if type(a) is type(b) else float(max(a, b)),
    torch.sym_min: lambda a, b: min(a, b) if type(a) is type(b) else float(min(a, b)),
    torch.sym_sum: lambda numbers: sum(numbers),
    torch.sym_sqrt: lambda a: math.sqrt(a),
}

# Followed where a list or tuple with tensors in it is given.
FORMS_WITH_TENSORS = {torch.tensor: _tensor_of_tensors}

# Followed where the one keyword's value is a tensor.
FORMS_WITH_TENSOR_NUMBERS = _optimizer_forms.SHARES

# Followed where data gives a number among the arguments, or some of a list.
FORMS_WITH_DATA = {
    torch.tensor: _tensor_of_data,
    torch.split: _split,
    torch.Tensor.split: _split,
    torch.split_with_sizes: _split,
    torch.Tensor.split_with_sizes: _split,
    torch.sym_constrain_range: _constrain,
    torch.sym_constrain_range_for_size: _constrain_size,
}

# Followed where fullgraph=True allows no look at data.
FORMS_OF_EXTREMES = {min: _extreme(operator.lt), max: _extreme(operator.gt)}

# Followed where fullgraph=True asks for one graph.
FORMS_IN_WHOLE_GRAPHS = {
    torch.profiler.profile: _unwatched,
    torch.autograd.profiler.profile: _unwatched,
}

# Followed where the second argument is a type that has a form.
FORMS_WITH_TYPES = {torch.Tensor.type: _as_type}
