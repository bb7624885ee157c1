"""minify, for faults of capture and of the ATen graph: statements are taken away until few are left that show it."""

import ast
import os
import subprocess
import sys

from firesteel._minify.statements import ProgramReducer

CAPTURE = """
import torch
import firesteel

SCALE = 3


def helper(x):
    y = x.sin()
    return y + y.cos()


def f(x, times=2):
    "Is another function when it is captured."
    y = helper(x)
    for step in range(times):
        y = y * 2
        if step > 5:
            y = y + 1
    if firesteel.is_compiling():
        y = y + 1
    return y * SCALE


if __name__ == "__main__":
    torch.compile(f)(torch.ones(3))
"""
ATEN = """
import torch
import firesteel


@firesteel.allow_in_graph
def scaled(x):
    return x * (2 if firesteel.is_compiling() else 1)


def other(x):
    return x.sin().cos()


@torch.compile
def f(x):
    y = other(x)
    y = scaled(y)
    z = y.tanh() + 1
    return z * 2


a = torch.ones(8)
for step in range(2):
    b = f(a)
    print(b.sum())
"""


def python(*arguments, folder, **variables):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, env={**os.environ, **variables},
                          capture_output=True, text=True, timeout=300)  # fmt: skip


def statements(path):
    """Those of the program alone, without what shows the failure."""
    text = path.read_text(encoding="utf-8").split("# The program, made small.\n")[1]
    return ast.unparse(ast.parse(text.split('\nif __name__ == "__main__":')[0]))


def test_a_function_that_capture_changes(tmp_path):
    (tmp_path / "mödel.py").write_text(CAPTURE, encoding="utf-8")
    done = python("-m", "firesteel", "minify", "mödel.py:f", "--args", "torch.ones(3)", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tier: capture (differs: the result: largest distance" in done.stdout
    assert "wrote repro.py; try: python repro.py" in done.stdout
    small = statements(tmp_path / "repro.py")
    assert "firesteel.is_compiling()" in small
    for word in ("range", "__main__"):
        assert word not in small, small
    again = python("repro.py", folder=tmp_path)
    assert again.returncode == 1
    assert "Tensor-likes are not close" in again.stderr


def test_a_program_that_the_aten_graph_changes(tmp_path):
    (tmp_path / "train.py").write_text(ATEN, encoding="utf-8")
    done = python("-m", "firesteel", "minify", "-o", "small.py", "train.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tier: the ATen graph in graph 1 of `f` (train.py:" in done.stdout
    small = statements(tmp_path / "small.py")
    assert "scaled" in small
    for word in ("print", "range"):
        assert word not in small, small
    again = python("small.py", folder=tmp_path)
    assert again.returncode == 1
    assert "CheckError: a compiled call gives another result than eager" in again.stderr


def test_statements_are_taken_away_as_long_as_it_fails():
    def fails(source):
        names = {}
        try:
            exec(source, names)
        except Exception:
            return False
        return names.get("found") == 3

    source = """
'a text'
a, b = 1, 2
if a:
    with open('/dev/null') as nothing:
        c = a + b
        d = 4
else:
    c = 7
for e in range(3):
    f = e
try:
    found = c
finally:
    f = 2
"""
    counts = []
    reducer = ProgramReducer(source, fails, counts.append)
    assert reducer.start()
    assert reducer.reduce() == ast.unparse(ast.parse("a, b = 1, 2\nc = a + b\nfound = c")) + "\n"
    assert counts == sorted(counts, reverse=True)


def test_what_does_not_fail_stays_whole():
    reducer = ProgramReducer("a = 1\n", lambda source: False)
    assert not reducer.start()
    assert reducer.reduce() == "a = 1\n"


def test_no_more_than_so_many_tries():
    reducer = ProgramReducer(
        "\n".join(f"a{i} = {i}" for i in range(100)), lambda source: len(source) > 500, most_tries=20
    )
    assert reducer.start()
    reducer.reduce()
    assert reducer.tries == 20


PASSES = """
import torch


def unused(x):
    return x.tanh() + 1


@torch.compile
def f(x):
    y = (x * 1).cosh()
    z = torch.sin(y) + y
    return z * 2


a = torch.ones(8)
for step in range(2):
    b = f(a)
"""


def test_a_pass_that_changes_the_graph_is_named(tmp_path):
    (tmp_path / "träin.py").write_text(PASSES, encoding="utf-8")
    wrong = {"FIRESTEEL_SPOIL_PASS": "common_subexpressions", "FIRESTEEL_CACHE": "0"}
    done = python("-m", "firesteel", "minify", "träin.py", folder=tmp_path, **wrong)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tier: the ATen graph in graph 1 of `f` (träin.py:" in done.stdout
    assert "firesteel minify: pass: common_subexpressions\n" in done.stdout
    small = statements(tmp_path / "repro.py")
    assert "torch.sin" in small
    assert "tanh" not in small
    assert "(pass common_subexpressions)" in (tmp_path / "repro.py").read_text(encoding="utf-8")
    again = python("repro.py", folder=tmp_path, **wrong)
    assert again.returncode == 1
    assert "CheckError: a compiled call gives another result than eager" in again.stderr
    assert python("repro.py", folder=tmp_path).returncode == 0


SMALLEST = """
import firesteel


def f(x):
    return x + firesteel.is_compiling()
"""


def test_where_nothing_can_be_cut_that_is_said(tmp_path):
    (tmp_path / "small.py").write_text(SMALLEST, encoding="utf-8")
    done = python("-m", "firesteel", "minify", "small.py:f", "--args", "torch.ones(3)", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "statements: 3, none of which can be taken away (" in done.stdout
    assert "wrote repro.py; try: python repro.py" in done.stdout


ELSEWHERE = """
import os
import firesteel

HERE = os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "here"))


def f(x):
    return x + (HERE and firesteel.is_compiling())
"""


def test_what_fails_in_its_own_folder_alone_cannot_be_cut_and_that_is_said(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "train.py").write_text(ELSEWHERE, encoding="utf-8")
    done = python("-m", "firesteel", "minify", "train.py:f", "--args", "torch.ones(3)", folder=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no repro was written: it does not fail when it runs from another folder, or not each time" in done.stdout
    assert "try: firesteel explain train.py:f --args 'torch.ones(3)' --report out.html, and " in done.stdout
    assert not (tmp_path / "repro.py").exists()
