"""CPython's own tests end compiled as they end plain: a few files by default, all of them with FIRESTEEL_FULL=1."""

import os

import pytest
from library_tests import DOCTESTS, FILES, QUICK, differences, run_file, share_captured, unexplained

FULL = os.environ.get("FIRESTEEL_FULL") == "1"


@pytest.mark.parametrize("file", FILES if FULL else QUICK)
def test_outcomes_are_those_of_plain_python(file):
    plain, compiled = (run_file(file, compiled=compiled) for compiled in (False, True))
    found = unexplained(differences(plain, compiled))
    assert not found, "\n".join(f"{name}\n  plain: {a}\n  compiled: {b}" for name, (a, b) in sorted(found.items()))
    assert bool(share_captured(compiled)) == (file not in DOCTESTS)
