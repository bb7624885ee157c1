"""docs/errors.md: every id has its section, and its program ends with the very words that the page shows."""

import re
from pathlib import Path

import error_examples as examples
import pytest

import firesteel

PAGE = Path(__file__).parents[2] / "docs/errors.md"  # python tests/python/error_examples.py --page docs/errors.md
SECTIONS = {part.splitlines()[0]: f"## {part}".rstrip("\n")
            for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]}  # fmt: skip


def test_every_id_has_its_section():
    ids = list(firesteel._C._break_reasons())
    assert list(SECTIONS) == ids
    assert sorted([*examples.EXAMPLES, *examples.WITHOUT_EXAMPLE]) == sorted(ids)


@pytest.mark.parametrize("name", list(SECTIONS))
def test_the_page_says_what_the_program_does(name):
    assert examples.section(name).rstrip("\n") == SECTIONS[name]


@pytest.mark.parametrize("name", list(examples.EXAMPLES))
def test_an_error_names_the_line_the_reason_and_what_to_do(name):
    text = examples.said(name)
    assert f"[{name}]" in text
    lines = text.splitlines()
    if len(lines) == 1:  # no error, but a line of the log
        assert re.match(r"example\.py:\d+: .*`f`.*; try: \S", text)
        return
    assert any(re.match(r"  example\.py:\d+  \S", line) for line in lines)
    assert any(line.startswith("  reason: ") for line in lines)
    assert any(line.startswith("  try: ") for line in lines)
