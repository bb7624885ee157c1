"""firesteel.compile against eager execution: results, gradients, exceptions, and what the counters say was captured."""

import gc
import operator
import os
import signal
import sys
import threading
import traceback
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager"]
SCALE = 3


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()
    torch.manual_seed(0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and torch.equal(a, b)
            and a.dtype == b.dtype
            and a.stride() == b.stride()
            and a.requires_grad == b.requires_grad
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


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


def test_a_list_from_outside_comes_back_as_itself(backend):
    compiled = firesteel.compile(lambda items: items, backend=backend)
    items = [torch.randn(2)]
    assert compiled(items) is items
    assert compiled(items) is items
    assert firesteel.counters()["fallbacks"] == {"FS-RESULT": 2}


# ---- training


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.rest = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.0))
        self.heads = nn.ModuleList([nn.Linear(16, 4) for _ in range(2)])
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x):
        x = self.norm(F.relu(self.first(x)))
        x = x + self.rest(x)
        return sum_of([head(x) for head in self.heads]) + self.offset


def sum_of(tensors):
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def train(model, step, seed=1):
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        x, target = torch.randn(5, 8), torch.randn(5, 4)
        loss = F.mse_loss(step(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_module_trains_like_eager(backend):
    torch.manual_seed(0)
    model, twin = Block(), Block()
    twin.load_state_dict(model.state_dict())
    compiled = firesteel.compile(twin, backend=backend, fullgraph=True)
    assert train(model, model) == train(twin, compiled)
    assert firesteel.counters() == {"captured": 1, "hits": 20, "misses": 1, "breaks": {}, "fallbacks": {}}
    assert isinstance(compiled, Block)
    assert compiled.state_dict().keys() == model.state_dict().keys()
    assert compiled.eval() is compiled
    assert not twin.training


@firesteel.nonstrict_trace
def traced(x):
    return (x * 2).tanh()


def test_nonstrict_function_in_training(backend):
    def function(x):
        return x.sin() + traced(x)

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(5, requires_grad=True)
        (expected,) = torch.autograd.grad(function(x).sum(), x)
        y = compiled(x)
        y.sum().backward()
        assert torch.equal(y, function(x))
        assert torch.equal(x.grad, expected)
    assert firesteel.counters() == {"captured": 1, "hits": 3, "misses": 1, "breaks": {}, "fallbacks": {}}
    assert "traced(%x)" in firesteel._C._entries(compiled)[0]["graph"]
    x = torch.randn(6)
    assert torch.equal(compiled(x), function(x))
    assert firesteel.counters()["captured"] == 2


def test_nonstrict_arguments(backend):
    @firesteel.nonstrict_trace
    def body(pair, options, module, *, power=2):
        x, y = pair
        # Generators and try: nothing that the interpreter would have to know.
        total = sum(t for t in (x, y))
        try:
            {}["missing"]
        except KeyError:
            total = module(total) * options["scale"]
        return {"total": total**power, "list": [x, 3]}

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x, y, scale):
            return body((x, y), {"scale": scale}, self.inner, power=3)

    model = Holder()
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    for scale in (2.0, 2.0, 4.0):
        x, y = inputs()
        assert same(model(x, y, scale), compiled(x, y, scale))
    assert firesteel.counters()["captured"] == 2
    x, y = inputs()
    model.inner.weight = nn.Parameter(torch.randn(8, 8))
    assert same(model(x, y, 4.0), compiled(x, y, 4.0))
    compiled(x, y, 4.0)["total"].sum().backward()
    assert model.inner.weight.grad is not None


def test_nonstrict_function_that_changes_its_list_runs_eagerly(backend):
    @firesteel.nonstrict_trace
    def grow(items):
        items.append(items[0] * 2)
        return items[0] + 1

    def function(x):
        items = [x]
        return grow(items), len(items)

    compiled = firesteel.compile(function, backend=backend)
    x = torch.randn(3)
    assert same(compiled(x), (x + 1, 2))
    assert firesteel.counters()["fallbacks"] == {"FS-NONSTRICT-MUTATION": 1}


def test_random_operators_follow_the_generator(backend):
    def function(x):
        return F.dropout(x, 0.5) + torch.rand(3, 8)

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for seed in (1, 2):
        x = torch.randn(3, 8)
        torch.manual_seed(seed)
        expected = function(x)
        torch.manual_seed(seed)
        assert torch.equal(compiled(x), expected)


def test_grad_mode_and_inference_mode(backend):
    model = nn.Linear(4, 4)
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(2, 4)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert compiled(x).is_inference()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16
    assert compiled(x).requires_grad
    assert firesteel.counters()["captured"] == 4
    assert firesteel.counters()["fallbacks"] == {}


# ---- what is not captured runs eagerly, with a reason


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


def through_operator(x):
    operator.iadd(LOG, [1])
    return x + 1


def branching_on_data(x):
    return x if x.sum() > 0 else -x


def reading_an_item(x):
    return x * x.sum().item()


def printing(x):
    print("called")
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


def converting(x):
    return torch.from_numpy(x.numpy()) + 1


UNSUPPORTED = [
    (counting, "FS-WRITE"), (logging, "FS-WRITE"), (through_operator, "FS-C-FUNCTION"),
    (branching_on_data, "FS-DATA-DEPENDENT"),
    (reading_an_item, "FS-DATA-DEPENDENT"), (printing, "FS-C-FUNCTION"), (making_an_object, "FS-CREATION"),
    (using_a_generator, "FS-GENERATOR"), (with_statement, "FS-CREATION"), (returning_an_object, "FS-RESULT"),
    (converting, "FS-DATA-DEPENDENT"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "reason"), UNSUPPORTED, ids=lambda v: getattr(v, "__name__", v))
def test_unsupported_programs_run_eagerly(program, reason, backend):
    compiled = firesteel.compile(program, backend=backend)
    for call in range(1, 4):
        COUNTER.calls, x = 0, torch.randn(4)
        LOG.clear()
        expected = program(x)
        state = COUNTER.calls, len(LOG)
        assert same(expected, compiled(x))
        assert (COUNTER.calls, len(LOG)) == (2 * state[0], 2 * state[1])
        assert firesteel.counters()["fallbacks"] == {reason: call}
    assert firesteel.counters()["captured"] == 0


@pytest.mark.parametrize(("program", "reason"), UNSUPPORTED, ids=lambda v: getattr(v, "__name__", v))
def test_fullgraph_refuses_before_anything_has_run(program, reason, backend, capsys):
    COUNTER.calls = 0
    LOG.clear()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        with pytest.raises(firesteel.GraphBreakError, match=reason) as caught:
            compiled(torch.randn(4))
        text = str(caught.value)
        assert text.startswith("this call cannot be captured, and fullgraph=True allows no graph break\n")
        assert "test_capture.py:" in text
        assert "\n  try: " in text
    assert COUNTER.calls == 0
    assert not LOG
    assert capsys.readouterr().out == ""


def test_the_error_shows_the_line_and_the_calls_around_it():
    def deep(x):
        return x.tolist()

    def outer(x):
        return deep(x)

    with pytest.raises(firesteel.GraphBreakError) as caught:
        firesteel.compile(outer, fullgraph=True)(torch.randn(2))
    text = str(caught.value)
    assert "return x.tolist()" in text
    assert "^^^^^^^^^^" in text
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
    assert firesteel.counters()["fallbacks"] == {"FS-EXCEPTION": 4}


def test_an_interrupt_ends_the_call():
    def endless(x):
        while True:
            x = x

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        firesteel.compile(endless)(torch.randn(2))
    assert not firesteel.is_compiling()


def test_generators_and_coroutines(backend):
    @firesteel.compile(backend=backend)
    def count(x):
        yield x
        yield x + 1

    assert len(list(count(torch.ones(2)))) == 2
    assert firesteel.counters()["fallbacks"] == {"FS-GENERATOR": 1}


def test_wrong_arguments(backend):
    compiled = firesteel.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(TypeError, match="positional argument"):
        compiled()
    with pytest.raises(TypeError, match="unexpected keyword"):
        compiled(torch.randn(2), z=1)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2) + 1)
    assert firesteel.counters()["captured"] == 1


