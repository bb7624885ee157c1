"""One small program for each kind of problem that a report must show: the line is marked by `# HERE`."""

import inspect
import zlib

import numpy as np
import torch
from torch import nn

import firesteel


def marked_line(function):
    """The line of the function that ends with `# HERE`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if line.rstrip().endswith("# HERE"))


def data_dependent_branch(x):
    y = x * 2
    if y.sum() > 0:  # HERE
        y = y + 1
    return y.sin()


def print_inside(x):
    y = x * 2
    print(end="")  # HERE
    return y.sin()


def item_read(x):
    y = x * 2
    scale = y.max().item()  # HERE
    return y / scale


def numpy_call(x):
    y = x * 2
    z = np.abs(y.detach().numpy())  # HERE
    return y + torch.from_numpy(z)


class Unregistered:
    def __init__(self, x):
        self.x = x


@firesteel.nonstrict_trace
def takes_object(holder):
    return holder.x + 1


def unregistered_class(x):
    y = x * 2
    y = takes_object(Unregistered(y))  # HERE
    return y.sin()


def changing_int(x, n):  # HERE
    return x[:n].sin() * 2


def growing_list(x, seen):  # HERE
    y = x * 2
    for one in seen:
        y = y + one
    return y


@firesteel.disable
def left_alone(x):
    return x + 1


def disabled_function(x):
    y = x * 2
    y = left_alone(y)  # HERE
    return y.sin()


def c_extension_call(x):
    y = x * 2
    factor = zlib.crc32(b"rows") % 7  # HERE
    return y + factor


def closure_of(scale):
    def closure_change(x):  # HERE
        return (x * scale).sin()

    return closure_change


def dtype_change(x):  # HERE
    return (x * 2).sin()


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x).relu()
