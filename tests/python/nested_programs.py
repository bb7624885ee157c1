"""Programs with graph breaks inside functions that are called: each takes a tensor and a list to note events in."""

import functools

import torch
from torch import nn

CASES = []
COUNTED = {}  # by name: compared with what PyTorch makes of them with nested_graph_breaks


def case(function):
    CASES.append(function)
    return function


def counted(function):
    """Also compared with PyTorch: how many graphs, and how many operators in them."""
    COUNTED[function.__name__] = function
    return case(function)


# ---- one level


def inner(x):
    x = x + 1
    print("inside")
    return x * 2


@counted
def straight(x, log):
    return inner(x * 3) - 4


@counted
def twice(x, log):
    y = inner(x.sin())
    z = inner(y.cos())
    return y + z


@counted
def on_one_line(x, log):
    return inner(x) + inner(x + 1) * 2


@counted
def only_inside(x, log):
    return inner(x)


def nothing_before(x):
    print("first")
    return x + 1


@counted
def begins_inside(x, log):
    return nothing_before(x) * 2


def nothing_after(x):
    x = x + 1
    print("last")
    return x


@counted
def ends_inside(x, log):
    return nothing_after(x * 2)


def two_breaks(x):
    x = x + 1
    print("one")
    x = x * 2
    print("two")
    return x - 3


@counted
def two_inside(x, log):
    y = x.exp().clamp(max=3)
    return two_breaks(y) + y


@counted
def break_of_both(x, log):
    y = inner(x + 5)
    print("outside")
    return y * 3


def gives_nothing(x, log):
    log.append(x.shape[0])
    print("in the middle")
    log.append("done")


@counted
def without_a_result(x, log):
    y = x * 2
    gives_nothing(y, log)
    return y + 1


def with_defaults(x, scale=2, *rest, shift=1.5, **named):
    x = x * scale
    print(len(rest), sorted(named))
    return x + shift + sum(rest) + named.get("more", 0)


@counted
def arguments_of_all_kinds(x, log):
    a = with_defaults(x)
    b = with_defaults(x, 3, 4, 5, shift=2.5, more=7)
    return a + b


@counted
def tuple_of_both(x, log):
    a, b = pair_of(x + 1)
    return a * b


def pair_of(x):
    y = x.sin()
    print("pair")
    return y + 1, y.cos()


@counted
def result_on_the_stack(x, log):
    return x.sin() * inner(x) + x.cos() * inner(x - 1)


@counted
def names_of_arguments(x, log):
    y = x * 2
    return subtract(b=y, a=inner(y))


def subtract(a, b):
    print("subtract")
    return a - b


# ---- deeper


def deeper(x):
    x = x + 1
    x = inner(x)
    return x.relu()


def deepest(x):
    return deeper(x - 1) + 0.5


@counted
def two_levels(x, log):
    return deeper(x * 2) - 1


@counted
def three_levels(x, log):
    y = x.sin()
    return deepest(y) + y


def recursive(x, depth):
    if depth == 0:
        print("bottom")
        return x + 1
    return recursive(x * 2, depth - 1) + depth


@counted
def recursion(x, log):
    return recursive(x, 4)


def breaks_at_all_levels(x, depth):
    x = x + depth
    print("down", depth)
    if depth:
        x = breaks_at_all_levels(x, depth - 1)
    print("up", depth)
    return x * 2


@counted
def up_and_down(x, log):
    return breaks_at_all_levels(x * 2, 2) + 1


def goes_in_again(x):
    y = inner(x + 1)
    return inner(y - 1).tanh()


@counted
def in_again(x, log):
    return goes_in_again(x * 2) + goes_in_again(x)


# ---- loops


def loops(x, log):
    for i in range(3):
        x = x + i
        print("turn", i)
        x = x * 1.5
        log.append(i)
    return x


@case
def loop_inside(x, log):
    return loops(x + 1, log) - 1


@case
def loop_outside(x, log):
    for _ in range(3):
        x = inner(x) * 0.5
    return x + 1


@case
def loop_over_a_list(x, log):
    items = [x, x + 1, x + 2]
    total = 0
    for item in items:
        total = total + inner(item)
        log.append(len(items))
    return total


@case
def in_a_comprehension(x, log):
    return [inner(x + i) for i in range(3)]


def loops_with_else(x, log):
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            print("skips")
            continue
        x = x + n
    else:
        log.append("else")
    return x


@case
def while_inside(x, log):
    return loops_with_else(x * 2, log) * 2


# ---- methods, modules, closures


class Layer(nn.Module):
    def __init__(self, breaks=True):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 0.5))
        self.breaks = breaks

    def forward(self, x):
        x = x * self.weight
        if self.breaks:
            print("forward")
        return x + 1


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer(False), Layer()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


LAYER, STACK = Layer(), Stack()
HOOKED = Layer()
HOOKED.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
HOOKED.register_forward_hook(lambda module, args, output: output * 2)


@counted
def module(x, log):
    return LAYER(x + 1) * 2


@case
def modules_in_a_module(x, log):
    return STACK(x + 1).sum()


@case
def module_with_hooks(x, log):
    return HOOKED(x + 1) * 2


class Thing:
    def __init__(self, scale):
        self.scale = scale

    def method(self, x):
        self.last = x * self.scale
        print("method")
        self.scale += 1
        return self.last + self.scale

    def __call__(self, x):
        return self.method(x) + 1


class Derived(Thing):
    def method(self, x):
        y = super().method(x + 1)
        return y * 2


@case
def method(x, log):
    thing = Thing(2)
    y = thing.method(x * 2) + thing.scale
    log.append(thing.scale)
    return y + thing.last


@case
def derived_method(x, log):
    thing = Derived(3)
    return thing(x) + thing.last


@counted
def closure(x, log):
    y = x * 2

    def add(z):
        nonlocal y
        y = y + z
        print("closure")
        return y * z

    z = add(x + 1)
    return y + z


@case
def made_inside_of_inside(x, log):
    def outer(a):
        b = a + 1

        def inmost(c):
            nonlocal b
            b = b + c
            print("inmost")
            b = b * 2
            return b

        d = inmost(a)
        return b + d

    return outer(x) - 1


@case
def partial(x, log):
    function = functools.partial(with_defaults, shift=3)
    return function(x) + 1


def decorator(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        print("before", function.__name__)
        result = function(*args, **kwargs)
        print("after")
        return result

    return wrapper


@decorator
def decorated(x, *, scale=2):
    x = x * scale
    print("decorated")
    return x + 1


@counted
def through_a_decorator(x, log):
    return decorated(x + 1, scale=3) * 2
