"""install() and uninstall(): programs written for torch.compile run on Firesteel, unchanged.

A function of PyTorch's that is routed keeps its identity: only its code is exchanged, so it does not matter who
imported it when. Classes are exchanged in their modules. torch._dynamo is routed when a program loads it.
"""

import importlib.machinery
import sys
import types

from .. import _C, _branches

_LATE = "torch._dynamo"
_routes = {}  # key -> our function, for the code that stands in
_stand_ins = set()  # ids of the code that stands in for functions of PyTorch's
_changes = []  # what uninstall() undoes, in order
_installed = False


def install():
    """Routes torch.compile, torch.compiler and the names of torch._dynamo to Firesteel; once."""
    global _installed
    if _installed:
        return
    _installed = True
    from . import exceptions, torch_logs, torch_names

    _C._set_error_provider(exceptions.provide)
    _C._set_exception_form(exceptions.of_program)
    _C._lift_tensors(True)
    _branches.serves_nested = True
    for module, name, ours in torch_names.early_routes():
        _route(sys.modules[module], name, ours)
    torch_logs.follow()
    if _is_loaded(_LATE):
        _route_dynamo()
    else:
        sys.meta_path.insert(0, _finder)


def uninstall():
    """Takes back what install() did. What was compiled meanwhile stays compiled by Firesteel."""
    global _installed
    if not _installed:
        return
    _installed = False
    _C._set_error_provider(None)
    _C._set_exception_form(None)
    _C._lift_tensors(False)
    _branches.serves_nested = False
    _C._set_capture_listener(None)
    _C._set_compile_watcher(None)
    _C._set_array_rules(None)
    _C._follow_inner_breaks(True)
    _C._fix_numbers(False, False)
    _C._capture_data(False, False, False)
    sys.modules[f"{__package__}.torch_logs"].leave()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    while _changes:
        _changes.pop()()


def is_installed():
    return _installed


def original(function):
    """A function of PyTorch's as it was, also while it is routed."""
    return _routes.get(("original", id(function)), function)


def stands_in(code):
    """Whether the code is what a routed function has for its own."""
    return id(code) in _stand_ins


def _is_loaded(name):
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _route_dynamo():
    from . import dynamo_config, dynamo_counters, dynamo_names

    dynamo_config.follow()
    _changes.append(dynamo_config.leave)
    dynamo_counters.follow()
    for module, name, ours in dynamo_names.routes():
        _route(module, name, ours)


def _route(module, name, ours):
    theirs = getattr(module, name, None)
    if theirs is None:
        return
    if isinstance(theirs, types.FunctionType) and not theirs.__code__.co_freevars:
        _exchange_code(theirs, ours)
    else:
        setattr(module, name, ours)
        _changes.append(lambda: setattr(module, name, theirs))


def _exchange_code(theirs, ours):
    key = id(theirs)
    if ("original", key) in _routes:  # the same function under another name
        return
    before = theirs.__code__, theirs.__defaults__, theirs.__kwdefaults__
    clone = types.FunctionType(before[0], theirs.__globals__, theirs.__name__, before[1])
    clone.__kwdefaults__ = before[2]
    _routes["original", key] = clone
    _routes[key] = ours
    theirs.__code__ = _stand_in(theirs, key, getattr(ours, "is_followed_by_pytorch", False))
    _stand_ins.add(id(theirs.__code__))
    theirs.__defaults__ = theirs.__kwdefaults__ = None
    if not getattr(ours, "keeps_rule", False):
        _C._set_mark(theirs, "Substituted", getattr(ours, "inside", ours))

    def undo():
        _C._set_mark(theirs, "None")
        _stand_ins.discard(id(theirs.__code__))
        theirs.__code__, theirs.__defaults__, theirs.__kwdefaults__ = before
        del _routes[key], _routes["original", key]

    _changes.append(undo)


def _stand_in(theirs, key, is_followed):
    """Code for a function of another module that calls ours: it must find its way without that module's globals.

    Where PyTorch's own compiler follows the function, as in torch.export, it must come to the original.
    """
    original = ""
    if is_followed:
        name = f"_{theirs.__name__}_without_firesteel"
        theirs.__globals__[name] = _routes["original", key]
        original = f"    if torch.compiler.is_dynamo_compiling():\n        return {name}(*args, **kwargs)\n"
    source = (
        "def stand_in(*args, **kwargs):\n"
        f"{original}"
        f"    return __import__('sys').modules[{__name__!r}]._routes[{key}](*args, **kwargs)\n"
    )
    space = {}
    exec(compile(source, __file__, "exec"), space)
    # PyTorch's compiler, where it is at work itself, knows its own functions by the files they stand in.
    before = theirs.__code__
    return space["stand_in"].__code__.replace(
        co_name=theirs.__name__, co_qualname=theirs.__qualname__, co_filename=before.co_filename,
        co_firstlineno=before.co_firstlineno,
    )  # fmt: skip


class _Finder:
    """Waits for torch._dynamo, and routes its names as soon as it has been loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != _LATE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            load = spec.loader.exec_module

            def load_and_route(module):
                load(module)
                if _installed:
                    _route_dynamo()

            spec.loader.exec_module = load_and_route
        return spec


_finder = _Finder()
