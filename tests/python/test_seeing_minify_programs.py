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


def python(*arguments, folder):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, env=os.environ, capture_output=True,
                          text=True, timeout=300)  # fmt: skip


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
