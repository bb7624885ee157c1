"""The mutation test: whatever a compiled call has read is changed, one thing at a time; the next call must notice."""

import collections
import types

import pytest
import torch
import torch.nn.functional as F
from against_eager import BACKENDS, same
from torch import nn

import firesteel


def replacements(value):
    """Other values that a place could hold. The program may well fail with them: then both ways."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, float(value)]
    if isinstance(value, float):
        return [value * 2 + 1, float("nan")]
    if isinstance(value, str):
        return [value + "x", None]
    if isinstance(value, nn.Parameter):
        return [nn.Parameter(value.detach() * 2 + 1), nn.Parameter(value.detach().double()), None]
    if isinstance(value, torch.Tensor):
        others = [value * 2 + 1, value.double(), value.unsqueeze(0), None]
        return [*others, value.clone().requires_grad_()] if value.is_floating_point() else others
    if isinstance(value, tuple):
        return [value[:-1], list(value), (*value, 1)]
    if isinstance(value, list):
        return [value[:-1], tuple(value), [*value, 1], value[::-1]]
    if isinstance(value, dict):
        return [{}, {**value, "other": 1}, dict(reversed(value.items()))]
    if isinstance(value, types.FunctionType):
        return [lambda *args, **named: value(*args, **named) * 2]
    if isinstance(value, nn.Module):
        return [nn.Identity()]
    if value is None:
        return [1]
    return [None]


def places(value, seen):
    """Everything a value leads to, as (name, old value, setter); a setter without a value deletes."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    children = []
    if isinstance(value, dict):
        for key in list(value):
            children.append((f"[{key!r}]", value[key], lambda new, key=key: value.__setitem__(key, new)))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            children.append((f"[{i}]", item, lambda new, i=i: value.__setitem__(i, new)))
    elif isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or (), strict=True):
            children.append(
                (f" {name}", cell.cell_contents, lambda new, cell=cell: setattr(cell, "cell_contents", new))
            )
        for name in value.__code__.co_names:
            if name in value.__globals__ and value.__globals__[name] not in (torch, F, nn):
                held = value.__globals__
                children.append((f" {name}", held[name], lambda new, name=name, held=held: held.__setitem__(name, new)))
        children.append(
            (".__defaults__", value.__defaults__, lambda new: setattr(value, "__defaults__", new if new else None))
        )
    elif isinstance(value, nn.Module):
        for table in ("_parameters", "_buffers", "_modules"):
            for key, held in list(value.__dict__[table].items()):
                setter = lambda new, key=key, table=table: value.__dict__[table].__setitem__(key, new)  # noqa: E731
                children.append((f".{key}", held, setter))
        for key in [key for key in value.__dict__ if not key.startswith("_")]:
            children.append((f".{key}", value.__dict__[key], lambda new, key=key: value.__dict__.__setitem__(key, new)))
    elif type(value).__module__ == __name__ and hasattr(value, "__dict__"):
        for key in list(vars(value)):
            children.append((f".{key}", vars(value)[key], lambda new, key=key: setattr(value, key, new)))
        kind = type(value)
        for key, held in list(vars(kind).items()):
            if not key.startswith("__"):
                children.append((f".class.{key}", held, lambda new, key=key: setattr(kind, key, new)))
    for name, held, setter in children:
        yield name, held, setter
        for inner, *rest in places(held, seen):
            yield (name + inner, *rest)


def hooks(root):
    """Changes of modules that are no plain values: hooks, forward itself, the train flag of all."""
    modules = list(root.modules()) if isinstance(root, nn.Module) else []
    for module in modules:
        yield "hook", lambda m=module: m.register_forward_hook(lambda m, args, out: out * 2).remove
        yield "pre-hook", lambda m=module: m.register_forward_pre_hook(lambda m, args: (args[0] + 1,)).remove
        yield "forward", lambda m=module: replaced_forward(m)
        yield "train", lambda m=module: (m.train(not m.training), lambda: m.train(not m.training))[1]


def replaced_forward(module):
    old = module.forward
    module.forward = lambda *args, **named: old(*args, **named) * 3
    return lambda: delattr(module, "forward")


def answer(function, args):
    torch.manual_seed(0)
    try:
        return function(*args)
    except Exception as error:
        return type(error)


def check_mutations(function, args, backend):
    compiled = firesteel.compile(function, backend=backend, recompile_limit=10**6)
    wrong = []

    def check(what):
        if not same(answer(function, args), answer(compiled, args)):
            wrong.append(what)

    check("at first")
    check("again")
    changes = 0
    for name, old, setter in list(places([function, *args], {})):
        for new in replacements(old):
            try:
                setter(new)
            except (TypeError, ValueError):
                continue
            try:
                check(f"{name} = {new!r}"[:200])
            finally:
                setter(old)
            changes += 1
        check(f"{name} as before")
    for what, change in hooks(function):
        undo = change()
        try:
            check(what)
        finally:
            undo()
        check(f"without {what}")
        changes += 1
    assert not wrong
    assert changes > 5


