"""Prints the graphs that a backend gets for small programs, as JSON: run by PyTorch's compiler and by Firesteel."""

import json
import sys
import types

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.testing import EagerAndRecordGraphs, normalize_gm

x, square = torch.ones(3), torch.ones(3, 4)
table, listed = {"a": torch.ones(3), 1: torch.ones(3)}, [torch.ones(3)]
module = types.ModuleType("module")
module.scale = torch.ones(3)
parameter = nn.Parameter(torch.ones(3))


class Owner:
    def __init__(self):
        self.scale, self.table = torch.ones(3), {"k": torch.ones(3)}


owner, outer = Owner(), Owner()
outer.inner = owner


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.plain, self.listed = nn.Parameter(torch.ones(3)), torch.ones(3), [torch.ones(3)]
        self.register_buffer("kept", torch.ones(3))
        self.inner = nn.ModuleDict({"x": nn.Linear(3, 3)})
        self.more = nn.ParameterList([nn.Parameter(torch.ones(3))])

    def forward(this, data):  # noqa: N805
        data = data + this.weight + this.plain + this.listed[0]
        return data + this.kept + this.inner["x"](data) + this.more[0]

    def weighted(self, data):
        return torch.add(data, self.weight)

    def weighted_later(self, data):
        weight = self.weight
        once = data + 1
        return once * weight


layer = Layer()


def with_closure():
    held, keeper = torch.ones(3), Owner()

    def inner(y):
        return y * held

    def closure(x):
        return held + x + keeper.scale

    def closure_of_inner(x):
        return inner(x) + 1

    return closure, closure_of_inner


def items_of_globals(x):
    return x + table["a"] + table[1] + listed[0]


def attributes_of_globals(x):
    return x * module.scale + owner.scale + owner.table["k"] + outer.inner.scale


def global_late(x):
    late = parameter
    early = x + 1
    return early * late


def attribute_of_an_argument(o, x):
    return torch.mul(x, o.scale)


def containers(d, x):
    return d["a"] + d["b"][0] + d["b"][1][0] + x


def default(x, y=torch.ones(3)):  # noqa: B008
    return x + y


@torch._dynamo.disable
def left_alone(x):
    return x + 1


def stack_over_a_break(x):
    return x.sin() + left_alone(x.cos()) + left_alone(x)


def writes(x):
    made = torch.empty(3)
    torch.add(x, x, out=made)
    copied = x.clone()
    copied.mul_(2)
    copied += made
    x.add_(1)
    x[0] = 2
    return x * copied, made, abs(x), x.data + 1


def block(x):
    with torch.no_grad():
        y = x + 1
    return y * 2


@torch.no_grad()
def decorated(x):
    return x + 1


def calls_decorated(x):
    return decorated(x) * 2


def inferred(x):
    with torch.inference_mode():
        return x + 1


def helper(x):
    return x.sin() + 1


def calls_helper(x):
    a = helper(x)
    b = helper(a)
    return a + b


def sizes(x):
    return x.view(x.shape[0] * x.shape[1]) + x.size(0) - 1


def sizes_and_numbers(x, n):
    return x + n, torch.zeros(x.shape[0], n), x.expand(n, *x.shape)


PROGRAMS = [
    *((f, (x,)) for f in with_closure()),
    *((f, (x,)) for f in (items_of_globals, attributes_of_globals, global_late, default, stack_over_a_break)),
    (attribute_of_an_argument, (owner, x)),
    (containers, ({"a": x, "b": [x + 1, (x + 2,)]}, x)),
    (lambda *args: args[0] + args[1], (x, x + 1)),
    *(
        (f, (x,))
        for f in (layer, layer.weighted, layer.weighted_later, nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3)))
    ),
    *((f, (x,)) for f in (writes, block, calls_decorated, inferred, calls_helper)),
]
OPEN_PROGRAMS = [(sizes, (square,)), (sizes_and_numbers, (square, 5))]


def texts(function, arguments, dynamic):
    torch._dynamo.reset()
    backend = EagerAndRecordGraphs()
    torch.compile(function, backend=backend, dynamic=dynamic)(*arguments)
    return [normalize_gm(graph.print_readable(print_output=False)) for graph in backend.graphs]


found = [(str(f), texts(f, args, None)) for f, args in PROGRAMS]
found += [(f.__name__, texts(f, args, True)) for f, args in OPEN_PROGRAMS]
json.dump([(name.split(" at ")[0], shown) for name, shown in found], sys.stdout)
