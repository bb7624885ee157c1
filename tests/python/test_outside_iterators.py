"""Iterators made before the call: each step is taken once, by Python, and the reason says what to do."""

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
    ("make", "named"), [(MAKERS["list"], "a list_iterator"), (generated, "the generator `generated`")]
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
