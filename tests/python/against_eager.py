"""What the tests of capture share: is a compiled call the same as an eager one, in all that can be seen of it?"""

import collections
import sys
import traceback

import torch

import firesteel

BACKENDS = ["eager", "aot_eager"]


def same(a, b):
    """Equal in type, value, layout and need of a gradient, down to the leaves."""
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.shape == b.shape
            and a.dtype == b.dtype
            and a.stride() == b.stride()
            and a.requires_grad == b.requires_grad
            and bool(torch.all((a == b) | ((a != a) & (b != b))))
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, BaseException):
        return same(a.args, b.args)
    if type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__"):
        return same(vars(a), vars(b))
    return a == b or (a != a and b != b)


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return tensors_in(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


class Tape:
    """Stands in for sys.stdout: what is printed goes into the same list that the program writes its events to."""

    def __init__(self):
        self.events = []

    def write(self, text):
        self.events.append(("printed", text))

    def flush(self):
        pass

    def __enter__(self):
        self.stdout, sys.stdout = sys.stdout, self
        return self

    def __exit__(self, *error):
        sys.stdout = self.stdout


def user_frames(error, file):
    """The lines of a traceback that lie in the program's file."""
    return [(row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__) if row.filename == file]


def outcome(function, code, x):
    """All that one call can be told by: its result or exception, what it printed and noted, and the gradient."""
    x = x.detach().clone().requires_grad_(x.requires_grad)
    with Tape() as tape:
        try:
            result, error = function(x, tape.events), None
        except Exception as raised:
            result, error = None, raised
    if error is not None:
        frames = user_frames(error, code.co_filename)
        names = [name for name, _ in frames]
        result = (type(error), error.args, frames[names.index(code.co_name) :], context_of(error))
    grads = [t for t in tensors_in(result) if t.requires_grad]
    if grads:
        sum(t.sum() for t in grads).backward()
    state = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype(), sys.exc_info()
    return (result, tape.events, state), x.grad


def context_of(error):
    chain = []
    while error is not None:
        chain.append((type(error), error.args, type(error.__cause__), error.__suppress_context__))
        error = error.__context__
    return chain


def check_calls(program, inputs, backend, every=0):
    """Each call of the compiled program is as the eager one; all pieces come from the calls themselves."""
    compiled = firesteel.compile(program, backend=backend, recompile_limit=64)
    firesteel._C._break_every(every)
    try:
        for x in inputs:
            expected, grad = outcome(program, program.__code__, x)
            got, grad_of_pieces = outcome(compiled, program.__code__, x)
            assert same(expected, got), f"eager: {expected}\ncompiled: {got}"
            # Pieces may add the parts of a gradient in another order.
            torch.testing.assert_close(grad_of_pieces, grad, rtol=1e-5, atol=1e-6)
    finally:
        firesteel._C._break_every(0)
    return compiled


def picture(value, seen=None):
    """A value as plain data that can be compared: contents, classes, and which places hold the very same object."""
    seen = {} if seen is None else seen
    if value is None or (
        isinstance(value, (bool, int, float, str, bytes, type)) and type(value).__module__ == "builtins"
    ):
        return value
    if id(value) in seen:
        return "again", seen[id(value)][0]
    seen[id(value)] = len(seen), value
    inner = lambda held: picture(held, seen)  # noqa: E731
    parts = [type(value).__qualname__]
    if isinstance(value, torch.Tensor):
        parts += [value.dtype, tuple(value.shape), value.requires_grad, value.tolist()]
    elif isinstance(value, dict):
        parts += [(inner(key), inner(held)) for key, held in value.items()]
    elif isinstance(value, (list, tuple, collections.deque)):
        parts += [inner(held) for held in value]
        parts.append(getattr(value, "maxlen", None))
    elif isinstance(value, (set, frozenset)):
        parts += sorted(map(repr, value))
    elif isinstance(value, BaseException):
        parts += [inner(value.args)]
    if not isinstance(value, torch.Tensor) and not callable(value):
        parts.append([(name, inner(held)) for name, held in sorted(getattr(value, "__dict__", {}).items())])
        for owner in type(value).__mro__:
            slots = owner.__dict__.get("__slots__", ())
            parts += [(name, inner(getattr(value, name, "empty"))) for name in sorted(slots) if name != "__dict__"]
    return parts
