"""Whatever code reads of the process around it, of classes, functions and modules, is seen at the next call."""

import builtins
import collections
import contextvars
import decimal
import enum
import functools
import gc
import importlib
import inspect
import logging
import operator
import os
import pathlib
import re
import sys
import threading
import types
import typing
import warnings
import weakref

import numpy as np
import pytest
import torch

import firesteel

X = torch.zeros(2)
VARIABLE = contextvars.ContextVar("variable", default=0)
LOG = logging.getLogger("firesteel_test_surroundings")
PATTERN = re.compile("a")
HELD = [0]


class Thing:
    pass


class Base:
    pass


class Kid(Base):
    pass


class Other:
    pass


class Flags(enum.IntFlag):
    A = 1
    B = 2


def named(a, b=1):
    return a


MODULE = types.ModuleType("firesteel_test_module")
THING = Thing()
USER_DICT = collections.UserDict(a=0)
WEAK = weakref.WeakValueDictionary()
LINEAR = torch.nn.Linear(2, 2)
PARAMETER = torch.nn.Parameter(torch.zeros(2))
ARRAY = np.zeros(3)
NAME = 0


def one_of(value):
    match value:
        case int():
            return 1
        case [_]:
            return 2
        case {"k": _}:
            return 3
        case None:
            return 4


def held(value):
    HELD[0] = value


def put(mapping, key, value, there):
    if there:
        mapping[key] = value
    else:
        mapping.pop(key, None)


def give(cls, name, value, there):
    if there:
        setattr(cls, name, value)
    elif name in vars(cls):
        delattr(cls, name)


