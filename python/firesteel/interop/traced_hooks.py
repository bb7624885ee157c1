"""Hooks in graphs that PyTorch traces: operators of the traced graph, which call the hook that each run has left."""

import collections
import itertools
import weakref

import torch
from torch.utils.hooks import RemovableHandle

_library = torch.library.Library("firesteel", "FRAGMENT")
_library.define("leave_hook(Tensor tensor, int hook) -> Tensor")
_library.define("run_hook(Tensor gradient, Tensor left) -> Tensor")

_hooks = weakref.WeakValueDictionary()  # of captured code, by number
_numbers = itertools.count(1)
_left = {}  # what runs have left: lives as long as the memory of the number that their backward saved


class _Handle(RemovableHandle):
    """Of the hook that one run has left."""

    def __init__(self, waiting):
        super().__init__(collections.OrderedDict())
        self.waiting = waiting

    def remove(self):
        self.waiting.removed = True


def _leave_hook(tensor, hook):
    number = next(_numbers)
    left = torch.tensor(number)
    waiting = _hooks[hook].wait()
    waiting.removed = False
    _left[number] = waiting
    weakref.finalize(left.untyped_storage(), _left.pop, number, None)
    _hooks[hook].last.handle = _Handle(waiting)
    return left


def _run_hook(gradient, left):
    waiting = _left[int(left)]
    result = None if waiting.removed else waiting(gradient)
    return gradient.clone() if result is None else result.clone()


_library.impl("leave_hook", _leave_hook, "CompositeExplicitAutograd")
_library.impl("run_hook", _run_hook, "CompositeExplicitAutograd")
_library.impl("leave_hook", lambda tensor, hook: torch.empty((), dtype=torch.int64, device="meta"), "Meta")
_library.impl("run_hook", lambda gradient, left: torch.empty_like(gradient), "Meta")


def leave(hook, tensor):
    """Has the traced graph leave it; gives the handle of the tracer's own hook."""
    number = next((known for known, one in _hooks.items() if one is hook), None)
    if number is None:
        number = next(_numbers)
        _hooks[number] = hook
    left = torch.ops.firesteel.leave_hook(tensor.detach(), number)
    return tensor.register_hook(lambda gradient: torch.ops.firesteel.run_hook(gradient, left))
