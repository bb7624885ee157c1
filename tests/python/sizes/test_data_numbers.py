"""Numbers that the graph computes, under fullgraph=True: one graph for all values, each against eager."""

import pytest
import torch
from against_eager import same
from over_data import captured_once

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CHECK_SHAPES", "1")
    firesteel.reset_counters()


def rows(*numbers, dtype=torch.float32):
    return [(torch.arange(12.0).view(3, 4).requires_grad_(), torch.tensor(n, dtype=dtype)) for n in numbers]


def scaled(x, t):
    return x * t.item()


def both_sides(x, t):
    return t.item() - x, x / t.item(), t.item() + x, 2 - x * t.item()


def half_precision(x, t):
    return x.half() * t.item(), x.int() * t.item(), x.sum() * t.item()


def arithmetic(x, t):
    number = t.item() * 2 + 1
    return x * (number - 0.5) + (-number), number / 4


def divided(x, t):
    return x / (1 / t.item())


def returned(x, t):
    number = t.item()
    return number, [number + 1.0, {"twice": number * 2}], x + 1


def of_parts(x, t):
    a, b = (x.detach().sum(1)[:2] + t).tolist()
    return x * a + b, a, b


def converted(x, t):
    return x + float(t), float(t.sum())


FLOATS = [scaled, both_sides, half_precision, arithmetic, divided, returned, of_parts, converted]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FLOATS, ids=lambda function: function.__name__)
def test_floats(function, backend):
    captured_once(function, rows(0.5, 3.0, -7.25, 1e30), backend)


def int_operand(x, t):
    n = t.item()
    return x * n, n + x, x - (n * 2 + 1), x.int() // n


def int_returned(x, t):
    n = int(t)
    return n, n * n - 1, max(n, 3), (n, [n + 1]), x * 2


def int_as_float(x, t):
    return x * float(t.item()), float(t)


def new_tensors(x, t):
    n = t.item()
    return torch.zeros(n), torch.ones(n, 3) * 2, torch.full((n + 1,), 7), torch.arange(n), x.new_zeros(2, n).sum()


def sizes_of_new(x, t):
    y = torch.zeros(t.item(), 4)
    return y.shape[0] * 2, y.size(), y.numel(), (y + x[:1]).shape, torch.cat([x, y]).sum(0)


def joined(x, t):
    y = torch.ones(t.item(), 4)
    return torch.cat([x, y * 2]).sum(), (y @ x.t()).sum(0), torch.cat([y, y], 1)


def truths(x, t):
    n = t.item()
    return n > 4, n == 2, (t > 4).item(), x + n


def truth_operand(x, t):
    n = t.item()
    return x + (n > 2), x * (n == 5), (n > 2) * x.int(), torch.add(x > 3, n != 9)


INTS = [truths, truth_operand, int_operand, int_returned, int_as_float, new_tensors, sizes_of_new, joined]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", INTS, ids=lambda function: function.__name__)
def test_ints(function, backend):
    captured_once(function, rows(5, 2, 9, 1, dtype=torch.int64), backend)


def sliced(x, t):
    n = t.item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return x[:n], x[:n].sum(), x[n:] * 2


def narrowed(x, t):
    n = t.item()
    torch._check(n >= 0, lambda: "not negative")
    torch._check(n < 3)
    return x.narrow(0, n, 1), x[n]


def viewed(x, t):
    n = t.item()
    torch._check(n > 0)
    torch._check(12 % n == 0)
    return x.view(n, -1).sum(0)


def decided(x, t):
    n = t.item()
    torch._check(n > 0)
    if n > -1:
        x = x + 1
    return x * n if n != 0 else x


def sized(x, t):
    n = t.item()
    torch._check_is_size(n)
    return torch.ones(n).sum() + x


