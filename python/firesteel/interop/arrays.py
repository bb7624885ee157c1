"""Arrays of numpy in compiled functions: tensors of the graph, computed with by torch._numpy as PyTorch does.

What captured code gets for an array is an `Array`, which holds a tensor. Each call of numpy on one is a node of the
graph; what is left over at the end becomes an array again. Whatever is not here is a graph break.
"""

import functools
import math
import sys

import numpy as np
import torch

import firesteel

from .. import _C
from . import array_kinds, array_names

_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARED = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}

_DTYPES = array_kinds.DTYPES
_NAMES = frozenset(dtype.name for dtype in _DTYPES.values())


def _name_of(dtype):
    """A dtype's name; None where torch has no such dtype. Its answers are constants of a graph."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        return None
    return name if name in _NAMES else None


for _constant in (_name_of, np.dtype, np.finfo, np.iinfo, *(dtype.type for dtype in _DTYPES.values())):
    _C._set_mark(_constant, "Constant")


def array_of(tensor):
    """The array over a tensor's memory."""
    return tensor.detach().resolve_conj().resolve_neg().numpy()


def scalar_of(tensor):
    """The same, as numpy gives what has no dimensions: a number."""
    return array_of(tensor)[()]


class Array:
    """Stands for an array while a function is captured."""

    __array_ufunc__ = None  # numbers of numpy leave operators to it

    def __init__(self, tensor, finish=array_of, is_borrowed=True):
        self.tensor = tensor
        self.finish = finish
        self.is_borrowed = is_borrowed  # shares the memory of an array or a tensor from outside

    @property
    def shape(self):
        return tuple(self.tensor.shape)

    @property
    def ndim(self):
        return self.tensor.ndim

    @property
    def size(self):
        return self.tensor.numel()

    @property
    def dtype(self):
        return _DTYPES[self.tensor.dtype]

    @property
    def itemsize(self):
        return self.tensor.element_size()

    @property
    def nbytes(self):
        return self.tensor.element_size() * self.tensor.numel()

    @property
    def strides(self):
        return tuple(self.tensor.element_size() * stride for stride in self.tensor.stride())

    @property
    def T(self):  # noqa: N802 (numpy's name)
        return Array(self.tensor.permute(tuple(range(self.tensor.ndim))[::-1]), array_of, self.is_borrowed)

    @property
    def real(self):
        return Array(self.tensor.real, array_of, self.is_borrowed)

    @property
    def imag(self):
        return _FOLLOWED["imag"](self)

    def __len__(self):
        if not self.tensor.ndim:
            raise TypeError("len() of unsized object")
        return self.tensor.shape[0]

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, index):
        part = self.tensor[_given(index)]
        finish = array_of if part.ndim or index is ... else scalar_of
        return Array(part, finish, self.is_borrowed)

    def __setitem__(self, index, value):
        if self.is_borrowed:
            _C._write_to_array()
        self.tensor[_given(index)] = _given(value)

    def reshape(self, *shape, order="C"):
        if order != "C":
            _C._break_for_array("an array in another order")
        return Array(self.tensor.reshape(_spread(shape)), array_of, self.is_borrowed)

    def transpose(self, *axes):
        return self.T if not axes else Array(self.tensor.permute(_spread(axes)), array_of, self.is_borrowed)

    def flatten(self, order="C"):
        if order != "C":
            _C._break_for_array("an array in another order")
        return Array(self.tensor.reshape(-1).clone(), array_of, False)

    def copy(self, order="C"):
        return Array(self.tensor.clone(), array_of, False)

    def astype(self, dtype, copy=True):
        name = _name_of(dtype)
        if name is None:
            _C._break_for_array("a dtype that torch does not have")
        kept = self.tensor.to(getattr(torch, name))
        return Array(kept.clone() if copy and kept is self.tensor else kept, array_of, not copy and self.is_borrowed)

    def nonzero(self):
        return tuple(Array(places, array_of, False) for places in self.tensor.nonzero(as_tuple=True))

    def sort(self, axis=-1, kind=None, order=None):
        if order is not None:
            _C._break_for_array("an array is sorted by fields")
        _written(self, _FOLLOWED["sort"](self, axis=axis))

    def view(self, *kinds, **named):
        if kinds or named:
            _C._break_for_array("an array is viewed as another kind")
        return Array(self.tensor[...], array_of, self.is_borrowed)

    def fill(self, value):
        self[...] = value

    def conj(self):
        return _FOLLOWED["conjugate"](self)

    conjugate = conj

    def __bool__(self):
        return bool(self.tensor)

    def __getattr__(self, name):
        if name in _OF_ARRAYS:
            _C._break_for_array(f"`.{name}` of an array")
        raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")

    __hash__ = None


