"""Iterators made before the call: each step is taken once, by Python or with the graph."""

import itertools

import pytest
import torch
from against_eager import BACKENDS, same

import firesteel


def loop(x, numbers):
    for number in numbers:
        x = x * number
    return x


def step(x, numbers):
    return x * next(numbers) + next(numbers)


def pairs(x, numbers):
    for number, other in zip(numbers, (1, 2), strict=False):
        x = x * number + other
    return x


def spread(x, numbers):
    first, *others = numbers
    return x * first + len(others)


def generated():
    yield 2
    yield 3
    yield 4


PROGRAMS = [loop, step, pairs, spread]
MAKERS = {"list": lambda: iter([2, 3, 4]), "range": lambda: iter(range(2, 5)), "generator": generated,
          "map": lambda: map(int, "234"), "dict": lambda: iter({2: 0, 3: 0, 4: 0})}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_step_is_taken_once(program, make, backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend)
    for _ in range(3):
        x = torch.randn(3)
        mine, theirs = make(), make()
        assert same(compiled(x, mine), program(x, theirs))
        assert list(mine) == list(theirs)
    counters = firesteel.counters()
    assert set(counters["breaks"]) == {"FS-ITERATOR"}
    assert counters["hits"] > 0
    assert counters["fallbacks"] == {}


