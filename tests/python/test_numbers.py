"""Numbers from outside: passed on without a guard on their value, and inputs of the graph where they change."""

import functools
import itertools
import math
import operator

import pytest
import torch
from against_eager import BACKENDS, check_calls, same

import firesteel

LIMIT = 8


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def check(program, calls, backend, *, captured):
    """Every call is as eager's, none falls back, and all of them take at most so many captures."""
    compiled = firesteel.compile(program, backend=backend)
    firesteel.reset_counters()
    for args in calls:
        expected, got = program(*args), compiled(*args)
        assert same(expected, got), f"{args}: eager {expected}, compiled {got}"
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert counters["captured"] <= captured, counters
    return compiled


X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_with_a_break_runs_compiled(backend, capsys):
    def program(x):
        for i in range(100):
            x = x * 0.99 + i
            print("between")
            x = x.sin() - i / 7
        return x

    compiled = firesteel.compile(program, backend=backend)
    firesteel.reset_counters()
    assert same(compiled(X), program(X))
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    # The start of the function, then before and after the break, first by value and then as an input.
    assert counters["captured"] <= 7
    assert counters["breaks"]["FS-C-FUNCTION"] == 100
    captured = counters["captured"]
    for _ in range(3):
        assert same(compiled(X + 1), program(X + 1))
    assert firesteel.counters()["captured"] == captured


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_while_loop_with_a_break_runs_compiled(backend, capsys):
    def program(x, n):
        i = 0
        while i < n:
            i += 1
            x = x + x / i
            print(i)
        return x, i

    compiled = firesteel.compile(program, backend=backend)
    for n in (20, 30, 5):
        assert same(compiled(X, n), program(X, n))
    assert firesteel.counters()["fallbacks"] == {}
    assert firesteel.counters()["captured"] <= 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_float_that_changes_at_every_call_is_an_input(backend):
    def program(x, lr):
        return x - lr * x.cos(), lr

    check(program, [(X, 0.1 / (k + 1)) for k in range(20)], backend, captured=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_int_that_changes_at_every_call_is_an_input(backend):
    def program(x, n):
        return x / n + (n - x) * 2, x > n, n + 1

    check(program, [(X, k) for k in range(1, 20)], backend, captured=2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "operation",
    [
        lambda x, n: x + n,
        lambda x, n: n + x,
        lambda x, n: x - n,
        lambda x, n: n - x,
        lambda x, n: x * n,
        lambda x, n: n * x,
        lambda x, n: x / n,
        lambda x, n: n / x,
        lambda x, n: (x < n, n < x, x == n, x != n, x >= n, n <= x),
        lambda x, n: torch.add(x, n),
        lambda x, n: torch.mul(x, n),
        lambda x, n: torch.div(x, n),
        lambda x, n: x.clone().mul_(n),
        lambda x, n: x.sub(n),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32])
def test_operators_promote_as_with_numbers(operation, dtype, backend):
    x = (X * 3).to(dtype)
    for numbers in ([2, 3, 5, -7], [0.3, 1.7, -2.5, 1e10]):
        compiled = firesteel.compile(operation, backend=backend)
        for number in numbers:
            try:
                expected = operation(x, number)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=str(error)[:20].replace("(", ".")):
                    compiled(x, number)
                continue
            assert same(expected, compiled(x, number))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_go_through_numbers(backend):
    def program(x, n):
        return ((x * n).sin() / n - n / x + (n - x)).sum()

    compiled = firesteel.compile(program, backend=backend)
    for n in (0.5, 1.5, 2.5, 3.5):
        mine, theirs = (X.clone().requires_grad_() for _ in range(2))
        compiled(mine, n).backward()
        program(theirs, n).backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert firesteel.counters()["captured"] == 2
    assert firesteel.counters()["fallbacks"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_compiled_kernels_take_numbers(dtype):
    def program(x, n):
        return ((x * n + 0.5) / n - n).abs() + (n - x), x.float() > n

    for numbers in ([0.3, 1.7, -2.5, 7.25], [2, 3, -5, 11]):
        compiled = firesteel.compile(program, backend="firesteel")
        firesteel.reset_counters()
        for n in numbers:
            x = (X * 3).to(dtype)
            for expected, got in zip(program(x, n), compiled(x, n), strict=True):
                assert expected.dtype == got.dtype
                torch.testing.assert_close(expected, got)
        assert firesteel.counters()["captured"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_attribute_that_counts_is_an_input(backend):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            self.step += 1
            return self.fc(x) * (1 - self.step / 100)

    torch.manual_seed(0)
    model, twin = Model(), Model()
    twin.load_state_dict(model.state_dict())
    compiled = firesteel.compile(twin, backend=backend)
    for _ in range(20):
        assert same(model(X), compiled(X))
        assert model.step == twin.step
    counters = firesteel.counters()
    assert counters["captured"] == 2
    assert counters["fallbacks"] == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_of_a_module_are_inputs(backend):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x, scale, shift=1):
            return self.fc(x) * scale + shift

    model = Model()
    compiled = firesteel.compile(model, backend=backend)
    for k in range(12):
        assert same(model(X, k * 0.5, shift=k), compiled(X, k * 0.5, shift=k))
    counters = firesteel.counters()
    assert counters["captured"] == 2
    assert counters["fallbacks"] == {}


def test_the_rest_of_the_arguments_are_inputs(capsys):
    def inner(x, *args, **kwargs):
        print("between")
        first, second = args
        return x * first + second - kwargs["last"]

    def program(x, *args, **kwargs):
        before = x + args[0]
        return inner(before, *args, **kwargs), args, kwargs

    compiled = firesteel.compile(program)
    for k in range(12):
        assert same(program(X, k * 0.5, k, last=k), compiled(X, k * 0.5, k, last=k))
    counters = firesteel.counters()
    assert counters["captured"] <= 8
    assert counters["fallbacks"] == {}


def test_what_only_passes_through_is_not_guarded():
    log, box = [], {}

    def program(x, loss, step):
        log.append(loss)
        box["step"] = step
        kept = [loss, (step, {"deep": loss})]
        return x + 1, kept, step

    check(program, [(X, k / 3, k) for k in range(10)], "eager", captured=1)
    assert log == [k / 3 for k in range(10) for _ in range(2)]
    assert box == {"step": 9}


def test_a_number_given_by_item_may_be_logged():
    log = []

    def program(x):
        y = x * 2
        log.append(y.sum().item())
        return y + 1

    compiled = firesteel.compile(program, backend="aot_eager")  # adds in eager's order
    for k in range(12):
        compiled(X + k)
    counters = firesteel.counters()
    assert counters["captured"] == 2
    assert counters["fallbacks"] == {}
    assert log == [(2 * (X + k)).sum().item() for k in range(12)]


def test_a_running_total_is_an_input(capsys):
    def program(x, total):
        loss = (x * x).sum()
        total = total + loss.item()
        return x / (1 + total), total

    compiled = firesteel.compile(program)
    mine = theirs = 0.0
    for _ in range(12):
        (a, mine), (b, theirs) = compiled(X, mine), program(X, theirs)
        assert same((a, mine), (b, theirs))
    assert firesteel.counters()["fallbacks"] == {}
    assert firesteel.counters()["captured"] <= 4


def test_comparisons_are_guarded_by_their_answer():
    def program(x, n):
        if n % 10 == 0:
            return x * 2
        return x + n if n < 50 else x - n

    compiled = check(program, [(X, n) for n in range(1, 100)], "eager", captured=4)
    texts = [guard for entry in firesteel._C._entries(compiled) for guard in entry["guards"]]
    assert any("Identity ((n % 10) == 0) False" in text for text in texts), texts
    assert any("Identity (n < 50) True" in text for text in texts), texts


def test_functions_of_math_are_computed_again():
    def program(x, step):
        rate = 0.5 * (1 + math.cos(math.pi * min(step, 50) / 50)) if step < 0 else math.sqrt(step) * 0.1
        return x * rate, rate, float(step), abs(-step), int(step)

    check(program, [(X, n) for n in range(1, 20)], "eager", captured=2)


def test_a_division_by_zero_is_eagers():
    def program(x, n):
        try:
            return x * (1 / n)
        except ZeroDivisionError:
            return x

    check(program, [(X, n) for n in (1, 2, 3, 0, 4, 0)], "eager", captured=3)


def test_numbers_too_large_for_a_tensor_run_as_eager():
    def program(x, n):
        return x * n

    compiled = firesteel.compile(program, backend="aot_eager")
    for n in (1, 2, 3):
        assert same(compiled(X, n), program(X, n))
    for function in (program, compiled):
        with pytest.raises(OverflowError):
            function(X, 2**70)


USES = [
    lambda x, n: x[n % 3],
    lambda x, n: x.reshape(-1)[: n + 1],
    lambda x, n: x.sum(n % 2),
    lambda x, n: x**n,
    lambda x, n: x + torch.full((4,), n),
    lambda x, n: x.repeat(n, 1),
    lambda x, n: (x, f"{n:03d}", str(n), repr([n])),
    lambda x, n: (x, {n: 1}, {n, n + 1}, n in (1, 2), n in {3}),
    lambda x, n: (x, [10, 20, 30, 40, 50, 60, 70][n], "abcdefg"[n]),
    lambda x, n: (x, list(range(n)), [0] * n),
    lambda x, n: (x, sorted([n, 3, 1]), max(n, 3), min([n, 2]), sum([n, 1, 2])),
    lambda x, n: (x, n is n, n == n, not n, bool(n), -n, ~n, n << 1, n // 2, divmod(n, 2)),
    lambda x, n: (x, [1, 2, 3, n].index(n), [n, n].count(n), (n, 1) < (2, 2), [n] == [3]),
    lambda x, n: (x, sorted([(n, 1), (2, 0)], key=lambda pair: pair[0])),
    lambda x, n: (x, sorted([{"k": n}, {"k": 2}], key=operator.itemgetter("k"))),
    lambda x, n: (x, functools.reduce(operator.add, [n, 1, 2]), list(itertools.accumulate([n, 1]))),
    lambda x, n: (x, [k for k in (n, 0, 1) if k], any([n - 1, 0]), all([n])),
    lambda x, n: (x, dict(zip([n], "a", strict=True)), dict.fromkeys([n, n])),
    lambda x, n: (x, list(filter(None, [n - 1, n])), list(map(str, [n]))),
    lambda x, n: (x, n.bit_length(), n.real, (n / 2).is_integer(), int(n / 2), round(n / 3, 1)),
    lambda x, n: (x, math.gcd(n, 4), math.floor(n / 2), pow(n, 2), hash(n), n**-1),
    lambda x, n: torch.add(x, x, alpha=n),
    lambda x, n: x.clamp(max=n),
    lambda x, n: torch.stack([x * k for k in range(n)]).sum(0),
    lambda x, n: (lambda a, b=n: a * b)(x),
    lambda x, n: x.masked_fill(x > 0, n),
    lambda x, n: torch.tensor([n, 1]) + x.sum(),
]


@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("use", range(len(USES)))
def test_every_use_of_a_number_is_seen(use, every):
    """Whatever looks at a number, another number gets its own answer: first by value, then as one that changes."""
    program = USES[use]
    compiled = firesteel.compile(program, backend="aot_eager", recompile_limit=64)
    firesteel._C._break_every(every)
    try:
        for n in (1, 2, 3, 4, 5, 2, 1, 3):
            assert same(program(X, n), compiled(X, n)), n
    finally:
        firesteel._C._break_every(0)
    assert every or firesteel.counters()["fallbacks"] == {}


def test_attributes_and_items_are_seen_as_well():
    class Box:
        def __init__(self, n):
            self.n = n

    def program(x, box, items):
        order = sorted([box, Box(2)], key=lambda one: one.n)
        return x * order[0].n, order[0].n, items[0] + 1, [0, 1, 2, 3, 4, 5, 6][items[0]], "abcdef"[box.n]

    compiled = firesteel.compile(program, recompile_limit=64)
    for n in (1, 3, 2, 4, 1, 5):
        assert same(program(X, Box(n), [n]), compiled(X, Box(n), [n]))
    assert firesteel.counters()["fallbacks"] == {}


def test_small_ints_stay_the_shared_ones():
    def program(x, n, box):
        box.append(n)
        return x + 1, n is three, n

    three = 3
    compiled = firesteel.compile(program)
    for n in (3, 4, 3, 10**20):
        box = []
        _, is_three, given = compiled(X, n, box)
        assert is_three == (n == 3)
        assert given is n
        assert box[0] is n


def test_nan_is_equal_to_nothing():
    def program(x, n):
        return x + 1, n == n, [n] == [n], n != n, n in [n]

    check(program, [(X, value) for value in (1.0, math.nan, 2.0, math.nan)], "eager", captured=4)


def test_types_are_told_apart():
    def program(x, n):
        return x * n, n

    calls = [(X, value) for value in (1, 1.0, True, 2, 2.0, False, 3, 3.0)]
    check(program, calls, "aot_eager", captured=8)


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_breaks_anywhere(every):
    def program(x, log):
        total, i = 0.0, 0
        while i < 6:
            total = total + i * 0.5
            x = x + total if i % 2 else x * i
            log.append((i, total))
            i += 1
        return x, total, i

    for backend in BACKENDS:
        check_calls(program, [X, X + 1], backend, every)


def test_a_backend_that_is_a_function_gets_numbers():
    seen = []

    def backend(module, examples):
        seen.append([type(example) for example in examples])
        return module.forward

    def program(x, n):
        return x * n + 1

    compiled = firesteel.compile(program, backend=backend)
    for n in (2.0, 3.0, 4.0, 5.0):
        assert same(compiled(X, n), program(X, n))
    assert seen == [[torch.Tensor], [torch.Tensor, torch.SymFloat]]
