"""torch._dynamo.comptime: functions that a program has called while its code is captured, to look at what is known."""

import dis
import sys
import time
import traceback

import torch


def show(function, variables, open_names, graph, code):
    """Calls the function. None: go on; else what it wants, a word and a text: "break", "static" or "error"."""
    context = ComptimeContext(variables, open_names, graph, code)
    try:
        function(context)
    except _Ended as end:
        return end.args
    except AssertionError as error:
        return "error", str(error)
    return ("static", " ".join(context._settled)) if context._settled else None


class _Ended(BaseException):
    pass


class ComptimeVar:
    """A variable as it is known at that moment; a tensor has no data."""

    def __init__(self, context, name, value, is_open):
        self._context, self._name, self._value, self._is_open = context, name, value, is_open

    def as_proxy(self):
        return self._value

    def is_proxy(self):
        return isinstance(self._value, torch.Tensor) or self._is_open

    as_fake = as_proxy

    def size(self, dim=None):
        return self._value.size() if dim is None else self._value.size(dim)

    def python_type(self):
        return type(self._value)

    def as_python_constant(self):
        self.force_static()
        if isinstance(self._value, torch.Tensor):
            raise NotImplementedError(f"{self!r} is no constant")
        return self._value

    def is_python_constant(self):
        return not self.is_proxy()

    def is_dynamic(self):
        return self._is_open

    def force_static(self):
        if self._is_open:
            self._context._settled.append(self._name)

    def __repr__(self):
        if isinstance(self._value, torch.Tensor):
            return f"a tensor of {self._value.dtype}, {list(self._value.shape)}"
        return f"an open {type(self._value).__name__}" if self._is_open else repr(self._value)


class ComptimeContext:
    """What a function is given: variables, the graph so far, and ways to end it."""

    def __init__(self, variables, open_names, graph, code):
        self._variables, self._open_names, self._graph, self._code = variables, open_names, graph, code
        self._settled = []

    def get_local(self, name, *, stacklevel=0):
        return ComptimeVar(self, name, self._variables[name], name in self._open_names)

    def graph_break(self, msg="ComptimeContext.graph_break"):
        raise _Ended("break", msg)

    def assert_static(self, val):
        if val.is_dynamic():
            raise AssertionError("expected static but got dynamic: a size or a number that is open here")

    def parent(self):
        return self

    def sleep(self, sec):
        time.sleep(sec)

    def print(self, val, *, file=None):
        print(repr(val), file=file)

    def print_graph(self, *, verbose=True, file=None):
        print(self._graph, file=file)

    def print_disas(self, *, file=None, stacklevel=0):
        print(dis.Bytecode(self._code).dis(), file=file)

    def print_value_stack(self, *, file=None, stacklevel=0):
        pass  # variables tell all that is known

    def print_locals(self, *, file=None, stacklevel=0):
        for name in self._variables:
            print(f"{name} = {self.get_local(name)!r}", file=file)

    def print_bt(self, *, file=None, stacklevel=0):
        print("".join(traceback.format_stack(sys._getframe(3))), file=file)

    def print_guards(self, *, file=None):
        pass  # they are made when the piece is done
