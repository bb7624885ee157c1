"""The provenance oracle: nothing from before a capture comes into it without a source, which is what guards hang on."""

import breaking_blocks
import breaking_programs
import breaking_values
import pytest
import test_isolation
import torch
import writing_libraries
import writing_programs

import firesteel


@pytest.fixture(autouse=True)
def oracle():
    firesteel._C._oracle(True)
    yield
    firesteel._C._oracle(False)


def call(function, *args):
    try:
        function(*args)
    except Exception as error:  # the user's own, as in eager
        return error


@pytest.mark.parametrize(
    "program",
    breaking_programs.CASES + breaking_blocks.CASES + breaking_values.CASES,
    ids=lambda program: program.__name__,
)
def test_programs_in_pieces(program, capsys):
    compiled = firesteel.compile(program, backend="eager")
    for x in (torch.randn(3, 4), torch.ones(3, 4)):
        call(compiled, x, [])
    assert firesteel._C._oracle_reports() == []


# What is known to come in without a source, and why.
OPEN = {
    "deep_copies": "the default of an argument of copy.deepcopy, which runs as it is",
}


def writing():
    for make in writing_programs.CASES + writing_libraries.CASES:
        reason = OPEN.get(make.__name__)
        yield pytest.param(make, id=make.__name__, marks=[pytest.mark.xfail(reason=reason)] if reason else [])


@pytest.mark.parametrize("make", list(writing()))
def test_programs_that_write(make):
    step, _ = make()
    compiled = firesteel.compile(step, backend="eager")
    for _ in range(2):
        call(compiled, torch.randn(3, 4))
    assert firesteel._C._oracle_reports() == []


@pytest.mark.parametrize("number", range(len(test_isolation.PROGRAMS)))
def test_programs_that_read(number):
    function, args = test_isolation.PROGRAMS[number]()
    call(firesteel.compile(function, backend="eager"), *args)
    assert firesteel._C._oracle_reports() == []
