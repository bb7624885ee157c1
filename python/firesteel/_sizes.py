"""What a program says about the sizes of its tensors before it hands them to compiled code.

The marks lie on the tensor under the names that PyTorch uses: marks set through `torch._dynamo` count as well.
"""

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class _DimRange:
    dim: int
    min: int | None
    max: int | None


def mark_dynamic(t, index, *, min=None, max=None):
    """Says that the size of `t` in dimension `index` (or each of several) changes from call to call.

    The first graph for it leaves that size open, from `min` to `max` where these are given. A compiled function that
    allows one size alone raises ControlError, which names the line. Sizes 0 and 1 have graphs of their own.
    """
    for bound, name in ((min, "min"), (max, "max")):
        if not (bound is None or (isinstance(bound, int) and not isinstance(bound, bool) and bound >= 0)):
            raise ValueError(f"mark_dynamic({name}=...) is a size or None, not {bound!r}")
    if min is not None and max is not None and min > max:
        raise ValueError(f"mark_dynamic(min={min}, max={max}) leaves no size")
    for dim in _dims("mark_dynamic", t, index):
        _marks(t, "_dynamo_static_indices").discard(dim)
        _marks(t, "_dynamo_dynamic_indices").add(dim)
        ranges = _marks(t, "_dynamo_dynamic_range")
        ranges.difference_update([known for known in ranges if known.dim == dim])
        ranges.add(_DimRange(dim, min, max))


def maybe_mark_dynamic(t, index):
    """As mark_dynamic(), where a graph for each size is no error."""
    for dim in _dims("maybe_mark_dynamic", t, index):
        _marks(t, "_dynamo_weak_dynamic_indices").add(dim)


def mark_static(t, index=None):
    """Says that each size of `t` in dimension `index` (None: in all) is to have a graph of its own."""
    dims = range(t.dim()) if index is None and isinstance(t, torch.Tensor) else index
    for dim in _dims("mark_static", t, dims):
        _marks(t, "_dynamo_static_indices").add(dim)


def _marks(t, name):
    if not hasattr(t, name):
        setattr(t, name, set())
    t._has_dynamo_dim_marking = True
    return getattr(t, name)


def _dims(function, t, index):
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"{function}() needs a tensor, not {t!r}")
    dims = list(index) if isinstance(index, (list, tuple, range)) else [index]
    for dim in dims:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise TypeError(f"{function}() needs the number of a dimension, or a list of them, not {dim!r}")
        if not -t.dim() <= dim < t.dim():
            raise IndexError(f"{function}(): there is no dimension {dim} in a tensor of {t.dim()} dimensions")
    return [dim % t.dim() for dim in dims]
