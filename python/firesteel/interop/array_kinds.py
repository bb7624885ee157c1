"""What numpy gives for arrays of some kinds: asked of numpy itself, on small arrays, while a function is captured.

A kind is a tuple: what it is, the dtype's name, the number of dimensions.
"""

import warnings

import numpy as np
import torch

from .. import _C
from . import array_names

DTYPES = {getattr(torch, name): np.dtype(name) for name in array_names.DTYPES}
_ARRAY, _SCALAR = "array", "scalar"
# They make floats of the default dtype, which is torch's to torch._numpy.
_MADE_OF_NOTHING = ("identity", "logspace", "tri")


def of_arguments(function, args, kwargs, kind_of_array):
    """The arguments with kinds in place of arrays; of numbers that a ufunc is given only the types count."""
    is_ufunc = isinstance(function, np.ufunc)

    def kind(value):
        if isinstance(value, kind_of_array):
            return _ARRAY, value.dtype.name, value.ndim
        if isinstance(value, (tuple, list)):
            return type(value)([kind(one) for one in value])
        if is_ufunc and type(value) in (int, float, bool):
            return type(value)(1)
        return value

    return tuple([kind(one) for one in args]), {name: kind(one) for name, one in kwargs.items()}


def of_result(function, args, kwargs):
    """The kind of what numpy gives; None where these arrays are none that it takes."""

    def example(value):
        if isinstance(value, tuple) and len(value) == 3 and value[0] == _ARRAY:
            return np.ones((2,) * value[2], dtype=value[1])
        if isinstance(value, (tuple, list)):
            return type(value)([example(one) for one in value])
        return value

    def kind(value):
        if isinstance(value, np.ndarray):
            return _ARRAY, value.dtype.name, value.ndim
        if isinstance(value, np.generic):
            return _SCALAR, value.dtype.name, 0
        return tuple([kind(one) for one in value]) if isinstance(value, (tuple, list)) else None

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return kind(function(*example(args), **{name: example(one) for name, one in kwargs.items()}))
    except Exception:
        return None  # arrays of two in each direction may not fit where others do


def plain_number(number):
    """Python's number for one of numpy's."""
    return number.item()


for _answer in (of_result, plain_number):
    _C._set_mark(_answer, "Constant")


def as_numpy_computes(name, args, kwargs, wanted, kind_of_array):
    """The arguments in the dtype that numpy computes in: whole numbers become float64 where it gives floats."""
    if name in _MADE_OF_NOTHING and wanted and "dtype" not in kwargs:
        return args, {**kwargs, "dtype": wanted[1]}
    if not wanted or wanted[1] != "float64":
        return args, kwargs
    arrays = [one for one in args if isinstance(one, kind_of_array)]
    if not arrays or any(one.tensor.is_floating_point() or one.tensor.is_complex() for one in arrays):
        return args, kwargs
    return tuple([one.astype("float64") if isinstance(one, kind_of_array) else one for one in args]), kwargs


def fits(made, wanted, scalar):
    """Whether what a graph gives is of that kind."""
    if wanted is None:
        return True
    if isinstance(made, (tuple, list)):
        return len(made) == len(wanted) and all(fits(*pair, scalar) for pair in zip(made, wanted, strict=True))
    if not isinstance(wanted[0], str):
        return False
    is_scalar = made.finish is scalar and made.ndim == 0
    return (_SCALAR if is_scalar else _ARRAY, made.dtype.name, made.ndim) == wanted
