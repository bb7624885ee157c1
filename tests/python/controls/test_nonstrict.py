"""nonstrict_trace: what it wraps, what goes in and comes out, specialisation, and other controls around it."""

import collections
import dataclasses
import enum
import functools

import pytest
import torch
from nonstrict_calls import BACKENDS, Box, assert_captured, check, compiled_whole, traced, untraceable
from torch.utils import _pytree as pytree

import firesteel

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


# ---- what it may be put on


def test_outside_a_region_it_just_calls(backend):
    x = torch.randn(3)
    assert torch.equal(traced(x), untraceable(x))
    assert traced.__name__ == "untraceable"
    assert traced.__doc__ == untraceable.__doc__
    assert traced.__wrapped__ is untraceable
    assert firesteel.nonstrict_trace(traced) is traced


def test_a_function(backend):
    check(lambda x: traced(x) + x.cos(), (torch.randn(3),), (torch.randn(3),), backend=backend)


def test_called_inside_a_region_on_a_function_from_outside(backend):
    def f(x):
        return firesteel.nonstrict_trace(untraceable)(x) + 1

    check(f, (torch.randn(3),), (torch.randn(3),), backend=backend)


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3))

    @firesteel.nonstrict_trace
    def scaled(self, x):
        firesteel.graph_break()
        return x * self.weight

    @firesteel.nonstrict_trace
    @staticmethod
    def fixed(x):
        firesteel.graph_break()
        return x * 2

    @classmethod
    @firesteel.nonstrict_trace
    def named(cls, x):
        firesteel.graph_break()
        return x * len(cls.__name__)

    def forward(self, x):
        firesteel.graph_break()
        return x * self.weight


def test_a_method(backend):
    module = Scale()
    check(lambda x: module.scaled(x), (torch.randn(3),), (torch.randn(3),), backend=backend)


def test_a_static_method(backend):
    check(lambda x: Scale.fixed(x), (torch.randn(3),), (torch.randn(3),), backend=backend)


def test_a_class_method(backend):
    check(lambda x: Scale.named(x), (torch.randn(3),), (torch.randn(3),), backend=backend)


def test_a_module_s_forward_and_a_module(backend):
    module = Scale()
    for opaque in (firesteel.nonstrict_trace(module.forward), firesteel.nonstrict_trace(module)):
        x = torch.randn(3)
        module.zero_grad()
        compiled = compiled_whole(lambda x, opaque=opaque: opaque(x).sum(), backend)
        compiled(x).backward()
        torch.testing.assert_close(module.weight.grad, x)
        assert_captured(1, 1)


def test_a_partial_a_lambda_and_a_builtin(backend):
    half = firesteel.nonstrict_trace(functools.partial(torch.mul, 0.5))
    check(lambda x: half(x), (torch.randn(3),), backend=backend)
    twice = firesteel.nonstrict_trace(lambda x: x * 2)
    check(lambda x: twice(x), (torch.randn(3),), backend=backend)
    sine = firesteel.nonstrict_trace(torch.sin)
    check(lambda x: sine(x), (torch.randn(3),), backend=backend)


def test_called_by_c_code(backend):
    check(lambda x: list(map(traced, [x, x + 1])), (torch.randn(3),), backend=backend)


# ---- what goes in and comes out


class Mode(enum.Enum):
    ADD = 1
    MUL = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Batch:
    data: torch.Tensor
    scale: float
    more: list


pytree.register_dataclass(Batch)


@dataclasses.dataclass(frozen=True)
class Config:
    factor: float
    name: str


firesteel.register_constant(Config)


@firesteel.nonstrict_trace
def use(x, value):
    firesteel.graph_break()
    if isinstance(value, torch.Tensor):
        return x + value
    if isinstance(value, Batch):
        return x + value.data * value.scale + sum(value.more)
    if isinstance(value, Box):
        return x + value.inside * len(value.label)
    if isinstance(value, Config):
        return x * value.factor
    if isinstance(value, Mode):
        return x + value.value
    if isinstance(value, (dict, list, tuple, collections.deque)):
        for item in value.values() if isinstance(value, dict) else value:
            x = x + (item if isinstance(item, torch.Tensor) else use(torch.zeros(3), item))
        return x
    return x + len(str(value))


