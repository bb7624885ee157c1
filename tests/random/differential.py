"""Runs a program eagerly and compiled, call by call, and compares all that can be seen of it.

A failure prints `Program(...)`: `check(Program(...))` in a Python started in this folder runs it again.
"""

import contextlib
import dataclasses
import gc
import io
import itertools
import linecache
import random
import traceback
import types
import warnings
from pathlib import Path

import torch

import firesteel

BACKENDS = ("eager", "aot_eager")
PRELUDE = compile(Path(__file__).with_name("prelude.py").read_text(), "prelude.py", "exec")
numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class Call:
    """One call: its arguments, and what happens just before it."""

    seed: int = 0
    shape: tuple = (2, 3)
    items: tuple = (1, 2, 3)
    table: tuple = (("a", 1),)
    value: int = 1
    n: int = 2
    rest: tuple = ()
    flag: bool = False
    options: tuple = ()
    grad: bool = False
    alias: str = ""
    reuse: bool = False  # the objects of the call before, as it left them
    before: str = ""

    def __repr__(self):
        changed = [f for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        return f"Call({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"

    def arguments(self, space):
        torch.manual_seed(self.seed)
        x, y = torch.randn(self.shape), torch.randn(self.shape, requires_grad=self.grad)
        items = list(self.items)
        box = space["Box"](self.value, self.items)
        if self.alias == "y is x":
            y = x
        elif self.alias == "y is a view of x":
            y = x[:1]
        elif self.alias == "box.items is items":
            box.items = items
        return [x, y, items, dict(self.table), box, self.n, *self.rest], {"flag": self.flag, **dict(self.options)}


@dataclasses.dataclass(frozen=True)
class Program:
    source: str
    calls: tuple

    def __repr__(self):
        calls = "".join(f"    {call!r},\n" for call in self.calls)
        return f"Program('''\\\n{self.source}''', (\n{calls}))"

    def _repr_pretty_(self, printer, cycle):
        printer.text(repr(self))


class Seen:
    """Turns values into tuples that compare; an object met twice is named by its first meeting, so aliases show."""

    def __init__(self):
        self.first, self.storages, self.kept = {}, {}, []

    def __call__(self, value):
        if isinstance(value, (torch.dtype, type, types.ModuleType)) or value is None:
            return str(value)
        if isinstance(value, (bool, int, float, str)):
            return type(value).__name__, repr(value)
        if type(value) is tuple:  # their identity is not compared
            return "tuple", tuple(map(self, value))
        if id(value) in self.first:
            return "again", self.first[id(value)]
        self.first[id(value)] = len(self.first)
        self.kept.append(value)  # or its id could be another's later on
        return type(value).__name__, self.inside(value)

    def inside(self, value):
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple)):
            return tuple(map(self, value))
        if isinstance(value, (set, frozenset)):
            return tuple(sorted(map(self, value)))
        if isinstance(value, dict):
            return tuple((self(key), self(item)) for key, item in value.items())
        if isinstance(value, BaseException):
            return self(value.args), *(self(getattr(value, name)) for name in ("__cause__", "__suppress_context__"))
        if isinstance(value, (types.FunctionType, firesteel.CompiledFunction)):
            return value.__name__
        return tuple((name, self(item)) for name, item in getattr(value, "__dict__", {}).items())

    def tensor(self, value):
        storage = value.untyped_storage().data_ptr() if value.numel() else None
        gradient = value.grad if value.is_leaf else None
        return (
            (str(value.dtype), tuple(value.shape), value.stride(), value.storage_offset()),
            (value.requires_grad, value.is_leaf, value._is_view()),
            repr(value.detach().tolist()),
            self.storages.setdefault(storage, len(self.storages)) if storage else None,
            self(gradient) if gradient is not None else None,
        )


class Side:
    """One way to run a program: a set of globals and a function of its own."""

    def __init__(self, program, wrap):
        self.file = f"<program {next(numbers)}>"
        linecache.cache[self.file] = (len(program.source), None, program.source.splitlines(True), self.file)
        self.space = {"__name__": "program"}
        exec(PRELUDE, self.space)
        exec(compile(program.source, self.file, "exec"), self.space)
        self.plain = self.space["program"]
        self.function = wrap(self.plain)
        self.given = None

    def call(self, call):
        """What can be seen of a call: its result or exception, what it printed, and what it changed."""
        exec(call.before, self.space)
        if not (call.reuse and self.given):
            self.given = call.arguments(self.space)
        args, named = self.given
        random.seed(call.seed)
        torch.manual_seed(call.seed)
        printed, result, trace = io.StringIO(), None, None
        with contextlib.redirect_stdout(printed):
            try:
                result = self.function(*args, **named)
            except Exception as error:
                result = error
                trace = [
                    (f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == self.file
                ]
                # What its frames still hold goes now, not when somebody drops the exception.
                traceback.clear_frames(error.__traceback__)
                gc.collect()
            after = self.use(result)
        seen = Seen()
        space = {name: value for name, value in self.space.items() if name.isupper()}
        closed = {
            name: cell.cell_contents
            for name, cell in zip(self.plain.__code__.co_freevars, self.plain.__closure__ or (), strict=True)
        }
        return {
            "result": seen(result),
            "traceback": trace,
            "printed": printed.getvalue(),
            "arguments": seen([args, named]),
            "globals": seen(space),
            "closure": seen(closed),
            "Box": seen({name: value for name, value in vars(self.space["Box"]).items() if isinstance(value, int)}),
            "use of the result": seen(after),
            "random": (hash(random.getstate()), hash(tuple(torch.get_rng_state().tolist())), torch.is_grad_enabled()),
        }

    def use(self, result):
        """Goes on with what came back: calls its functions, drains its generators, sends gradients back."""
        found = []
        for value in result if isinstance(result, tuple) else ():
            try:
                if isinstance(value, (types.GeneratorType, zip)):
                    found.append(list(itertools.islice(value, 8)))
                elif isinstance(value, types.FunctionType):
                    found.append(value(3))
                elif isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf:
                    value.sum().backward(retain_graph=True)
            except Exception as error:
                found.append(error)
        return found


def run(program, wrap):
    """All calls of a program, one way."""
    seen = []
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        side = Side(program, wrap)
        for call in program.calls:
            seen.append(side.call(call))
            if isinstance(side.given[0][2], list):
                del side.given[0][2][12:]
    linecache.cache.pop(side.file, None)
    return seen


def first_difference(one, other):
    """The innermost parts in which two seen values differ."""
    while isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
        if len(pairs) != 1 or not any(isinstance(part, tuple) for part in pairs[0]):
            break
        one, other = pairs[0]
    return one, other


OVERLAP = "refer to a single memory location"


def compare(program, expected, found, name):
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        for key in one:
            a, b = first_difference(one[key], other[key])
            if name == "aot_eager" and OVERLAP in str(one["result"]):
                return  # a functional graph reads before it writes: it has no overlap to refuse
            assert a == b, f"call {number}, {key}:\n  eager: {a}\n  {name}: {b}"


def check(program, backends=BACKENDS):
    """Compares a program's calls, eager against each backend; gives back Firesteel's counters."""
    expected = run(program, lambda function: function)
    counters = []
    for backend in backends:
        firesteel.reset_counters()
        found = run(program, lambda function: firesteel.compile(function, backend=backend))  # noqa: B023
        counters.append(firesteel.counters())
        compare(program, expected, found, backend)
    return counters
