"""docs/troubleshooting.md: each example breaks as it says, at the line it says, and the cure cures it."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

import firesteel
from firesteel._report import gather, page

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import pictures

DOCUMENT = Path(__file__).parents[2] / "docs/troubleshooting.md"
SECTIONS = re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
KINDS = [section for section in SECTIONS if section[0].isdigit()]


def blocks(section):
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def recorded(code, script):
    """All problems that a run of the code has, each as (text of its line, words); and the page."""
    firesteel.reset()
    firesteel.reset_counters()
    script.write_text(code, encoding="utf-8")
    recorder = gather.Recorder()
    recorder.start()
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        recorder.stop()
    facts = gather.facts(recorder)
    lines = code.splitlines()
    problems = []
    for it in (*facts["breaks"], *facts["recompiles"], *facts["errors"], *facts["eager"]):
        if facts["files"][it["file"]]["path"] == str(script):
            problems.append((lines[it["line"] - 1].strip(), it.get("guard") or it["message"], it["remedy"]))
    return problems, page.html(facts, "example")


def test_all_twelve_kinds_are_there():
    assert [int(section.split(".")[0]) for section in KINDS] == list(range(1, 13))


@pytest.mark.parametrize("section", KINDS, ids=[section.splitlines()[0] for section in KINDS])
def test_the_example_breaks_as_told_and_the_cure_cures(section, tmp_path, capsys):
    torch.manual_seed(0)
    broken, cured = blocks(section)
    problems, text = recorded(broken, tmp_path / "broken.py")
    place = re.search(r"^At `(.*)`:$", section, re.MULTILINE)[1]
    message, remedy = re.search(r"^> (.*)\n> try: (.*)$", section, re.MULTILINE).groups()
    assert (place, message, remedy) in problems, problems
    assert page.escaped(message) in text
    problems, _ = recorded(cured, tmp_path / "cured.py")
    assert problems == []
    assert firesteel.counters()["captured"] >= 1
    assert not firesteel.counters()["fallbacks"]


@pytest.mark.parametrize("number", range(1, 13))
def test_a_picture_shows_it_as_it_is_told(number):
    """`python scripts/pictures.py` makes them anew, and notes of what."""
    section = KINDS[number - 1]
    picture = DOCUMENT.parent / f"pictures/problem-{number:02}.png"
    assert f"](pictures/{picture.name})" in section
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert f"{number:02} {pictures.stamp(section)}" in pictures.STAMPS.read_text().splitlines()
