"""The documentation: every code block runs, every page is on the site, and the site needs no network."""

import contextlib
import io
import linecache
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import firesteel

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# Pages whose Python is run by tests of their own, which compare what it says as well.
TESTED_ELSEWHERE = {
    "controls.md": "controls/test_controls_page.py",
    "troubleshooting.md": "test_seeing_troubleshooting.py",
    "errors.md": "test_error_page.py",
}


def blocks(path):
    """(language, text, line) of each fenced block."""
    found, language, begin, lines = [], None, 0, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            if language is None:
                language, begin, lines = line[3:].strip(), number, []
            else:
                found.append((language, "\n".join(lines) + "\n", begin))
                language = None
        elif language is not None:
            lines.append(line)
    return found


def commands():
    """Lines that are typed into a shell, each with its page."""
    for path in PAGES:
        for language, text, _ in blocks(path):
            for line in text.splitlines():
                if language == "sh" and line.strip():
                    yield path.name, re.split(r"\s#", line)[0].strip()
                if language == "console" and line.startswith("$ "):
                    yield path.name, re.split(r"\s#", line[2:])[0].strip()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_block_says_what_it_is(path):
    found = blocks(path)
    for number, (language, _, line) in enumerate(found):
        if not language:  # what the program above it prints
            assert found[max(number - 1, 0)][0] == "python", f"{path.name}:{line}"
        else:
            assert language in ("python", "text", "console", "sh", "cpp", "cmake", "{toctree}"), f"{path.name}:{line}"
    outside = re.sub(r"^```.*?^```", "```", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"\n\n {4}\S", outside), "an indented block: fence it, with its language"


RUN_HERE = [
    path for path in PAGES if path.name not in TESTED_ELSEWHERE and any(it[0] == "python" for it in blocks(path))
]


@pytest.mark.parametrize("path", RUN_HERE, ids=lambda path: path.name)
def test_python_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "page"}
    ran = 0
    try:
        for language, code, line in blocks(path):
            if language != "python":
                continue
            name = f"<{path.name}:{line}>"
            linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, name, "exec"), space)
            ran += 1
    finally:
        firesteel.uninstall()
        firesteel.reset()
    assert ran


def test_pages_that_are_tested_elsewhere_are():
    for page, test in TESTED_ELSEWHERE.items():
        assert page in (Path(__file__).parent / test).read_text(encoding="utf-8")


def test_targets_and_scripts_of_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page, command in commands():
        words = [word for word in command.split() if not re.fullmatch(r"[A-Z_]+=\S*", word)]
        if words[0] == "make":
            for target in words[1:]:
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), (page, command)
        for word in words:
            if re.match(r"(bench|scripts|examples|tests)/\S+\.(py|sh|cpp)$", word):
                assert (ROOT / word).exists(), (page, command)


TRAIN = """
import torch, firesteel


def forward(x):
    return torch.tanh(x * 2).sum()


def step(x):
    x = x.sin()
    print("step")
    return x * 2


if __name__ == "__main__":
    firesteel.compile(step)(torch.ones(3))
"""
# What `python` and `firesteel` are told to do in the pages, and how it ends.
PROGRAMS = sorted(
    {
        command
        for _, command in commands()
        if re.search(r"(^|\s)(firesteel|python)( -m firesteel| [a-z]|$)", command)
        # `enable` changes the environment: tests/python/dropin/test_install.py tries it in one of its own.
        and not re.search(r"…|pytest|bench|enable", command)
    }
)


@pytest.mark.parametrize("command", PROGRAMS)
def test_commands_run(command, tmp_path):
    for name in ("train.py", "model.py"):
        (tmp_path / name).write_text(TRAIN, encoding="utf-8")
    line = re.sub(r"(?<!-m )\bfiresteel(?= )", f"{sys.executable} -m firesteel", command)
    line = re.sub(r"(^|(?<=\s))python(?= )", sys.executable, line)
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    # A search for failures finds none here, which is how it ends.
    assert done.returncode == (1 if " minify " in command else 0), done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="Sphinx is not installed: make setup")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", ROOT / "docs", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return out


def test_the_site_has_every_page_and_fetches_nothing(site):
    for path in (ROOT / "docs").glob("*.md"):
        page = (site / f"{path.stem}.html").read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|link|iframe)[^>]*?(?:src|href)="(https?:[^"]+)"', page)
        assert fetched == [], path.name
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*[\"']?https?:", styles)


def test_links_between_pages_lead_somewhere(site):
    ids = {}
    for page in site.glob("*.html"):
        ids[page.name] = set(re.findall(r'id="([^"]+)"', page.read_text(encoding="utf-8")))
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        body = text[text.index("<article") : text.index("</article>")] if "<article" in text else ""
        for target, anchor in re.findall(r'href="([\w.-]+\.html)?#([^"]+)"', body):
            assert anchor in ids[target or page.name], (page.name, target, anchor)


def test_make_docs_builds_the_site():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "-m sphinx -q -W --keep-going -b html docs build/docs" in makefile
    assert shutil.which("make")
    listed = subprocess.run(
        ["make", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, env=os.environ, timeout=60
    )
    assert "sphinx" in listed.stdout