CONSTANTS = [3, 2.5, True, "text", None, 1 + 2j, b"bytes", Mode.MUL, Level.HIGH, torch.float32, torch.device("cpu")]
CONSTANTS += [torch.Size([2, 3]), slice(1, 4), range(5), {1, 2}, frozenset({3, 4})]


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_constants_go_in(backend, value):
    check(lambda x: use(x, value), (torch.randn(3),), (torch.randn(3),), backend=backend)
    check(lambda x, v: use(x, v), (torch.randn(3), value), (torch.randn(3), value), backend=backend)


def containers():
    t = torch.randn(3)
    yield [t, 1]
    yield (t, [t + 1, "b"])
    yield {"a": t, "b": 2}
    yield collections.OrderedDict(z=t, a=t + 1)
    yield collections.defaultdict(list, a=t)
    yield Pair(t, 2)
    yield Batch(t, 0.5, [t + 1])
    yield Box(t, "abc")
    yield {"deep": [Batch(t, 2.0, []), Box(t, "q")]}
    yield collections.deque([t, 2, t + 1], maxlen=4)


@pytest.mark.parametrize("which", range(10))
def test_containers_go_in_from_outside(backend, which):
    def f(x, value):
        return use(x, value["deep"][0] if which == 8 else value)

    compiled = compiled_whole(f, backend)
    for _ in range(3):
        x, value = torch.randn(3), list(containers())[which]
        torch.testing.assert_close(compiled(x, value), f(x, value))
    counts = firesteel.counters()
    assert counts["captured"] <= 2, counts
    assert counts["hits"] == 3, counts
    assert not counts["fallbacks"], counts


@pytest.mark.parametrize("which", ["list", "dict", "batch", "box", "pair", "deque", "config"])
def test_containers_made_inside_go_in(backend, which):
    def f(x):
        made = {
            "list": lambda: [x + 1, x],
            "dict": lambda: {"a": x + 1},
            "batch": lambda: Batch(x + 1, 0.5, [x]),
            "box": lambda: Box(x * 2, "ab"),
            "pair": lambda: Pair(x + 1, 7),
            "deque": lambda: collections.deque([x + 1]),
            "config": lambda: Config(0.25, "q"),
        }[which]()
        return use(x, made)

    check(f, (torch.randn(3),), (torch.randn(3),), backend=backend)


def test_registered_constants_are_guarded(backend):
    compiled = compiled_whole(lambda x, config: use(x, config), backend)
    x = torch.randn(3)
    for factor, captures in ((2.0, 1), (2.0, 1), (3.0, 2)):
        torch.testing.assert_close(compiled(x, Config(factor, "a")), x * factor)
        assert firesteel.counters()["captured"] == captures


def results():
    yield lambda x: (x + 1, [x * 2, {"k": x.sin()}])
    yield lambda x: (x + 1, 3, "text", None, 2.5)
    yield lambda x: Pair(x + 1, x * 2)
    yield lambda x: Batch(x + 1, 0.5, [x * 2])
    yield lambda x: Box(x + 1, "label")
    yield lambda x: collections.OrderedDict(b=x + 1, a=x)
    yield lambda x: collections.deque([x + 1, x * 2], maxlen=4)
    yield lambda x: {1, 2}
    yield lambda x: range(3)
    yield lambda x: None
    yield lambda x: "only text"
    yield lambda x: torch.max(x, 0)


def parts(value):
    flat, spec = pytree.tree_flatten(value)
    return [type(value), str(spec), *flat]


@pytest.mark.parametrize("which", range(12))
def test_results_come_out(backend, which):
    body = list(results())[which]
    opaque = firesteel.nonstrict_trace(body)
    compiled = compiled_whole(lambda x: (opaque(x), x + 1), backend)
    for _ in range(2):
        x = torch.randn(3)
        got, _ = compiled(x)
        for one, other in zip(parts(got), parts(body(x)), strict=True):
            if isinstance(one, torch.Tensor):
                torch.testing.assert_close(one, other)
            else:
                assert one == other
    assert_captured(1, 2)