SCALE = 2.0
NAMES = ["a", "b"]
TABLE = {"power": 2, "inner": {"shift": torch.ones(3), "flags": [True, False]}}


class Settings:
    depth = 2
    kind = "sum"

    def __init__(self):
        self.rate, self.limits, self.parts = 0.5, (1, 2), [torch.ones(3), 3]

    @property
    def doubled(self):
        return self.rate * 2

    def apply(self, x):
        for _ in range(self.depth):
            x = x * self.doubled + self.limits[0]
        return x.sum(-1, keepdim=True) if self.kind == "sum" else x


def helper(x, by=3, *, add=1):
    return x * by + add


def reads_globals(x):
    y = helper(x) ** TABLE["power"] + TABLE["inner"]["shift"] * len(NAMES)
    return y * SCALE if TABLE["inner"]["flags"][0] else y


def reads_an_object(x, settings):
    return settings.apply(x) * settings.parts[1] + settings.parts[0]


def reads_arguments(x, items, table, flag):
    for item in items:
        x = x + item
    for key, value in table.items():
        x = x * value if key in ("k", "l") else x - value
    return x if flag else -x


def reads_methods(x, items, table):
    first, *rest = items
    return x * first + sum(rest) + table.get("k", 3) * len(table), "z" in table, items.index(first), list(table)


def reads_by_name(x, settings):
    total = x
    for name in ("rate", "depth", "missing"):
        total = total + getattr(settings, name, 7)
    return total * (2 if hasattr(settings, "kind") else 3), isinstance(settings, Settings), vars(settings)["rate"]


def closure():
    scale, inner, items = 3, lambda x: x + 1, [1.5, 2]

    def outer(x):
        return [inner(x * item) * scale for item in items]

    return outer


def generators(x, items):
    return sum(x * item for item in items if item), max(items), sorted(items), any(item > 2 for item in items)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.scale = 2, 0.5
        self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4, bias=False)
        self.register_buffer("mask", torch.zeros(3, 3))

    def forward(self, x):
        q, k, v = self.qkv(x).view(3, self.heads, 6).transpose(0, 1).chunk(3, -1)
        weights = (q @ k.transpose(-1, -2) * self.scale + self.mask).softmax(-1)
        return self.out((weights @ v).transpose(0, 1).reshape(3, -1))


def tiny_models():
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Dropout(0.5))
    norm = nn.Sequential(nn.Conv1d(3, 3, 1), nn.BatchNorm1d(3).eval(), nn.GELU())
    return [(block, [torch.randn(3, 4)]), (norm, [torch.randn(2, 3, 4)]), (Attention(), [torch.randn(3, 4)])]


PROGRAMS = [
    lambda: (reads_globals, [torch.randn(2, 3)]),
    lambda: (reads_an_object, [torch.randn(2, 3), Settings()]),
    lambda: (reads_arguments, [torch.randn(3), [1, 2.5, torch.ones(3)], {"k": 2, "m": torch.ones(3)}, True]),
    lambda: (reads_methods, [torch.randn(3), [1, 2, 3], {"k": 2, "m": 4}]),
    lambda: (reads_by_name, [torch.randn(3), Settings()]),
    lambda: (closure(), [torch.randn(3)]),
    lambda: (generators, [torch.randn(3), [1, 0, 3]]),
    *[lambda i=i: tiny_models()[i] for i in range(3)],
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", range(len(PROGRAMS)))
def test_every_change_is_noticed(make, backend):
    torch.manual_seed(0)
    check_mutations(*PROGRAMS[make](), backend)


@pytest.mark.parametrize("make", range(len(PROGRAMS) - 3))
def test_every_change_is_noticed_with_breaks_anywhere(make):
    torch.manual_seed(0)
    firesteel._C._break_every(7)
    try:
        check_mutations(*PROGRAMS[make](), "eager")
    finally:
        firesteel._C._break_every(0)


def test_the_order_of_dicts_is_noticed():
    def function(x, table):
        for name, value in table.items():
            x = x * value if name == "a" else x + value
        return x, list(table), next(iter(table))

    for kind in (dict, collections.OrderedDict, lambda **held: collections.defaultdict(int, held), collections.Counter):
        table = kind(a=2, b=3)
        compiled = firesteel.compile(function, recompile_limit=64)
        for change in (
            lambda t: None,
            lambda t: t.update(a=t.pop("a")),
            lambda t: t.move_to_end("a", last=False) if hasattr(t, "move_to_end") else None,
            lambda t: t.move_to_end("b", last=False) if hasattr(t, "move_to_end") else None,
            lambda t: t.update(c=4),
            lambda t: t.pop("b"),
        ):
            change(table)
            assert same(function(torch.ones(2), table), compiled(torch.ones(2), table))
