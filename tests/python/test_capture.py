"""firesteel.compile against eager execution: results, gradients, exceptions, and what the counters say was captured."""

import bisect
import traceback

import pytest
import torch
import torch.nn.functional as F
from against_eager import BACKENDS, same
from torch import nn

import firesteel

SCALE = 3


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()
    torch.manual_seed(0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def inputs():
    return torch.randn(3, 8), torch.randn(3, 8, requires_grad=True)


def captured_like_eager(function, backend, make=inputs, calls=3):
    """Every call on fresh values equals eager's; the first one was captured, the rest were served."""
    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for _ in range(calls):
        args = make()
        assert same(function(*args), compiled(*args))
    assert firesteel.counters() == {"captured": 1, "hits": calls, "misses": 1, "breaks": {}, "fallbacks": {}}
    return compiled


# ---- programs that are captured whole


def arithmetic(x, y):
    return (x * 2 + y - x / 3) ** 2 % 3, -x, ~(x > 0), x @ y.T, 1 - x, x.sin().cos()


def loops(x, y):
    for i in range(3):
        x = x + i * SCALE
    for a, b in zip([x, y], (y, x), strict=False):
        y = y + a * b
    for i, row in enumerate(x):
        y = y + row * i
    n = 0
    while n < 3:
        y, n = y * n, n + 1
    return x, y


def containers(x, y):
    table = {"a": x, "b": [y, x * 2]}
    table["c"] = (x + 1, {"d": y})
    made = [t * i for i, t in enumerate([x, y, x])]
    made.append(x)
    made.extend([y])
    by_name = {str(i): t for i, t in enumerate(made)}
    first, *rest = made
    return table, first, len(rest), by_name["1"], made[-1], made[1:3], torch.cat(made, dim=0), torch.stack([x, y])


def branches(x, y):
    if x.shape[0] > 2 and x.dtype == torch.float32:
        x = x.T
    elif x is None:
        return 1
    return x if not y.requires_grad else y * 2, "mean" in ("sum", "mean"), SCALE is not None


def several_results(x, y):
    values, indices = x.max(dim=1)
    a, b, c = y.split(1)
    return values, indices, x.min(dim=0).values, a + b, c, x.unbind(0)[0], x.shape, x.size(0), x.dim()


def in_place(x, y):
    z = x.clone()
    z += 1
    z[0] = 5
    z.mul_(2)
    z[:, 1:3] *= 2
    return z, z.sum() + y


def inner(x, *rest, scale=2, **named):
    for other in rest:
        x = x + other * scale
    for value in named.values():
        x = x - value
    return x


def calls(x, y):
    double = lambda t: t * SCALE  # noqa: E731
    return inner(x, y, x, scale=4), inner(x, extra=y), inner(*[x, y], scale=5), double(x), min(3, 4), abs(-2)


def closures(x, y):
    total = [x]

    def add(t):
        total.append(t)
        return total[-1] * SCALE

    return add(y), add(x), len(total)


def torch_functions(x, y):
    return (
        F.layer_norm(x, (8,)),
        F.softmax(y, -1),
        F.gelu(x),
        torch.where(x > 0, x, y),
        torch.zeros(3, 8) + torch.arange(8),
        torch.tensor([1.0, 2.0]).sum(),
        x.view(8, 3),
        x.t().contiguous(),
        torch.ops.aten.add.Tensor(x, y),
        F.linear(input=x, weight=y, bias=None),
    )


def constants(x, y):
    return 3, "a", None, x.shape[0] * 2.5, f"{x.shape[1]:03d}", torch.float32, (1, [2, {"k": 3}])


PROGRAMS = [
    arithmetic, loops, containers, branches, several_results, in_place, calls, closures, torch_functions, constants,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_equal_eager(program, backend):
    captured_like_eager(program, backend)


def test_arguments_come_back_as_themselves(backend):
    compiled = firesteel.compile(lambda x, y: (x, y), backend=backend)
    x, y = inputs()
    assert compiled(x, y)[0] is x
    assert compiled(x, y)[1] is y


def test_an_argument_changed_in_place(backend):
    def add_one(x):
        x.add_(1)
        return x * 2

    compiled = firesteel.compile(add_one, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(4)
        expected = x + 1
        assert torch.equal(compiled(x), expected * 2)
        assert torch.equal(x, expected)
    assert firesteel.counters()["captured"] == 1


def test_every_form_of_compile():
    @firesteel.compile
    def plain(x):
        "what it does"
        return x + 1

    @firesteel.compile(backend="eager", fullgraph=True)
    def with_arguments(x):
        return x + 1

    class Adder:
        amount = 1

        @firesteel.compile
        def add(self, x):
            return x + self.amount

        def method(self, x):
            return x + self.amount

    x = torch.randn(3)
    adder = Adder()
    for function in (
        plain,
        with_arguments,
        adder.add,
        firesteel.compile(adder.method),
        firesteel.compile(lambda x: x + 1),
    ):
        assert torch.equal(function(x), x + 1)
    assert torch.equal(firesteel.compile(torch.sin)(x), x.sin())
    assert firesteel.counters()["captured"] == 6
    assert firesteel.counters()["fallbacks"] == {}
    assert (plain.__name__, plain.__doc__) == ("plain", "what it does")
    with pytest.raises(TypeError, match="needs a function"):
        firesteel.compile(3)
    with pytest.raises(ValueError, match='no backend "nope"; those there are: "eager", "aot_eager"'):
        firesteel.compile(plain.__wrapped__, backend="nope")


class Number(int):
    """Equal to everything, so that a guard which asks it would be fooled."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class Base(nn.Module):
    def forward(self, x):
        return x * 2


class Derived(Base):
    def forward(self, x):
        return super().forward(x) + 1


def test_super(backend):
    captured_like_eager(Derived(), backend, lambda: (torch.randn(3),))


# Values that have no guard of their own: they must not be kept as constants.
UNGUARDED = [
    lambda x, n: x + n,
    lambda x, n: (x, n),
    lambda x, n: x[n:],
    lambda x, n: x + [n][0],
]


@pytest.mark.parametrize("function", UNGUARDED)
def test_values_without_a_guard(function, backend):
    compiled = firesteel.compile(function, backend=backend)
    for number in (Number(1), Number(2), 0, 1):
        x = torch.randn(4)
        assert same(compiled(x, number), function(x, number))


def test_what_comes_from_outside_comes_back_as_itself(backend):
    compiled = firesteel.compile(lambda items, thing: [items, thing, thing], backend=backend, fullgraph=True)
    for _ in range(3):
        items, thing = [torch.randn(2)], Counter()
        result = compiled(items, thing)
        assert result[0] is items
        assert result[1] is thing
        assert result[2] is thing
    assert firesteel.counters()["captured"] == 1


# ---- what a compiled call changes, makes and uses; and what it cannot


class Counter:
    def __init__(self):
        self.calls = 0


COUNTER = Counter()
LOG = []


def counting(x):
    COUNTER.calls += 1
    return x + 1


def logging(x):
    LOG.append(1)
    return x + 1


def making_an_object(x):
    return Counter().calls + x


def using_a_generator(x):
    return sum(i for i in (1, 2)) + x


def with_statement(x):
    with torch.no_grad():
        return x + 1


def returning_an_object(x):
    return COUNTER, x


def catching(x):
    try:
        return x + {}["missing"]
    except KeyError:
        return x + 2


def calling_back(x):
    return list(map(lambda n: x * n, sorted([3, 1, 2], key=lambda n: -n)))  # noqa: C417


CAPTURED = [
    logging, making_an_object, using_a_generator, with_statement, returning_an_object, catching, calling_back,
]  # fmt: skip


def equal_with_side_effects(program, compiled, x):
    COUNTER.calls = 0
    LOG.clear()
    expected = program(x)
    state = COUNTER.calls, len(LOG)
    assert same(expected, compiled(x))
    assert (COUNTER.calls, len(LOG)) == (2 * state[0], 2 * state[1])


@pytest.mark.parametrize("program", CAPTURED, ids=lambda f: f.__name__)
def test_side_effects_and_objects_are_captured(program, backend):
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        equal_with_side_effects(program, compiled, torch.randn(4))
    assert firesteel.counters() == {"captured": 1, "hits": 3, "misses": 1, "breaks": {}, "fallbacks": {}}


def test_a_counter_that_is_read_and_written(backend):
    compiled = firesteel.compile(counting, backend=backend, fullgraph=True)
    for _ in range(3):
        equal_with_side_effects(counting, compiled, torch.randn(4))
    assert firesteel.counters()["fallbacks"] == {}


def through_bisect(x):
    bisect.insort(LOG, 1)
    return x + 1


def branching_on_data(x):
    return x if x.sum() > 0 else -x


def reading_an_item(x):
    return x * x.sum().item()


def printing(x):
    print("called")
    return x + 1


def converting(x):
    return torch.from_numpy(x.numpy()) + 1


BREAKING = [
    (through_bisect, {"FS-C-FUNCTION"}), (branching_on_data, {"FS-DATA-DEPENDENT"}),
    (reading_an_item, {"FS-DATA-DEPENDENT"}), (printing, {"FS-C-FUNCTION"}),
    (converting, {"FS-C-FUNCTION", "FS-DATA-DEPENDENT"}),
]  # fmt: skip


@pytest.mark.parametrize(("program", "reasons"), BREAKING, ids=lambda v: getattr(v, "__name__", ""))
def test_breaking_programs_run_in_pieces(program, reasons, backend, capsys):
    compiled = firesteel.compile(program, backend=backend)
    for call in range(1, 4):
        equal_with_side_effects(program, compiled, torch.randn(4))
        assert firesteel.counters()["breaks"] == dict.fromkeys(reasons, call)
        assert capsys.readouterr().out.count("called") in (0, 2)
    assert firesteel.counters()["captured"] > 0
    assert firesteel.counters()["fallbacks"] == {}


# One that a whole graph can hold: tests/python/sizes/test_data_numbers.py.
REFUSED = [row for row in BREAKING if row[0] is not reading_an_item]


@pytest.mark.parametrize(("program", "reasons"), REFUSED, ids=lambda v: getattr(v, "__name__", ""))
def test_fullgraph_refuses_before_anything_has_run(program, reasons, backend, capsys):
    LOG.clear()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        with pytest.raises(firesteel.GraphBreakError, match="|".join(reasons)) as caught:
            compiled(torch.randn(4))
        text = str(caught.value)
        assert text.startswith("this call cannot be captured, and fullgraph=True allows no graph break\n")
        assert "test_capture.py:" in text
        assert "\n  try: " in text
    assert not LOG
    assert capsys.readouterr().out == ""


def test_the_error_shows_the_line_and_the_calls_around_it():
    def deep(x):
        return x.numpy()

    def outer(x):
        return deep(x)

    with pytest.raises(firesteel.GraphBreakError) as caught:
        firesteel.compile(outer, fullgraph=True)(torch.randn(2))
    text = str(caught.value)
    assert "return x.numpy()" in text
    assert "^^^^^^^^^" in text
    assert "inside: outer (test_capture.py:" in text
    assert "[FS-DATA-DEPENDENT]" in text


def test_exceptions_are_those_of_eager(backend):
    def mismatched(x):
        return inner(x @ x)

    def raising(x):
        y = x + 1
        if y.dim() == 2:
            raise KeyError("two")
        return y

    for function, error in ((mismatched, RuntimeError), (raising, KeyError)):
        compiled = firesteel.compile(function, backend=backend)
        for _ in range(2):
            with pytest.raises(error) as expected:
                function(torch.randn(2, 3))
            with pytest.raises(error) as caught:
                compiled(torch.randn(2, 3))
            assert str(caught.value) == str(expected.value)
            frames = [frame.name for frame in traceback.extract_tb(caught.tb)]
            assert frames[-len(list(traceback.extract_tb(expected.tb))) + 1 :][0] == function.__name__
    assert firesteel.counters()["breaks"] == {"FS-EXCEPTION": 4}
    assert firesteel.counters()["fallbacks"] == {}


class Described:
    """Class methods around other descriptors."""

    @classmethod
    @classmethod
    def twice(cls, x):
        return x * 2, cls.__name__

    @classmethod
    @staticmethod
    def bare(x):
        return x * 3

    @classmethod
    @property
    def scale(cls):
        return 4 if cls is Described else 5


class Inheriting(Described):
    @classmethod
    def twice(cls, x):
        return super().twice(x + 1)


@pytest.mark.parametrize("kind", [Described, Inheriting])
def test_class_methods_around_descriptors(kind):
    def function(x, item):
        return item.twice(x), item.bare(x), x * item.scale, type(item).twice(x), type(item).scale

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert str(compiled(x, kind())) == str(function(x, kind()))


def test_a_tuple_of_a_tuple_is_itself():
    def function(x, pair, fixed):
        own = (x + 1, 2)
        same = tuple(pair) is pair, tuple(own) is own, frozenset(fixed) is fixed, tuple(item for item in pair) is pair
        return own, tuple(pair), same

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for pair in ((1, 2), (x, 3), ()):
        given = x, pair, frozenset((1, 2))
        assert str(compiled(*given)) == str(function(*given))
