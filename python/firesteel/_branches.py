"""What a captured torch.cond or torch.while_loop does: a node that calls Python functions, as data decides.

A function that was made inside the captured code lives no longer than the capture. A node keeps its code, and takes
what lies in its closure as arguments: tensors, modules, constants, and containers of these.
"""

import contextlib
import threading
import types

import torch
from torch.utils import _pytree as pytree

_DEEPEST = 8
_NAMES = frozenset({"cond", "while_loop"})
_inside = threading.local()  # `.tracing`: a node runs on this thread, for real or on stand-ins
serves_nested = False  # torch.cond and torch.while_loop come to nested() while a node runs


class _Function:
    """A function apart from its closure, whose values come anew at each call."""

    def __init__(self, function, values, depth=0):
        self.bound = isinstance(function, types.MethodType)
        inner = function.__func__ if self.bound else function
        if not isinstance(inner, types.FunctionType) or depth == _DEEPEST:
            raise _CannotKeepError
        if not serves_nested and _may_choose(inner.__code__):
            raise _CannotKeepError
        self.code, self.globals, self.name = inner.__code__, inner.__globals__, inner.__name__
        self.defaults, self.named_defaults = inner.__defaults__, inner.__kwdefaults__
        if _holds_tensor((self.defaults, self.named_defaults)):
            raise _CannotKeepError
        self.cells = [_slot(cell, values, depth) for cell in inner.__closure__ or ()]
        self.self = _place(function.__self__, values) if self.bound else None

    def made(self, values):
        """The function again, with these values in its closure."""
        cells = tuple(slot.made(values) for slot in self.cells)
        made = types.FunctionType(self.code, self.globals, self.name, self.defaults, cells)
        made.__kwdefaults__ = self.named_defaults
        return types.MethodType(made, values[self.self]) if self.bound else made


def _may_choose(code):
    """True for code that may call torch.cond itself, which PyTorch's own compiler would then take on."""
    return bool(_NAMES & set(code.co_names)) or any(
        _may_choose(part) for part in code.co_consts if isinstance(part, types.CodeType)
    )


@contextlib.contextmanager
def _running(tracing):
    before, _inside.tracing = getattr(_inside, "tracing", None), tracing
    try:
        yield
    finally:
        _inside.tracing = before


def nested(kind, *functions):
    """The node for a torch.cond or a torch.while_loop that is called while another one runs; None where none does."""
    tracing = getattr(_inside, "tracing", None)
    if tracing is None:
        return None
    node = kind(*map(_AsItIs, functions))
    return node.trace if tracing else node


class _AsItIs:
    def __init__(self, function):
        self.function = function

    def made(self, values):
        return self.function


class _Value:
    def __init__(self, place):
        self.place = place

    def made(self, values):
        return types.CellType(values[self.place])


class _Nested:
    def __init__(self, function):
        self.function = function

    def made(self, values):
        return types.CellType(self.function.made(values))


class _Empty:
    def made(self, values):
        return types.CellType()


class _CannotKeepError(Exception):
    """A callable that is no Python function, or that stands in its own closure."""


def _slot(cell, values, depth):
    try:
        held = cell.cell_contents
    except ValueError:
        return _Empty()
    if isinstance(held, (types.FunctionType, types.MethodType)):
        return _Nested(_Function(held, values, depth + 1))
    return _Value(_place(held, values))


def _place(value, values):
    for place, known in enumerate(values):
        if known is value:
            return place
    values.append(value)
    return len(values) - 1