def test_recursion_ends_in_eager_execution(backend):
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    compiled = firesteel.compile(down, backend=backend)
    x = torch.zeros(2)
    assert torch.equal(compiled(x, 20), x + 20)
    assert torch.equal(compiled(x, 300), x + 300)
    assert firesteel.counters()["fallbacks"] == {"FS-DEPTH": 1}

    def endless(x):
        return endless(x)

    with pytest.raises(RecursionError):
        firesteel.compile(endless, backend=backend)(x)


def test_tracing_and_profiling_tools(backend):
    seen = []

    def tracer(frame, event, argument):
        seen.append(frame.f_code.co_name)
        return tracer

    def function(x):
        return x + 1

    compiled = firesteel.compile(function, backend=backend)
    sys.settrace(tracer)
    try:
        result = compiled(torch.ones(2))
    finally:
        sys.settrace(None)
    assert torch.equal(result, torch.ones(2) + 1)
    assert "function" in seen
    assert firesteel.counters()["fallbacks"] == {"FS-MONITORED": 1}
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2) + 1)
    assert firesteel.counters()["captured"] == 1


def test_tensor_subclasses_and_modes_run_eagerly(backend):
    class Tagged(torch.Tensor):
        pass

    compiled = firesteel.compile(lambda x: x + 1, backend=backend)
    tagged = torch.ones(2).as_subclass(Tagged)
    assert type(compiled(tagged)) is Tagged
    assert firesteel.counters()["fallbacks"] == {"FS-TENSOR-KIND": 1}

    class Seeing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            ops.append(function)
            return function(*args, **(kwargs or {}))

    ops, x = [], torch.ones(2)
    compiled(x)
    with Seeing():
        compiled(x)
    assert len(ops) == 1
    assert firesteel.counters()["fallbacks"]["FS-MODES"] == 1


def test_compiled_functions_inside_others(backend):
    @firesteel.compile(backend=backend)
    def low(x):
        return x * 2

    @firesteel.compile(backend=backend, fullgraph=True)
    def high(x):
        return low(x) + 1

    x = torch.randn(3)
    assert torch.equal(high(x), x * 2 + 1)
    assert firesteel.counters()["captured"] == 1
    assert str(firesteel.trace(low, x)).count("aten.mul") == 1


def test_threads(backend):
    def function(x, n):
        for _ in range(n):
            x = x * 2 + 1
        return x

    compiled = firesteel.compile(function, backend=backend)
    wrong = []

    def work(n):
        for i in range(50):
            x = torch.randn(n, i % 2 + 1)
            if not torch.equal(compiled(x, n), function(x, n)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert firesteel.counters()["fallbacks"] == {}


def test_nothing_is_kept_alive(backend):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.forward = firesteel.compile(self.forward, backend=backend, fullgraph=True)

        def forward(self, x):
            return self.inner(x)

    model = Model()
    x = torch.randn(2, 3)
    assert torch.equal(model(x), model.inner(x))
    assert firesteel.counters()["captured"] == 1
    before = sys.getrefcount(x)
    for _ in range(10):
        model(x)
    assert sys.getrefcount(x) == before
    gone = weakref.ref(model.inner)
    del model
    gc.collect()
    assert gone() is None