@pytest.mark.parametrize(
    ("make", "named"), [(MAKERS["dict"], "a dict_keyiterator"), (generated, "the generator `generated`")]
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_reason_names_the_loop_and_the_cure(program, make, named):
    iterator = make()
    with pytest.raises(firesteel.GraphBreakError) as error:
        firesteel.compile(program, fullgraph=True)(torch.ones(3), iterator)
    text = str(error.value)
    assert f"reason: {named} is stepped here" in text
    assert "[FS-ITERATOR]" in text
    assert "`list(it)`" in text
    lines = {
        "loop": "for number in numbers",
        "pairs": "for number, other in",
        "step": "next(numbers)",
        "spread": "first, *others",
    }
    assert lines[program.__name__] in text
    assert list(iterator) == [2, 3, 4]  # nothing was taken from it


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_cure_cures(backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(loop, backend=backend, fullgraph=True)
    for _ in range(2):
        assert same(compiled(torch.ones(3), list(generated())), torch.full((3,), 24.0))
    assert firesteel.counters()["breaks"] == {}


def once(x, numbers):
    return x * next(numbers)


def to_the_end(x, numbers):
    for number in iter(numbers):
        x = x * number
    return x, next(numbers, None), list(numbers), iter(numbers) is numbers


def by_method(x, numbers):
    x = x * numbers.__next__()
    try:
        while True:
            x = x + numbers.__next__()
    except StopIteration:
        return x


def left_in_the_middle(x, numbers):
    for number in numbers:
        x = x + number
        if number > 2:
            break
    return x, zip(numbers, [7, 8], strict=False)


def zipped_with_itself(x, numbers):
    for one, other in zip(numbers, numbers, strict=False):
        x = x * one + other
    return x


KNOWN = {
    "list": MAKERS["list"], "range": MAKERS["range"], "tuple": lambda: iter((2, 3, 4, 5)),
    "begun": lambda: (it := iter([9, 2, 3]), next(it))[0], "empty": lambda: iter([]),
    "exhausted": lambda: (it := iter([9]), list(it))[0], "steps": lambda: iter(range(9, 1, -2)),
}  # fmt: skip


def outcome(function, x, numbers):
    try:
        result = function(x, numbers)
    except StopIteration:
        return "stopped"
    return [list(part) if isinstance(part, zip) else part for part in result] if type(result) is tuple else result


@pytest.mark.parametrize("make", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize(
    "program", [loop, once, pairs, to_the_end, by_method, left_in_the_middle, zipped_with_itself],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_one_graph_steps_them(program, make):
    compiled = firesteel.compile(program, fullgraph=True)
    if outcome(program, torch.ones(3), make()) == "stopped":
        return
    firesteel.reset_counters()
    for _ in range(3):
        x = torch.randn(3)
        mine, theirs = make(), make()
        assert same(outcome(compiled, x, mine), outcome(program, x, theirs))
        assert list(mine) == list(theirs)
    assert firesteel.counters()["breaks"] == {}
    assert firesteel.counters()["hits"] >= 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: zip([2, 3, 4], itertools.count(5), strict=False),
        lambda: enumerate([2, 3, 4], 7),
        lambda: enumerate(zip((1, 2), [3, 4], strict=False)),
        lambda: zip(it := iter([1, 2, 3, 4, 5]), it, strict=False),
    ],
    ids=["zip", "enumerate", "nested", "twice the same"],
)
def test_those_that_hold_others(make):
    def step(x, numbers):
        one, other = next(numbers)
        return x * one + (sum(other) if isinstance(other, tuple) else other)

    def loop(x, numbers):
        for one, other in numbers:
            x = x * one + (sum(other) if isinstance(other, tuple) else other)
        return x

    for program in (step, loop):
        compiled = firesteel.compile(program, fullgraph=True)
        for _ in range(2):
            x = torch.randn(3)
            mine, theirs = make(), make()
            assert same(compiled(x, mine), program(x, theirs))
            assert list(itertools.islice(mine, 9)) == list(itertools.islice(theirs, 9))


COUNT = itertools.count(3)


def test_where_it_stands_counts_at_each_call():
    def counted(x):
        return x + next(COUNT)

    compiled = firesteel.compile(counted, fullgraph=True)
    for number in range(3, 7):
        assert same(compiled(torch.zeros(2)), torch.full((2,), float(number)))
    assert next(COUNT) == 7
    for start, step in ((0, 1), (0, 2), (0.5, 1), (0, 1)):
        mine, theirs = itertools.count(start, step), itertools.count(start, step)
        compiled = firesteel.compile(once, fullgraph=True)
        for _ in range(3):
            assert same(compiled(torch.ones(2), mine), once(torch.ones(2), theirs))
        assert next(mine) == next(theirs)


def test_items_that_change_are_seen():
    compiled = firesteel.compile(once, fullgraph=True)
    items = [2, 3]
    assert same(compiled(torch.ones(2), iter(items)), torch.full((2,), 2.0))
    items[0] = 5
    assert same(compiled(torch.ones(2), iter(items)), torch.full((2,), 5.0))
    weight = torch.full((2,), 3.0, requires_grad=True)
    product = compiled(torch.ones(2), iter([weight]))
    product.sum().backward()
    assert same(product, weight)
    assert same(weight.grad, torch.ones(2))
    other = torch.full((2,), 4.0)
    assert same(compiled(torch.ones(2), iter([other])), other)


def test_one_iterator_or_two():
    def both(x, first, second):
        return x + next(first) * 10 + next(second)

    compiled = firesteel.compile(both, fullgraph=True)
    for _ in range(2):
        assert same(compiled(torch.zeros(1), iter([1, 2]), iter([1, 2])), torch.tensor([11.0]))
        one = iter([1, 2])
        assert same(compiled(torch.zeros(1), one, one), torch.tensor([12.0]))
        one = iter([1, 2, 3, 4])
        pairs = zip(one, strict=False)
        assert same(firesteel.compile(lambda x, a, b: x + next(a)[0] * 10 + next(b), fullgraph=True)(
            torch.zeros(1), pairs, one), torch.tensor([12.0]))  # fmt: skip
        assert list(one) == [3, 4]


def test_what_stays_with_python():
    def grows(x, numbers, items):
        for number in numbers:
            x = x * number
            if len(items) < 4:
                items.append(2)
        return x

    items, others = [2, 3], [2, 3]
    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(grows, fullgraph=True)(torch.ones(2), iter(items), items)
    assert items == [2, 3]
    assert same(firesteel.compile(grows)(torch.ones(2), iter(items), items),
                grows(torch.ones(2), iter(others), others))  # fmt: skip
    assert items == others
    for iterator in (zip([2], [3], strict=True), zip(generated(), strict=False), map(abs, [2])):
        with pytest.raises(firesteel.GraphBreakError, match="FS-ITERATOR"):
            firesteel.compile(lambda x, it: x + len(list(it)), fullgraph=True)(torch.ones(2), iterator)


def test_an_error_in_the_graph_takes_no_step():
    def f(x, places, numbers):
        return x[places] * next(numbers)

    compiled = firesteel.compile(f, fullgraph=True)
    numbers = iter([2, 3])
    assert same(compiled(torch.ones(3), torch.tensor([1]), numbers), torch.tensor([2.0]))
    numbers = iter([2, 3])
    with pytest.raises((IndexError, RuntimeError)):
        compiled(torch.ones(3), torch.tensor([7]), numbers)
    assert next(numbers) == 2


def test_functions_that_are_not_looked_into():
    numbers = iter([2, 3, 4])

    @firesteel.nonstrict_trace
    def opaque(x):
        return x * next(numbers)

    def f(x):
        return opaque(x * next(numbers))

    with pytest.raises(firesteel.GraphBreakError, match="FS-ITERATOR"):
        firesteel.compile(f, fullgraph=True)(torch.ones(2))
    assert next(numbers) == 2