# name: what is read, how it is changed for the i-th call
ROWS = {
    "environ": (lambda: os.environ.get("FS_TEST", "-"), lambda i: os.environ.update(FS_TEST=str(i))),
    "getenv": (lambda: os.getenv("FS_TEST", "-"), lambda i: os.environ.update(FS_TEST=str(i))),
    "in environ": (lambda: "FS_TEST" in os.environ, lambda i: put(os.environ, "FS_TEST", "1", i % 2)),
    "recursion limit": (sys.getrecursionlimit, lambda i: sys.setrecursionlimit(3000 + i)),
    "thread": (lambda: threading.current_thread().name, lambda i: setattr(threading.current_thread(), "name", f"n{i}")),
    "folder": (os.getcwd, lambda i: os.chdir("/" if i % 2 else "/tmp")),
    "a file": (lambda: os.path.exists(HELD[0]), lambda i: held("/" if i % 2 else "/no/such/file")),
    "a path": (lambda: pathlib.Path(HELD[0]).exists(), lambda i: held("/" if i % 2 else "/no/such/file")),
    "collector": (gc.isenabled, lambda i: gc.enable() if i % 2 else gc.disable()),
    "context variable": (VARIABLE.get, VARIABLE.set),
    "log level": (lambda: LOG.isEnabledFor(20), lambda i: LOG.setLevel(10 if i % 2 else 40)),
    "root's level": (lambda: logging.getLogger().level, lambda i: logging.getLogger().setLevel(30 + i)),
    "filters": (lambda: len(warnings.filters), lambda i: warnings.filterwarnings("ignore", f"zz{i}")),
    "argv": (lambda: len(sys.argv), lambda i: sys.argv.append("x")),
    "sys.modules": (lambda: "fs_zz" in sys.modules, lambda i: put(sys.modules, "fs_zz", MODULE, i % 2)),
    "a module's variable": (lambda: getattr(MODULE, "v", 0), lambda i: setattr(MODULE, "v", i)),
    "import_module": (lambda: importlib.import_module(MODULE.__name__).v, lambda i: setattr(MODULE, "v", i)),
    "getattr_static": (lambda: inspect.getattr_static(THING, "q", 0), lambda i: setattr(THING, "q", i)),
    "signature": (lambda: str(inspect.signature(named)), lambda i: setattr(named, "__defaults__", (i,))),
    "annotations": (lambda: str(inspect.signature(named)), lambda i: setattr(named, "__annotations__", {"a": [i]})),
    "getdoc": (lambda: inspect.getdoc(named), lambda i: setattr(named, "__doc__", f"d{i}")),
    "getmembers": (lambda: len(inspect.getmembers(THING)), lambda i: setattr(THING, f"m{i}", 1)),
    "type hints": (lambda: str(typing.get_type_hints(Kid)), lambda i: setattr(Kid, "__annotations__", {f"a{i}": int})),
    "subclasses": (lambda: len(Other.__subclasses__()), lambda i: HELD.append(type(f"K{i}", (Other,), {}))),
    "a base's name": (lambda: Kid.__mro__[1].__name__, lambda i: setattr(Base, "__name__", f"B{i}")),
    "a class's name": (lambda: type(THING).__name__, lambda i: setattr(Thing, "__name__", f"T{i}")),
    "a class's qualname": (lambda: Thing.__qualname__, lambda i: setattr(Thing, "__qualname__", f"T{i}")),
    "a class's module": (lambda: Thing.__module__, lambda i: setattr(Thing, "__module__", f"M{i}")),
    "a class's doc": (lambda: Kid.__doc__, lambda i: setattr(Kid, "__doc__", f"d{i}")),
    "bases": (lambda: len(Kid.__bases__), lambda i: setattr(Kid, "__bases__", (Base, Other) if i % 2 else (Base,))),
    "mro": (lambda: len(Kid.__mro__), lambda i: setattr(Kid, "__bases__", (Base, Other) if i % 2 else (Base,))),
    "a subclass": (lambda: issubclass(Kid, Other), lambda i: setattr(Kid, "__bases__", (Base, Other)[: 1 + i % 2])),
    "an instance": (lambda: isinstance(KID, Other), lambda i: setattr(Kid, "__bases__", (Base, Other)[: 1 + i % 2])),
    "callable": (lambda: callable(THING), lambda i: give(Thing, "__call__", named, i % 2)),
    "hasattr": (lambda: hasattr(THING, "late"), lambda i: give(Thing, "late", 1, i % 2)),
    "a function's dict": (lambda: getattr(named, "zz", 0), lambda i: setattr(named, "zz", i)),
    "vars": (lambda: len(vars(THING)), lambda i: setattr(THING, f"w{i}", 1)),
    "Pattern.sub": (lambda: PATTERN.sub(lambda m: str(HELD[0]), "xax"), held),
    "re.match": (lambda: bool(re.match(str(HELD[0]), "1")), held),
    "an enum's member": (lambda: Flags(HELD[0]), lambda i: held(i % 4)),
    "UserDict": (lambda: USER_DICT["a"], lambda i: USER_DICT.update(a=i)),
    "WeakValueDictionary": (lambda: "z" in WEAK, lambda i: put(WEAK, "z", THING, i % 2)),
    "threads": (torch.get_num_threads, lambda i: torch.set_num_threads(1 + i % 2)),
    "seed": (torch.initial_seed, torch.manual_seed),
    "default dtype": (
        lambda: str(torch.tensor(1.0).dtype),
        lambda i: torch.set_default_dtype([torch.float32, torch.float64][i % 2]),
    ),
    "grad mode": (torch.is_grad_enabled, lambda i: torch.set_grad_enabled(bool(i % 2))),
    "precision": (
        torch.get_float32_matmul_precision,
        lambda i: torch.set_float32_matmul_precision(["highest", "high"][i % 2]),
    ),
    "anomalies": (torch.is_anomaly_enabled, lambda i: torch.autograd.set_detect_anomaly(bool(i % 2))),
    "training": (lambda: LINEAR.training, lambda i: LINEAR.train(bool(i % 2))),
    "parameters": (
        lambda: len(list(LINEAR.parameters())),
        lambda i: LINEAR.register_parameter(f"p{i}", torch.nn.Parameter(X)),
    ),
    "a bias": (
        lambda: LINEAR.bias is None,
        lambda i: setattr(LINEAR, "bias", None if i % 2 else torch.nn.Parameter(X)),
    ),
    "state_dict": (lambda: len(LINEAR.state_dict()), lambda i: LINEAR.register_buffer(f"b{i}", torch.zeros(1))),
    "hooks": (lambda: len(LINEAR._forward_hooks), lambda i: LINEAR.register_forward_hook(lambda *a: None)),
    "a gradient": (lambda: PARAMETER.grad is None, lambda i: setattr(PARAMETER, "grad", None if i % 2 else X)),
    "requires_grad": (lambda: PARAMETER.requires_grad, lambda i: PARAMETER.requires_grad_(bool(i % 2))),
    "an array": (lambda: float(ARRAY.sum()), lambda i: ARRAY.fill(i)),
    "decimal": (lambda: decimal.getcontext().prec, lambda i: setattr(decimal.getcontext(), "prec", 20 + i)),
    "a builtin": (lambda: abs(-3), lambda i: setattr(builtins, "abs", (lambda v: i) if i % 2 else operator.abs)),
    "id": (lambda: id(THING) == HELD[0], lambda i: held(id(THING) if i % 2 else 0)),
    "partial": (lambda: HELD[0](), lambda i: held(functools.partial(named, i))),
    "code": (
        lambda: named.__code__.co_argcount,
        lambda i: setattr(named, "__code__", [(lambda a, b: b), (lambda a: a)][i % 2].__code__),
    ),
    "a global": (lambda: NAME, lambda i: globals().update(NAME=i)),
    "a pattern": (lambda: one_of(HELD[0]), lambda i: held([1, [1], {"k": 2}, None][i % 4])),
    "a function of torch": (
        lambda: torch.nn.functional.relu is RELU,
        lambda i: setattr(torch.nn.functional, "relu", RELU if i % 2 else named),
    ),
}
RELU = torch.nn.functional.relu
KID = Kid()


@pytest.fixture(autouse=True)
def put_back(monkeypatch):
    """What the rows change outside of this file."""
    monkeypatch.setitem(sys.modules, MODULE.__name__, MODULE)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(logging.getLogger(), "level", logging.getLogger().level)
    monkeypatch.setattr(threading.current_thread(), "_name", threading.current_thread().name)
    folder, limit, threads = os.getcwd(), sys.getrecursionlimit(), torch.get_num_threads()
    with warnings.catch_warnings(), decimal.localcontext(), torch.random.fork_rng():
        yield
    os.chdir(folder)
    sys.setrecursionlimit(limit)
    torch.set_num_threads(threads)
    gc.enable()
    put(os.environ, "FS_TEST", None, False)
    put(sys.modules, "fs_zz", None, False)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_float32_matmul_precision("highest")
    torch.autograd.set_detect_anomaly(False)
    torch.nn.functional.relu = RELU
    builtins.abs = operator.abs


def outcome(function):
    try:
        return repr(function(X)[1])
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize(("read", "change"), ROWS.values(), ids=ROWS)
def test_what_changes_around_the_code(read, change):
    def asked(x):
        return x + 1, read()

    compiled = firesteel.compile(asked)
    for i in 1, 2, 3, 2, 5:
        change(i)
        assert outcome(compiled) == outcome(asked)