CHECKED = [sliced, narrowed, viewed, decided, sized]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", CHECKED, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore:_check_is_size")
def test_checked(function, backend):
    captured_once(function, rows(1, 2, 1, dtype=torch.int64), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_that_fails_raises_as_in_eager(backend):
    compiled = firesteel.compile(sliced, fullgraph=True, backend=backend)
    x = torch.randn(3, 4)
    assert same(compiled(x, torch.tensor(2)), sliced(x, torch.tensor(2)))
    for bad in (4, -1):
        with pytest.raises(RuntimeError, match="Expected cond to be True"):
            compiled(x, torch.tensor(bad))
    assert same(compiled(x, torch.tensor(3)), sliced(x, torch.tensor(3)))
    named = firesteel.compile(narrowed, fullgraph=True, backend=backend)
    named(x, torch.tensor(0))
    with pytest.raises(RuntimeError, match="not negative"):
        named(x, torch.tensor(-1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_size_raises_as_in_eager(backend):
    def new(t):
        return torch.zeros(t.item())

    compiled = firesteel.compile(new, fullgraph=True, backend=backend)
    assert compiled(torch.tensor(3)).shape == (3,)
    with pytest.raises(RuntimeError) as found:
        compiled(torch.tensor(-2))
    with pytest.raises(RuntimeError) as wanted:
        new(torch.tensor(-2))
    assert str(found.value).split("\n")[0] == str(wanted.value).split("\n")[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_size_of_a_tensor_that_nobody_uses(backend):
    def sizes(t):
        y = torch.zeros(t.item(), 2)
        return y.shape, y.numel(), len(y)

    compiled = firesteel.compile(sizes, fullgraph=True, backend=backend)
    assert compiled(torch.tensor(3)) == ((3, 2), 6, 3)
    with pytest.raises(RuntimeError, match="negative"):
        compiled(torch.tensor(-1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_places(backend):
    def function(x, t):
        n = t.item()
        torch._check(n >= 0)
        torch._check(n < x.shape[0])
        return x[n], x[n, 1:], x[:, n], x[1:, n], x[n, n], x[n, torch.tensor([0, 1])]

    captured_once(function, rows(1, 0, 2, 1, dtype=torch.int64), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_places_are_views(backend):
    def function(x, t):
        n = t.item()
        torch._check(n >= 0)
        torch._check(n < x.shape[0])
        y = x * 1
        y[n].add_(1)
        y[:, n].mul_(2)
        return y

    captured_once(function, rows(1, 0, 2, 1, dtype=torch.int64), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_division_by_zero_raises_as_in_eager(backend):
    compiled = firesteel.compile(divided, fullgraph=True, backend=backend)
    x = torch.ones(2)
    assert same(compiled(x, torch.tensor(2.0)), divided(x, torch.tensor(2.0)))
    with pytest.raises(ZeroDivisionError):
        compiled(x, torch.tensor(0.0))


BRANCHES = {
    "an int": (lambda x, t: x + 1 if t.item() > 3 else x, 5),
    "its truth": (lambda x, t: x + 1 if t.item() else x, 5),
    "a float": (lambda x, t: x + 1 if t.item() > 0.5 else x, 0.7),
    "a loop": (lambda x, t: [x + i for i in range(t.item())], 2),
    "its text": (lambda x, t: (x, f"{t.item()}"), 5),
    "a key": (lambda x, t: {5: x}[t.item()], 5),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BRANCHES)
def test_what_looks_at_the_value_is_an_error(name, backend):
    function, number = BRANCHES[name]
    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    with pytest.raises(firesteel.GraphBreakError) as error:
        compiled(torch.ones(2), torch.tensor(number))
    text = str(error.value)
    assert "FS-DATA-DEPENDENT" in text
    assert "test_data_numbers.py" in text
    assert "try:" in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_fullgraph_it_is_a_break(backend):
    compiled = firesteel.compile(scaled, backend=backend)
    for number in (2.0, 3.0):
        assert same(compiled(torch.ones(3), torch.tensor(number)), torch.ones(3) * number)
    assert firesteel.counters()["breaks"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_nonstrict_functions_take_ints(backend):
    @firesteel.nonstrict_trace
    def inner(x, n):
        return x * n + torch.ones(n).sum()

    def outer(x, t):
        return inner(x, t.item() + 1)

    captured_once(outer, rows(3, 5, 2, dtype=torch.int64), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_hold_the_number_of_each_call(backend):
    kept = {}

    def function(x, t):
        kept["n"] = t.item()
        return x * kept["n"]

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    for n in (3, 8, 2):
        assert same(compiled(torch.ones(2), torch.tensor(n)), torch.ones(2) * n)
        assert kept == {"n": n}


@pytest.mark.parametrize("backend", BACKENDS)
def test_randomness_is_drawn_once_where_the_call_runs_again(backend):
    def function(x, t):
        noise = torch.rand(3)
        n = t.item()
        torch._check(n < 5)
        return noise, x * n

    compiled = firesteel.compile(function, fullgraph=True, backend=backend)
    torch.manual_seed(0)
    compiled(torch.ones(2), torch.tensor(1))
    torch.manual_seed(1)
    with pytest.raises(RuntimeError):
        compiled(torch.ones(2), torch.tensor(7))
    after = torch.rand(1)
    torch.manual_seed(1)
    with pytest.raises(RuntimeError):
        function(torch.ones(2), torch.tensor(7))
    assert torch.equal(after, torch.rand(1))


def quotients(x, t, u):
    n, m = t.item(), u.item()
    return x * (n / m), n / m, (n * 2) / 3, n**2, 7 / m


@pytest.mark.parametrize("backend", BACKENDS)
def test_ints_are_divided_and_raised(backend):
    calls = [(1, 3), (7, 2), (-5, 9), (10**9, 7), (3, 1), (0, 4)]
    captured_once(quotients, [[torch.ones(3), torch.tensor(n), torch.tensor(m)] for n, m in calls], backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_quotient_of_ints_that_are_no_doubles_is_eagers(backend):
    compiled = firesteel.compile(quotients, fullgraph=True, backend=backend)
    for n, m in [(1, 3), (2**60 + 1, 3), (5, 2**61 - 1), (4, 2)]:
        args = [torch.ones(3), torch.tensor(n), torch.tensor(m)]
        assert same(compiled(*args), quotients(*args))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(3), torch.tensor(1), torch.tensor(0))
