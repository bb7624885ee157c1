"""Hooks that compiled code leaves on tensors, where the graph has to do it, or where their handle is used.

A graph leaves one that waits; which function it calls is known when the graph has run, before any backward.
"""

import collections
import threading

from torch.utils.hooks import RemovableHandle

from . import _controls
from ._branches import is_traced_by_pytorch


class _Waiting:
    def __init__(self):
        self.function = None

    def __call__(self, *gradients):
        return None if self.function is None else self.function(*gradients)


class TensorHook:
    """One call of `register_hook` in captured code, and what each thread has left last."""

    def __init__(self, method):
        self.method = method
        self.last = threading.local()
        self.__name__ = self.__qualname__ = method
        self.__module__ = __name__

    def __call__(self, tensor):
        """Leaves one in the graph."""
        self.last.traced = None
        if is_traced_by_pytorch(tensor):
            if self.method != "register_hook":
                raise NotImplementedError(
                    f"a backend traces a graph that leaves a hook on a tensor it computes, by `{self.method}`"
                )
            from .interop import traced_hooks

            self.last.traced = traced_hooks.leave(self, tensor)
            return
        self.last.handle = getattr(tensor, self.method)(self.wait())

    def wait(self):
        """What calls the function that fill() will give."""
        self.last.waiting = _Waiting()
        return self.last.waiting

    def fill(self, function):
        self.last.waiting.function = function

    def leave(self, tensor_and_function):
        """Leaves one when the graph has run."""
        tensor, function = tensor_and_function
        self.last.handle = getattr(tensor, self.method)(function)

    def handle(self):
        return getattr(self.last, "handle", None) or RemovableHandle(collections.OrderedDict())

    def remove(self, tensor):
        (self.last.traced or self.last.handle).remove()


class Handle(RemovableHandle):
    """What captured code gets for a hook."""

    def __init__(self, hook, tensor):
        self.hook, self.tensor = hook, tensor

    def remove(self):
        remove(self.hook, self.tensor)

    def __exit__(self, *error):
        self.remove()

    @property
    def id(self):
        _controls.graph_break("the number of a hook is read")

    hooks_dict_ref = extra_dict_ref = id


def remove(hook, tensor):
    """Takes the hook away: by a call of the graph, or by leaving none (leaf_hooks.cpp)."""
    hook.remove(tensor)


def handle_of(hook):
    """The hook's own handle, once the graph has run."""
    return hook.handle()
