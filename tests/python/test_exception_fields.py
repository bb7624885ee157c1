"""Exceptions that live across a graph break keep all that was set on them, and no code of their classes runs twice."""

import itertools

import pytest

import firesteel

LOG = []


class FailureError(Exception):
    __slots__ = ("place",)

    def __init__(self, word, *, number=2):
        LOG.append(word)
        super().__init__(word)
        self.number = number


def pause(stop):
    if stop:
        firesteel.graph_break()


def syntax(first, second, third):
    error = SyntaxError("bad")
    pause(first)
    error.filename = "my.py"
    error.lineno = 100
    pause(second)
    error.note = 3
    pause(third)
    return error.filename, error.lineno, error.note, error.args, error.msg, str(error)


def of_own_class(first, second, third):
    error = FailureError("word", number=7)
    pause(first)
    error.__cause__ = ValueError("cause")
    error.__suppress_context__ = False
    pause(second)
    error.args = (1, 2)
    error.place = "here"
    pause(third)
    return error.number, error.args, repr(error.__cause__), error.__suppress_context__, error.place


def of_the_library(first, second, third):
    missing = OSError(2, "no", "file")
    pause(first)
    load = ImportError("text", name="name", path="path")
    end = StopIteration(5)
    end.value = 6
    pause(second)
    code = UnicodeDecodeError("utf8", b"abc", 0, 1, "why")
    code.start = 1
    group = ExceptionGroup("many", [ValueError(1), KeyError(2)])
    pause(third)
    return (
        (type(missing), missing.errno, missing.filename, str(missing), str(OSError("plain"))),
        (load.name, load.path, end.value, code.start, str(code)),
        (repr(group), group.exceptions[1].args),
    )


@pytest.mark.parametrize("program", [syntax, of_own_class, of_the_library])
@pytest.mark.parametrize("stops", list(itertools.product((False, True), repeat=3)))
def test_fields_are_kept(program, stops):
    LOG.clear()
    expected, written = program(*stops), LOG.copy()
    LOG.clear()
    compiled = firesteel.compile(program, backend="eager")
    for _ in range(2):
        firesteel.reset_counters()
        assert compiled(*stops) == expected
        assert written == LOG
        counted = firesteel.counters()
        assert counted["breaks"].get("FS-GRAPH-BREAK", 0) == sum(stops)
        assert counted["hits"]
        assert not counted["fallbacks"]
        LOG.clear()