def test_operators_carry_the_lines_of_the_function(backend):
    graph = firesteel.explain(lambda x: traced(x), backend=backend)(torch.randn(3)).graphs[0]
    assert "untraceable(%x)" in graph.text
    assert "test_nonstrict.py" in graph.text
    line = untraceable.__code__.co_firstlineno + 4
    if backend != "eager":
        assert "aten.sin(" in graph.aten
        assert f"# nonstrict_calls.py:{line} untraceable" in graph.aten


def test_results_are_used_inside(backend):
    opaque = firesteel.nonstrict_trace(lambda x: {"b": Batch(x + 1, 0.5, [x * 2]), "n": 3})

    def f(x):
        result = opaque(x)
        return result["b"].data * result["b"].scale + result["b"].more[0] * result["n"]

    check(f, (torch.randn(3),), (torch.randn(3),), backend=backend)


# ---- modules are lifted


@pytest.mark.parametrize("how", ["positional", "keyword", "container", "made inside"])
def test_module_arguments_are_lifted(backend, how):
    @firesteel.nonstrict_trace
    def apply(x, holder=None, *, module=None):
        firesteel.graph_break()
        module = module or (holder if isinstance(holder, torch.nn.Module) else holder["m"][0])
        return module(x)

    torch.manual_seed(0)  # the gradient of a bias before a batch norm is rounding, of any size where columns are alike
    layer = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))

    def f(x):
        if how == "positional":
            return apply(x, layer).sin().sum()
        if how == "keyword":
            return apply(x, module=layer).sin().sum()
        if how == "container":
            return apply(x, {"m": [layer]}).sin().sum()
        inside = torch.nn.Tanh()
        return apply(layer(x), inside).sin().sum()

    x = torch.randn(5, 3)
    plain = [p.detach().clone() for p in layer.state_dict().values()]
    f(x).backward()
    wanted = [p.grad.clone() for p in layer.parameters()], [b.clone() for b in layer.buffers()]
    layer.load_state_dict(dict(zip(layer.state_dict(), plain, strict=True)))
    layer.zero_grad()
    compiled = compiled_whole(f, backend)
    compiled(x).backward()
    for one, other in zip([p.grad for p in layer.parameters()], wanted[0], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    for one, other in zip(layer.buffers(), wanted[1], strict=True):
        torch.testing.assert_close(one, other)
    assert_captured(1, 1)


def test_attributes_of_a_module_argument_are_guarded(backend):
    @firesteel.nonstrict_trace
    def apply(module, x):
        return module(x) * module.factor

    module = torch.nn.Linear(3, 3)
    module.factor = 2.0
    compiled = compiled_whole(lambda x: apply(module, x), backend)
    x = torch.randn(2, 3)
    for factor in (2.0, 3.0, 2.0):
        module.factor = factor
        torch.testing.assert_close(compiled(x), module(x) * factor)
    assert_captured(2, 3)


class Settings:
    def __init__(self):
        self.scale, self.sizes = 1.0, [1, 2]


def test_what_a_module_s_attributes_hold_is_guarded(backend):
    @firesteel.nonstrict_trace
    def apply(module, x):
        return module(x) * module[0].settings.scale + sum(module[0].settings.sizes) + module[0].table["a"][0]

    inner = torch.nn.Linear(3, 3)
    inner.settings = Settings()
    inner.table = {"a": [1]}
    module = torch.nn.Sequential(inner)
    compiled = compiled_whole(lambda x: apply(module, x), backend)
    x = torch.randn(2, 3)

    def change(number):
        if number == 1:
            inner.settings.scale = 3.0
        elif number == 2:
            inner.settings.sizes.append(5)
        elif number == 3:
            inner.table["a"][0] = 7

    for number in range(5):
        change(number)
        torch.testing.assert_close(compiled(x), apply(module, x))
    assert_captured(4, 5)


# ---- specialised at the call site


def test_two_call_sites_with_other_primitives(backend):
    @firesteel.nonstrict_trace
    def power(x, n, *, bias=0):
        return x**n + bias

    check(lambda x: power(x, 2) + power(x, 3, bias=1), (torch.randn(3),), (torch.randn(3),), backend=backend)


def test_a_changed_primitive_or_structure_is_seen(backend):
    @firesteel.nonstrict_trace
    def total(xs, factor):
        return sum(xs) * factor

    compiled = compiled_whole(lambda xs, factor: total(xs, factor), backend)
    x = torch.randn(3)
    for xs, factor in (([x], 2), ([x, x], 2), ((x,), 2), ([x], 3), ([x], 2)):
        torch.testing.assert_close(compiled(xs, factor), sum(xs) * factor)
    assert firesteel.counters()["captured"] == 4
    assert not firesteel.counters()["fallbacks"]


def test_recursion(backend):
    @firesteel.nonstrict_trace
    def down(x, n):
        return x if n == 0 else down(x * 2, n - 1)

    check(lambda x: down(x, 3), (torch.randn(3),), backend=backend)


# ---- what is not an input


def test_captured_tensors_are_constants(backend):
    held = torch.randn(3)
    opaque = firesteel.nonstrict_trace(lambda x: x * held)
    compiled = compiled_whole(lambda x: opaque(x), backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x * held)
    held.add_(1)  # the constant is the tensor object
    torch.testing.assert_close(compiled(x), x * held)
    assert_captured(1, 2)


CHANGES = {
    "size": lambda held: held.resize_(2, 3).fill_(1),
    "memory": lambda held: held.set_(torch.randn(3)),
    "data": lambda held: setattr(held, "data", torch.randn(5)),
    "dtype": lambda held: setattr(held, "data", held.double()),
    "stride": lambda held: setattr(held, "data", held.t()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_captured_tensor_that_is_another_one_underneath(backend, change):
    held = torch.randn(4, 4)
    opaque = firesteel.nonstrict_trace(lambda x: (x * held).sin() + 1)
    compiled = compiled_whole(lambda x: opaque(x), backend)
    x = torch.randn(1)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), (x * held).sin() + 1)
        CHANGES[change](held)
    assert_captured(1 if backend == "eager" else 2, 2)


def test_no_gradient_reaches_a_captured_tensor(backend):
    weight = torch.randn(3, requires_grad=True)

    @firesteel.nonstrict_trace
    def opaque(x):
        return x * weight

    firesteel.reset()  # the warning comes once
    compiled = compiled_whole(lambda x: opaque(x).sum(), backend)
    x = torch.randn(3, requires_grad=True)
    if backend == "eager":
        compiled(x).backward()
        torch.testing.assert_close(weight.grad, x.detach())
        return
    with pytest.warns(UserWarning, match="reads the tensor `weight` that requires a gradient"):
        compiled(x).backward()
    assert weight.grad is None
    torch.testing.assert_close(x.grad, weight.detach())
    assert_captured(1, 1)


def test_the_function_runs_as_often_as_the_backend_says(backend):
    calls = []

    @firesteel.nonstrict_trace
    def opaque(x):
        calls.append(1)
        return x + 1

    compiled = compiled_whole(lambda x: opaque(x), backend)
    compiled(torch.randn(3))
    first = len(calls)
    for _ in range(3):
        compiled(torch.randn(3))
    assert len(calls) - first == (3 if backend == "eager" else 0)


# ---- inside and outside of other controls


def test_compiled_inside_nonstrict(backend):
    inner = firesteel.compile(lambda x: x.sin() + 1, backend=backend)
    opaque = firesteel.nonstrict_trace(lambda x: inner(x) * 2)
    x = torch.randn(3)
    torch.testing.assert_close(compiled_whole(lambda x: opaque(x), backend)(x), (x.sin() + 1) * 2)
    # On `eager` the opaque function runs as it is, and what it calls is compiled by itself.
    assert_captured(*((2, 2) if backend == "eager" else (1, 1)))


def test_disable_inside_nonstrict(backend):
    aside = firesteel.disable(lambda x: x.sin())
    opaque = firesteel.nonstrict_trace(lambda x: aside(x) * 2)
    check(lambda x: opaque(x), (torch.randn(3),), backend=backend)


def test_nonstrict_inside_disabled_inside_compiled(backend):
    aside = firesteel.disable(lambda x: traced(x) + 1)

    def f(x):
        return aside(x.cos()) * 2

    firesteel.reset_counters()
    compiled = firesteel.compile(f, backend=backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), f(x))
    torch.testing.assert_close(compiled(x), f(x))
    assert firesteel.counters()["breaks"] == {"FS-DISABLED": 2}
    assert not firesteel.counters()["fallbacks"]