def _holds_tensor(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    return isinstance(value, torch.Tensor) or (isinstance(value, (tuple, list)) and any(map(_holds_tensor, value)))


class Choice:
    """Calls one of two functions."""

    __module__ = __name__
    __name__ = __qualname__ = "cond"

    def __init__(self, taken, other):
        self.taken, self.other = taken, other

    def __call__(self, pred, operands, values):
        if is_traced_by_pytorch(pred):
            return self._as_operator(pred, operands, values)
        with _running(tracing=False):
            return (self.taken if pred else self.other).made(values)(*operands)

    def trace(self, pred, operands, values):
        """What either gives, as far as shapes go; both must give the same."""
        with _running(tracing=True):
            results = [function.made(values)(*operands) for function in (self.taken, self.other)]
        _check_alike("torch.cond: true_fn and false_fn give", *results)
        return results[0]

    def _as_operator(self, pred, operands, values):
        """PyTorch's own operator, for a backend that traces the node: all tensors are its operands."""
        leaves, form = pytree.tree_flatten((operands, values))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def branch(function):
            def call(*tensors):
                given = list(leaves)
                for place, tensor in zip(places, tensors, strict=True):
                    given[place] = tensor
                operands, values = pytree.tree_unflatten(given, form)
                flat, forms["result"] = pytree.tree_flatten(function.made(values)(*operands))
                return tuple(flat)

            return call

        forms = {}
        tensors = tuple(leaves[place] for place in places)
        flat = torch.ops.higher_order.cond(pred, branch(self.taken), branch(self.other), tensors)
        return pytree.tree_unflatten(list(flat), forms["result"])


def is_traced_by_pytorch(tensor):
    """True for what a tracer of PyTorch's own computes with; a capture's stand-ins are plain tensors."""
    if type(tensor) is torch.Tensor or not isinstance(tensor, torch.Tensor):
        return False
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    return isinstance(tensor, (FakeTensor, FunctionalTensor))


class Loop:
    """Calls a function again and again, as long as another says so."""

    __module__ = __name__
    __name__ = __qualname__ = "while_loop"

    def __init__(self, test, body):
        self.test, self.body = test, body

    def __call__(self, carried, values):
        if any(map(is_traced_by_pytorch, pytree.tree_leaves(carried))):
            return self._as_operator(carried, values)
        test, body = self.test.made(values), self.body.made(values)
        carried = tuple(carried)
        with _running(tracing=False):
            while test(*carried):
                carried = _as_tuple(body(*carried))
        # What nothing was done to is given back as a tensor of its own.
        return tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in carried)

    def _as_operator(self, carried, values):
        """As Choice does it: tensors of the closures are further inputs."""
        first, form = pytree.tree_flatten(tuple(carried))
        held, held_form = pytree.tree_flatten(values)
        places = [place for place, leaf in enumerate(held) if isinstance(leaf, torch.Tensor)]

        def step(function):
            def call(*given):
                leaves = list(held)
                for place, tensor in zip(places, given[len(first) :], strict=True):
                    leaves[place] = tensor
                made = function.made(pytree.tree_unflatten(leaves, held_form))
                return made(*pytree.tree_unflatten(list(given[: len(first)]), form))

            return call

        def body(*given):
            return tuple(pytree.tree_leaves(_as_tuple(step(self.body)(*given))))

        further = tuple(held[place] for place in places)
        flat = torch.ops.higher_order.while_loop(step(self.test), body, tuple(first), further)
        return pytree.tree_unflatten(list(flat), form)

    def trace(self, carried, values):
        with _running(tracing=True):
            result = _as_tuple(self.body.made(values)(*carried))
        _check_alike("torch.while_loop: body_fn takes and gives", tuple(carried), result)
        return tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in result)


def _as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _check_alike(what, one, other):
    def described(value):
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), value.dtype, value.device
        if isinstance(value, dict):
            return {key: described(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return [described(item) for item in value]
        return type(value)

    if described(one) != described(other):
        raise RuntimeError(f"{what} tensors of different shapes or types:\n  {described(one)}\n  {described(other)}")


def plan_choice(pred, true_fn, false_fn, operands=()):
    """What torch.cond becomes: a node, and its arguments; None where it cannot be one."""
    values = []
    try:
        node = Choice(_Function(true_fn, values), _Function(false_fn, values))
    except _CannotKeepError:
        return None
    return node, (pred, tuple(operands), tuple(values))


def plan_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    """The same for torch.while_loop."""
    values = []
    try:
        node = Loop(_Function(cond_fn, values), _Function(body_fn, values))
    except _CannotKeepError:
        return None
    return None if additional_inputs else (node, (tuple(carried_inputs), tuple(values)))
