"""Runs one of CPython's own test files and writes a line of JSON per test: the process behind library_tests.py.

A line "start" comes before each test, so that a crash or a hang has a name.
"""

import argparse
import inspect
import json
import sys
import types
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import firesteel


def cases_of(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases_of(part)
        else:
            yield part


def compile_method(case):
    """Puts a compiled test method in front of the class's own; doctests and coroutines have none to compile."""
    method = getattr(case, case._testMethodName, None)
    if not isinstance(method, types.MethodType) or inspect.iscoroutinefunction(method):
        return
    if isinstance(method.__func__, types.FunctionType) and type(case).__module__ != "doctest":
        compiled = firesteel.compile(method.__func__, backend="eager")
        setattr(case, case._testMethodName, types.MethodType(compiled, case))


class Lines(unittest.TestResult):
    """Writes what became of each test, and what Firesteel counted meanwhile."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.runs = {}
        self.outcomes = []

    def write(self, **line):
        print(json.dumps(line), file=self.out, flush=True)

    def startTest(self, test):  # noqa: N802
        super().startTest(test)
        self.runs[test.id()] = self.runs.get(test.id(), 0) + 1
        self.outcomes = []
        firesteel.reset_counters()
        self.write(event="start", test=self.name(test))

    def stopTest(self, test):  # noqa: N802
        super().stopTest(test)
        counted = firesteel.counters()
        self.write(event="end", test=self.name(test), outcome=self.outcomes or ["ok"], counters=counted)

    def name(self, test):
        return f"{test.id()} #{self.runs.get(test.id(), 0)}"

    def add(self, test, outcome, error=None):
        words = outcome if error is None else f"{outcome}: {error[0].__name__}: {error[1]}"[:600]
        self.outcomes.append(words)
        if test.id() not in self.runs:  # the set-up of a class or a module
            self.write(event="end", test=self.name(test), outcome=[words], counters={})

    def addError(self, test, err):  # noqa: N802
        self.add(test, "error", err)

    def addFailure(self, test, err):  # noqa: N802
        self.add(test, "failure", err)

    def addSkip(self, test, reason):  # noqa: N802
        self.add(test, f"skipped: {reason}")

    def addExpectedFailure(self, test, err):  # noqa: N802
        self.add(test, "expected failure")

    def addUnexpectedSuccess(self, test):  # noqa: N802
        self.add(test, "unexpected success")

    def addSubTest(self, test, subtest, err):  # noqa: N802
        if err is not None:
            self.add(test, f"subtest {subtest._subDescription()}", err)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="for example test_dict")
    parser.add_argument("lines", help="where the lines go")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", help="a file with the names of the tests to run, one a line")
    arguments = parser.parse_args()
    only = None
    if arguments.only:
        with open(arguments.only) as names:
            only = set(names.read().splitlines())

    with open(arguments.lines, "w") as out:
        sys.argv = [sys.argv[0]]
        suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{arguments.file}")
        cases = [case for case in cases_of(suite) if only is None or case.id() in only]
        result = Lines(out)
        result.write(event="cases", tests=[case.id() for case in cases])
        if arguments.compiled:
            for case in cases:
                compile_method(case)
        # The same case again and again: the later runs are those that meet the guards of the first. One with an event
        # loop of its own runs once.
        again = unittest.TestSuite(
            case
            for case in cases
            for _ in range(1 if isinstance(case, unittest.IsolatedAsyncioTestCase) else arguments.runs)
        )
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            again.run(result)
        result.write(event="done")


if __name__ == "__main__":
    main()