_OF_ARRAYS = frozenset(dir(np.ndarray))


def _spread(numbers):
    return tuple(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)) else numbers


def _given(value):
    """Arguments as a node takes them: tensors, numbers, names of dtypes."""
    if isinstance(value, Array):
        return value.tensor
    if isinstance(value, tuple):
        return tuple(_given(one) for one in value)
    if isinstance(value, list):
        return [_given(one) for one in value]
    if isinstance(value, np.number):
        return array_kinds.plain_number(value)
    if isinstance(value, (type, np.dtype)):
        name = _name_of(value)
        if name is None:
            _C._break_for_array("a dtype that torch does not have")
        return name
    return value


def _of_tensors(result):
    """What torch._numpy gives, without its arrays."""
    if isinstance(result, (tuple, list)):
        return tuple(_of_tensors(one) for one in result)
    return result.tensor if isinstance(result, torch._numpy.ndarray) else torch.as_tensor(result)


def _arrays(result, like, finish, is_borrowed):
    if isinstance(result, torch.Tensor):
        return Array(result, array_of if result.ndim else finish, is_borrowed)
    parts = [_arrays(one, like, finish, is_borrowed) for one in result]
    return parts if like is list else tuple(parts)


def _followed(theirs, name, finish, is_view, most, of_numpy):
    """What is captured in place of a function: one node around that of torch._numpy.

    Where numpy itself would give another dtype, or other dimensions, the graph ends.
    """

    def node(*args, **kwargs):
        return _of_tensors(theirs(*args, **kwargs))

    node.__name__ = node.__qualname__ = f"numpy_{name}"
    firesteel.allow_in_graph(node)
    like = list if name in ("split", "array_split", "hsplit", "vsplit", "meshgrid", "broadcast_arrays") else tuple

    def follow(*args, out=None, **kwargs):
        if len(args) > most + 1 or (len(args) > most and out is not None):
            _C._break_for_array("several arrays are given for the result")
        into = _single(args[most] if len(args) > most else out)
        operands = args[:most]  # variables keep what they hold: an array may be known elsewhere
        borrowed = is_view and any(isinstance(one, Array) and one.is_borrowed for one in operands)
        wanted = array_kinds.of_result(of_numpy, *array_kinds.of_arguments(of_numpy, operands, kwargs, Array))
        computed, named = array_kinds.as_numpy_computes(name, operands, kwargs, wanted, Array)
        try:
            result = node(*_given(computed), **{key: _given(one) for key, one in named.items()})
        except Exception:
            _C._break_for_array(f"numpy.{name} is called in a way that torch._numpy does not know")
            raise
        made = _arrays(result, like, finish, borrowed)
        if not array_kinds.fits(made, wanted, scalar_of):
            _C._break_for_array(f"torch._numpy gives something else than numpy.{name}")
        return made if into is None else _written(into, made)

    return follow


_FOLLOWED = {}


def _numpy_of(tensor, *, force=False):
    if (tensor.requires_grad and not force) or tensor.device.type != "cpu":
        _C._break_for_array("a tensor that numpy does not take")
    return Array(tensor.detach(), array_of, True)


def _tensor_in(array):
    if not isinstance(array, Array):
        _C._break_for_array("a container of arrays becomes a tensor")
    return array.tensor


def _tensor_from(array, dtype=None, device=None, requires_grad=False):
    if requires_grad:
        _C._break_for_array("a leaf is made of an array")
    return _tensor_in(array).clone().to(dtype=dtype, device=device)


