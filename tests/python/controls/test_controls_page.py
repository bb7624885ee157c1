"""docs/controls.md: every example runs, in order, and prints what the page shows."""

import contextlib
import io
import linecache
import pathlib
import re
import types

import pytest

import firesteel

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "controls.md"
EXAMPLES = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def page():
    """The namespace that all examples share, as they do for a reader."""
    yield types.ModuleType("controls_page")
    firesteel.set_stance("default")


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(page, number):
    code, shown = EXAMPLES[number]
    name = f"<controls.md example {number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), page.__dict__)
    assert printed.getvalue() == shown


def test_the_page_has_examples():
    assert len(EXAMPLES) >= 9
