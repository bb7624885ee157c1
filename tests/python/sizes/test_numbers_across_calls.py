"""Floats and truths that follow from sizes, inside nonstrict functions: one graph for all sizes, on both sides."""

import math

import pytest
import torch
from over_sizes import copies, gradients

import firesteel

SIZES = (5, 6, 7, 8, 11, 3, 12, 9, 4, 33)  # on both sides of six
BACKENDS = ["eager", "aot_eager", "firesteel", "function"]


def as_backend(name):
    return (lambda module, examples: module.forward) if name == "function" else name


def same_for_all(function, calls, *, backend, captures, **options):
    """Every call gives eager's results, types and gradients; the whole takes that many captures and no break."""
    compiled = firesteel.compile(function, backend=as_backend(backend), fullgraph=True, **options)
    firesteel.reset_counters()
    for inputs in calls:
        ours = copies(inputs)
        expected, given = function(*inputs), compiled(*ours)
        alike(given, expected)
        for before, after in zip(gradients(expected, inputs), gradients(given, ours), strict=True):
            torch.testing.assert_close(after, before)
    counted = firesteel.counters()
    assert counted["captured"] == captures, counted
    assert counted["breaks"] == {}, counted
    assert counted["fallbacks"] == {}, counted
    assert counted["hits"] == len(calls), counted