def _as_tensor(array, dtype=None, device=None):
    return _tensor_in(array).to(dtype=dtype, device=device)


def _shape(array):
    return array.shape if isinstance(array, Array) else _FOLLOWED["array"](array).shape


def _ndim(array):
    return len(_shape(array))


def _size(array, axis=None):
    return math.prod(_shape(array)) if axis is None else _shape(array)[axis]


def _made_of(follow, copies):
    """numpy.array and numpy.asarray, which take tensors as well."""

    def make(*args, dtype=None, **kwargs):
        if not args or not isinstance(args[0], torch.Tensor):
            return follow(*args, **kwargs) if dtype is None else follow(*args, dtype=dtype, **kwargs)
        if len(args) > 1 or kwargs:
            _C._break_for_array("an array is made of a tensor in an unusual way")
        made = _numpy_of(args[0])
        made = made if dtype is None else made.astype(dtype, copy=False)
        return made.copy() if copies else made

    return make


@functools.cache
def _rules():
    """What is followed always, and what only where an array is given."""
    import torch._numpy as ours

    always, with_arrays = {torch.Tensor.numpy: _numpy_of}, {}

    def add(table, where, library, name, finish, is_view):
        if hasattr(where, name) and hasattr(library, name):
            theirs = getattr(where, name)
            most = getattr(theirs, "nin", sys.maxsize)  # what comes behind the operands of a ufunc is its `out`
            followed = _FOLLOWED[name] = _followed(getattr(library, name), name, finish, is_view, most, theirs)
            table.setdefault(theirs, followed)

    for name in array_names.OWN:
        add(with_arrays, np, ours, name, scalar_of, False)
    for name in array_names.VIEWS:
        add(with_arrays, np, ours, name, array_of, True)
    for name in array_names.MAKERS:
        add(always, np, ours, name, array_of, False)
    always[np.array] = _made_of(_FOLLOWED["array"], True)
    always[np.asarray] = _made_of(_FOLLOWED["asarray"], False)
    for part in ("linalg", "fft"):
        for name in getattr(np, part).__all__:
            add(with_arrays, getattr(np, part), getattr(ours, part), name, scalar_of, False)
    with_arrays |= {
        np.shape: _shape, np.ndim: _ndim, np.size: _size, torch.from_numpy: _tensor_in, torch.as_tensor: _as_tensor,
        torch.tensor: _tensor_from,
    }  # fmt: skip
    for name in array_names.METHODS:
        setattr(Array, name, _method(_FOLLOWED[name]))
    for name, function in _UNARY.items():
        setattr(Array, f"__{name}__", _method(_FOLLOWED[function]))
    for name, function in _COMPARED.items():
        setattr(Array, f"__{name}__", _method(_FOLLOWED[function]))
    for name, function in _BINARY.items():
        setattr(Array, f"__{name}__", _method(_FOLLOWED[function]))
        setattr(Array, f"__r{name}__", _reflected(_FOLLOWED[function]))
        setattr(Array, f"__i{name}__", _in_place(_FOLLOWED[function]))
    Array.__hash__ = None
    return always, with_arrays


def _method(follow):
    def method(self, *args, **kwargs):
        return follow(self, *args, **kwargs)

    return method


def _reflected(follow):
    def method(self, other):
        return follow(other, self)

    return method


def _in_place(follow):
    def method(self, other):
        return _written(self, follow(self, other))

    return method


def _single(out):
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


def _written(array, result):
    """The array, with the result in it."""
    if not isinstance(array, Array) or not isinstance(result, Array):
        _C._break_for_array("the result is no single array")
    if result.tensor.dtype is not array.tensor.dtype or result.tensor.shape != array.tensor.shape:
        _C._break_for_array("an array cannot hold the result")
    if array.is_borrowed:
        _C._write_to_array()
    array.tensor.copy_(result.tensor)
    return array


def follow_arrays():
    """Arrays are followed from now on."""
    if not _C._follows_arrays():
        _C._set_array_rules(Array, *_rules())
