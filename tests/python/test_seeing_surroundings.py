"""explain, logs, progress and the report of one program: in a pipe, under nohup, as exec'd code, on non-ASCII paths."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import torch, firesteel
firesteel._C._set_progress_patience(0.0)
def f(x):
    y = x.sin()
    print(end="")
    return y * 2
kept = firesteel.compile(f)
with firesteel.logs("all"):
    kept(torch.ones(3))
print(firesteel.explain(f)(torch.ones(3)))
firesteel.report("öut.html")
"""
LINE = PROGRAM.splitlines().index('    print(end="")') + 1
EXECUTED = f"exec(compile({PROGRAM!r}, '<mäde>', 'exec'), {{}})\n"


@pytest.mark.parametrize(("text", "before", "after", "name"), [
    (PROGRAM, "", " | cat", "prögram.py"),
    (PROGRAM, "nohup ", "", "prögram.py"),
    (PROGRAM, "", " > öut.txt 2>&1 < /dev/null; cat öut.txt", "prögram.py"),
    (EXECUTED, "", " | cat", "<mäde>"),
], ids=["pipe", "nohup", "file", "exec"])  # fmt: skip
def test_a_program_seen_from(tmp_path, text, before, after, name):
    folder = tmp_path / "Ünten 火"
    folder.mkdir()
    (folder / "prögram.py").write_text(text, encoding="utf-8")
    done = subprocess.run(f"{before}{sys.executable} prögram.py 2>&1{after}", cwd=folder, shell=True, timeout=240,
                          capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"})  # fmt: skip
    said = done.stdout.decode("utf-8")
    assert done.returncode == 0, said
    assert "\x1b" not in said
    lines = said.splitlines()
    assert any(line.startswith(f"{name}:{LINE}: graph break in `f` [FS-C-FUNCTION]") for line in lines), said  # logs
    assert any(line.startswith(f"{name}:4: guard of graph ") for line in lines)
    assert any(line.startswith("firesteel: capturing, ") for line in lines)  # progress
    assert any(line.startswith("f: 2 graphs, 2 operations, 1 graph break") for line in lines)  # explain
    assert any(f"{name}:{LINE}" in line and "graph break" in line and not line.startswith(name) for line in lines)
    page = (folder / "öut.html").read_text(encoding="utf-8")
    assert "take the print out" in page
    assert f"{name.replace('<', '&lt;').replace('>', '&gt;')}:{LINE}</a>" in page
    assert ("is not at hand" in page) == (name == "<mäde>")