def alike(given, expected):
    assert type(given) is type(expected), (given, expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(given, expected)
    elif isinstance(expected, (tuple, list)):
        assert len(given) == len(expected)
        for a, b in zip(given, expected, strict=True):
            alike(a, b)
    elif isinstance(expected, dict):
        assert list(given) == list(expected)
        alike(list(given.values()), list(expected.values()))
    else:
        assert given == expected


def calls_over(sizes, *, grad=False):
    return [[torch.randn(n, 3, requires_grad=grad)] for n in sizes]


# ---- what goes in

SEEN = []


@firesteel.nonstrict_trace
def scaled(x, n, scale, flag):
    SEEN.append((type(n), type(scale), type(flag)))
    return x * scale + n + x * flag


FLOATS = {
    "half": lambda n: n * 0.5,
    "quotient": lambda n: n / 8,
    "float": float,
    "power": lambda n: n**0.5,
    "root": math.sqrt,
    "reciprocal": lambda n: 1.0 / math.sqrt(n),
    "chain": lambda n: (n - 1) * 0.25 + n / 3,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FLOATS)
def test_one_graph_for_a_size_a_float_and_a_truth(name, backend):
    make = FLOATS[name]

    def function(x):
        n = x.shape[0]
        return scaled(x, n, make(n), n > 6)

    SEEN.clear()
    same_for_all(function, calls_over(SIZES), backend=backend, captures=1, dynamic=True)
    assert (torch.SymInt, torch.SymFloat, torch.SymBool) in SEEN


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_training(backend):
    def function(x):
        n = x.shape[0]
        return scaled(x, n, n * 0.5, n > 6)

    same_for_all(function, calls_over(SIZES, grad=True), backend=backend, captures=1, dynamic=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_graphs_in_all_where_nothing_is_said(backend):
    def function(x):
        n = x.shape[0]
        return scaled(x, n, n / 8, n > 6)

    same_for_all(function, calls_over(SIZES), backend=backend, captures=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_graph_for_a_marked_size(backend):
    def function(x):
        n = x.shape[0]
        return scaled(x, n, float(n), n > 6)

    calls = calls_over(SIZES)
    for (x,) in calls:
        firesteel.mark_dynamic(x, 0)
    compiled = firesteel.compile(function, backend=as_backend(backend), fullgraph=True)
    firesteel.reset_counters()
    for (x,) in calls:
        alike(compiled(x), function(x))
    assert firesteel.counters()["captured"] == 1
    assert firesteel.counters()["fallbacks"] == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_floats_among_the_arguments(backend):
    def function(x, scale):
        return scaled(x, x.shape[0], scale * 2, scale > 0.5)

    calls = [[torch.randn(4, 3), scale] for scale in (0.25, 0.75, 0.1, 3.0, -1.5, 0.5, 1e9)]
    same_for_all(function, calls, backend=backend, captures=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_floats_and_sizes_that_both_change(backend):
    def function(x, scale):
        n = x.shape[0]
        return scaled(x, n, scale * n, n * scale > 6)

    calls = [[torch.randn(n, 3), 0.1 * n + 0.3] for n in SIZES]
    same_for_all(function, calls, backend=backend, captures=2)


# ---- what is done with them inside


@firesteel.nonstrict_trace
def chosen(x, n, scale, flag):
    return x * torch.sym_ite(flag, scale, -scale) + torch.sym_ite(flag, n, n * 2)


@firesteel.nonstrict_trace
def computes(x, n, scale, flag):
    more = (scale + 1) * 2 - n / 4 + scale**2 + -scale
    return x * more, x * torch.sym_max(scale, 3.0), x * torch.sym_min(scale, n)


@firesteel.nonstrict_trace
def asks(x, n, scale, flag):
    large = scale > 3.0
    return x * large + x * torch.sym_not(large) * 2, x * (n == 7), x * torch.sym_not(flag)


@firesteel.nonstrict_trace
def gives_back(x, n, scale, flag):
    return x + scale, [scale * 2, {"large": flag, "small": scale < 3.0}], torch.sym_not(flag), n + 1


@firesteel.nonstrict_trace
def in_operators(x, n, scale, flag):
    return (x < scale).float(), x.where(x > scale, x * 2), torch.div(x, scale), (x.long() * scale), x.double() + scale


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [chosen, computes, asks, gives_back, in_operators], ids=lambda f: f.__name__)
def test_one_graph_whatever_is_computed(inside, backend):
    def function(x):
        n = x.shape[0]
        return inside(x, n, n * 0.5, n > 6)

    same_for_all(function, calls_over(SIZES), backend=backend, captures=1, dynamic=True)


@firesteel.nonstrict_trace
def branches(x, flag):
    return x + 1 if flag else x - 1


@firesteel.nonstrict_trace
def converts(x, flag):
    return x * int(flag)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [branches, converts], ids=lambda f: f.__name__)
def test_a_branch_inside_has_a_graph_a_side(inside, backend):
    def function(x):
        return inside(x, x.shape[0] > 6)

    same_for_all(function, calls_over(SIZES), backend=backend, captures=2, dynamic=True)


@firesteel.nonstrict_trace
def looks(x, scale):
    return x * float(scale)


@pytest.mark.parametrize("backend", ["aot_eager", "firesteel"])
def test_a_look_at_a_float_settles_it(backend):
    def function(x):
        return looks(x, x.shape[0] * 0.5)

    same_for_all(function, calls_over((5, 6, 7, 5)), backend=backend, captures=3, dynamic=True)


@firesteel.nonstrict_trace
def divides(x, scale):
    return x * (1.0 / scale)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_errors_are_eagers(backend):
    def function(x, scale):
        return divides(x, scale)

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    x = torch.randn(3)
    for scale in (0.5, 0.25, 2.0, 0.0, 4.0):
        if scale == 0:
            with pytest.raises(ZeroDivisionError):
                compiled(x, scale)
        else:
            alike(compiled(x, scale), function(x, scale))


# ---- truths in captured code


class Block(torch.nn.Module):
    def forward(self, x, flag):
        return branchless(x, flag)


@firesteel.nonstrict_trace
def branchless(x, flag):
    return x + flag


BLOCK = Block()


def through_variables(x):
    n = x.shape[0]
    large = n > 6
    y = branchless(x, large)
    return branchless(y, large) * 2


def handed_on(x, flag, *rest):
    return branchless(x, flag) + branchless(x, rest[0])


def through_functions(x):
    n = x.shape[0]
    return handed_on(x, n > 6, n == 8)


def through_a_module(x):
    return BLOCK(x, x.shape[0] > 6)


def by_name(x):
    return branchless(x, flag=x.shape[0] > 6)


@firesteel.nonstrict_trace
def takes_nest(x, nest):
    return x + nest["flags"][0] + nest["more"]


def in_containers(x):
    n = x.shape[0]
    return takes_nest(x, {"flags": (n > 6, n), "more": n * 0.5})


@firesteel.nonstrict_trace
def asked(x, n):
    return x * 2, n > 6


def given_back(x):
    y, large = asked(x, x.shape[0])
    return y, large, {"again": large}


def given_back_and_on(x):
    y, large = asked(x, x.shape[0])
    return branchless(y, large), x.shape[0] > 8


OPEN = [through_variables, through_functions, through_a_module, by_name, in_containers, given_back, given_back_and_on]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", OPEN, ids=lambda f: f.__name__)
def test_truths_stay_open_in_captured_code(function, backend):
    same_for_all(function, calls_over(SIZES), backend=backend, captures=1, dynamic=True)


def by_a_branch(x):
    large = x.shape[0] > 6
    y = branchless(x, large)
    return y + 1 if large else y - 1


def by_identity(x):
    large = x.shape[0] > 6
    return (x + 1, large) if large is True else (x - 1, large)


def by_type(x):
    large = x.shape[0] > 6
    return x * isinstance(large, bool), type(large) is bool, large


def by_text(x):
    large = x.shape[0] > 6
    return x, f"{large} {large!r}", str(large)


def by_arithmetic(x):
    large = x.shape[0] > 6
    return x + (large + 1), large & True, not large, large == 1, [10, 20][large]


def by_key(x):
    large = x.shape[0] > 6
    return {large: x + 1}, {large} | {True}


class Holder:
    pass


def by_attribute(x):
    holder = Holder()
    holder.large = x.shape[0] > 6
    return x + 1, vars(holder)


def by_closure(x):
    large = x.shape[0] > 6

    def inner():
        return large

    return x + 1, inner(), [flag and 2 for flag in (large, not large)]


def by_list(x):
    flags = [x.shape[0] > 6]
    others = flags
    flags.append(2)
    flags[0] = not flags[0]
    return x, flags, others, others is flags, len(flags)


def by_generator(x):
    def truths():
        yield x.shape[0] > 6
        yield x.shape[0] > 7

    return x, list(truths()), any(truths())


def by_method(x):
    return x, (x.shape[0] > 6).__class__, (x.shape[0] > 6).bit_length()


def by_torch(x):
    large = x.shape[0] > 6
    return torch.where(torch.tensor(large), x, -x), x.sum(dim=0, keepdim=large), torch.full((2,), large)


def by_chain(x):
    return x, 5 < x.shape[0] < 9, x.shape[0] > 6 and x.shape[0] > 7, x.shape[0] > 6 or "no"


LOOKS = [by_a_branch, by_identity, by_type, by_text, by_arithmetic, by_key, by_attribute, by_closure, by_list]
LOOKS += [by_generator, by_method, by_torch, by_chain]


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", LOOKS, ids=lambda f: f.__name__)
def test_who_looks_at_a_truth_sees_a_bool(function, backend, fullgraph):
    compiled = firesteel.compile(function, backend=backend, fullgraph=fullgraph, dynamic=True)
    for (x,) in calls_over(SIZES):
        alike(compiled(x), function(x))


@pytest.mark.parametrize("every", [1, 2, 3, 5])
@pytest.mark.parametrize("function", OPEN + LOOKS, ids=lambda f: f.__name__)
def test_truths_across_breaks(function, every):
    def broken(x):
        large = x.shape[0] > 6
        firesteel.graph_break()
        return function(x), large

    compiled = firesteel.compile(broken, backend="eager", dynamic=True)
    for (x,) in calls_over(SIZES[:every]):
        alike(compiled(x), broken(x))
