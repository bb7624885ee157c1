"""Loops over the rows of tensors, as capture follows them: `map`, `scan` and `associative_scan`, turn by turn.

How many turns there are is a matter of sizes, so the graph holds them one after the other, with all their gradients.
"""

import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.wrap import wrap
from torch.utils import _pytree as pytree

_MOST = 1000  # turns in one graph


def _turns(trees, dim):
    """What each turn is given; none where the tensors have no such dimension, or not the same size in it."""
    if type(dim) is not int:
        return []
    leaves, form = pytree.tree_flatten(trees)
    sizes = {leaf.shape[dim] for leaf in leaves if isinstance(leaf, torch.Tensor) and -leaf.ndim <= dim < leaf.ndim}
    if len(sizes) != 1 or not all(isinstance(leaf, torch.Tensor) and leaf.ndim for leaf in leaves):
        return []
    (count,) = sizes
    if count > _MOST:
        return []
    return [pytree.tree_unflatten([leaf.select(dim, turn) for leaf in leaves], form) for turn in range(count)]


def _joined(results, dim):
    leaves, forms = zip(*[pytree.tree_flatten(result) for result in results], strict=True)
    columns = [_stacked(column, dim) for column in zip(*leaves, strict=True)]
    return pytree.tree_unflatten(columns, forms[0])


def _stacked(column, dim):
    """Along that dimension, where the results have it; else along the first."""
    if not isinstance(column[0], torch.Tensor):
        return column[0]
    return torch.stack(column, dim if dim <= column[0].ndim else 0)


def _map(f, xs, *args):
    turns = _turns(xs, 0)
    return _joined([f(turn, *args) for turn in turns], 0) if turns else NotImplemented


def _scan(combine_fn, init, xs, *, dim=0, reverse=False):
    turns = _turns(xs, dim)
    if not turns:
        return NotImplemented
    dim %= pytree.tree_leaves(xs)[0].ndim
    carried, results = init, []
    for turn in reversed(turns) if reverse else turns:
        carried, result = combine_fn(carried, turn)
        results.append(result)
    return carried, _joined(results[::-1] if reverse else results, dim)


def _associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    turns = _turns(xs, dim)
    if not turns or combine_mode not in ("pointwise", "generic"):
        return NotImplemented
    dim %= pytree.tree_leaves(xs)[0].ndim
    results = []
    for turn in reversed(turns) if reverse else turns:
        results.append(combine_fn(results[-1], turn) if results else turn)
    return _joined(results[::-1] if reverse else results, dim)


# ---- operators that only mark a function


def _wrap(function, *args, **kwargs):
    return function(*args, **kwargs)


def _hints_wrapper(body, args, kwargs, hints=None):
    return body(*args, **kwargs)


def _strict_mode(body, operands):
    return body(*operands)


FORMS = {
    map_rows: _map,
    scan: _scan,
    associative_scan: _associative_scan,
    wrap: _wrap,
    hints_wrapper: _hints_wrapper,
    strict_mode: _strict_mode,
}
