"""The command line: words that teach, programs that run with a report or logs, the cache, and the doctor."""

import os
import subprocess
import sys

import pytest

from firesteel import __main__ as command_line
from firesteel._commands import cache, doctor

PROGRAM = """
import sys
import torch

@torch.compile
def f(x):
    y = x.sin() * 2
    print("seen", *sys.argv[1:])
    return y.cos()

def g(x, scale):
    return (x * scale).relu().sum()

def alone():
    return torch.ones(3).sin() * 2

if __name__ == "__main__":
    f(torch.ones(3))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "träin.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def firesteel_command(*arguments, **variables):
    return subprocess.run([sys.executable, "-m", "firesteel", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **variables}, timeout=240)  # fmt: skip


@pytest.mark.parametrize("word", ["run", "report", "explain", "minify", "bench", "cache", "doctor"])
def test_every_word_teaches(word, capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main([word, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: firesteel {word}")
    assert len(text.splitlines()) >= 8
    command_line.main([])
    assert f"\n  {word} " in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--report", "{out}", "{script}", "--epochs", "3"],
                                       ["report", "-o", "{out}", "{script}", "--epochs", "3"],
                                       ["run", "--report", "{out}", "{script}", "--epochs", "3"]])  # fmt: skip
def test_a_program_and_its_report(script, tmp_path, arguments):
    out = tmp_path / "out.html"
    done = firesteel_command(*(part.format(out=out, script=script) for part in arguments))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "seen --epochs 3\n"
    assert done.stderr == f"firesteel: the report is in {out}\n"
    page = out.read_text(encoding="utf-8")
    assert "träin.py:8" in page
    assert "FS-C-FUNCTION" in page


def test_a_program_with_logs(script):
    done = firesteel_command("run", "--logs", "breaks", script)
    assert done.returncode == 0
    assert "tr\u00e4in.py:8: graph break in `f` [FS-C-FUNCTION]" in done.stderr
    done = firesteel_command("--logs", "brakes", script)
    assert done.returncode == 2
    assert "knows no log 'brakes'; those there are: breaks" in done.stderr


def test_explain_calls_with_what_is_given(script):
    done = firesteel_command("explain", f"{script}:g", "--args", "torch.randn(8, 8), scale=2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("g: 1 graph, 3 operations, 0 graph breaks")
    assert "seen" not in done.stdout  # what stands under __main__ is not run
    assert firesteel_command("explain", f"{script}:alone").stdout.startswith("alone: 1 graph")


def test_bench_measures_both_and_says_where_they_differ(script):
    given = ["--args", "torch.randn(8, 8, requires_grad=True), scale=2", "--backward", "--seconds", "0.1"]
    done = firesteel_command("bench", f"{script}:g", *given, "--backend", "aot_eager", "--backend", "firesteel")
    assert done.returncode == 0, done.stderr
    head, eager, aot, native, counts = done.stdout.splitlines()
    assert head.split() == ["fastest", "median", "first"]
    assert (eager.split()[0], aot.split()[0], native.split()[0]) == ("eager", "aot_eager", "firesteel")
    assert "× eager's speed" in native
    assert "× eager's speed" not in eager
    assert counts == "2 captures, 0 graph breaks, 0 eager runs in the first calls"
    wrong = firesteel_command("bench", f"{script}:f", "--args", "torch.ones(3)", "--backward", "--seconds", "0")
    assert "needs a result that requires a gradient" in wrong.stderr


@pytest.mark.parametrize(("arguments", "words"), [
    (["explain", "{script}:g"], "g needs x, scale: give them by --args"),
    (["explain", "{script}:nothing"], "has no nothing"),
    (["explain", "{script}:alon"], "has no alon; did you mean alone?"),
    (["explain", "{script}:g.part"], "g of {script} has no part"),
    (["explain", "{script}:__name__"], "is a str, which cannot be called"),
    (["explain", "{script}:g", "--args", "torch.ones(3"], "gives no arguments: SyntaxError: "),
    (["explain", "{script}:g", "--args", "nothing"], "gives no arguments: NameError: name 'nothing' is not defined"),
    (["explain", "{script}:g", "--args", "1, 2, 3"], "does not take what --args gives: too many positional arguments"),
    (["bench", "{script}:nothing"], "has no nothing"),
    (["nonsense"], "nonsense is neither a script nor a word; words: run, report, explain, "),
    (["explain", "{script}"], "is not of the form script.py:function"),
    (["explain", "nowhere.py:f"], "there is no script nowhere.py"),
    (["bench", "{script}:g"], "g needs x, scale: give them by --args"),
    (["bench", "{script}:alone", "--backend", "fast"], 'there is no backend "fast"'),
    (["run"], "a script is needed"),
    (["run", "-m"], "-m needs a module"),
    (["report", "nowhere.py"], "there is no script nowhere.py"),
    (["--report", "out.html"], "need a program"),
    (["cache"], "what"),
    (["cache", "burn"], "invalid choice: 'burn'"),
])  # fmt: skip
def test_mistakes_are_told(script, arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main([part.format(script=script) for part in arguments])
    assert ended.value.code == 2
    assert words.format(script=script) in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["run"], ["report", "-o", "out.html"], ["explain"], ["bench"]])
def test_a_program_that_raises_shows_its_own_frames_alone(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "räises.py").write_text("def f():\n    raise ValueError('mine')\n\n\nf()\n", encoding="utf-8")
    name = "räises.py" + (":f" if arguments[0] in ("explain", "bench") else "")
    done = firesteel_command(*arguments, name)
    assert done.returncode == 1
    shown = done.stderr.replace("firesteel: the report is in ", "").splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    assert "räises.py" in shown[1]
    assert "ValueError: mine" in shown
    assert "_commands" not in done.stderr


@pytest.mark.usefixtures("native")
def test_the_cache_is_shown_and_cleared(script, tmp_path):
    folder = tmp_path / "cache"
    here = {"FIRESTEEL_CACHE": "1", "FIRESTEEL_CACHE_DIR": str(folder), "FIRESTEEL_WAIT": "1"}
    assert firesteel_command("run", script, **here).returncode == 0
    kernels = list((folder / "kernels").glob("*.o"))
    assert kernels
    shown = firesteel_command("cache", "info", **here).stdout
    assert f"folder   {folder}/kernels\nkernels  {len(kernels)}\n" in shown
    (folder / "kernels/notes.txt").write_text("mine")
    assert firesteel_command("cache", "clear", **here).stdout.startswith(f"removed {len(kernels)} kernel")
    assert [path.name for path in (folder / "kernels").iterdir()] == ["notes.txt"]
    assert "nothing to remove" in firesteel_command("cache", "clear", **here).stdout
    assert "the cache is off" in firesteel_command("cache", "info", FIRESTEEL_CACHE="0").stdout


def test_the_cache_says_why_it_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FIRESTEEL_CACHE", raising=False)
    (tmp_path / "kernels").mkdir(mode=0o755)
    assert "chmod 700" in cache.info()


@pytest.mark.usefixtures("native")
def test_the_doctor_finds_all_well(tmp_path):
    done = firesteel_command("doctor", FIRESTEEL_CACHE="1", FIRESTEEL_CACHE_DIR=str(tmp_path), FIRESTEEL_LOG="breaks")
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("ok    firesteel ", "instruction sets: ", "are one graph, and agree with eager",
                 "its kernels were compiled and run", f"kernels in {tmp_path}", "_LOG is set, and means nothing",
                 "did you mean FIRESTEEL_LOGS?", "all is well"):  # fmt: skip
        assert part in done.stdout, done.stdout


def test_the_doctor_names_a_cache_that_others_may_enter(tmp_path):
    (tmp_path / "kernels").mkdir(mode=0o777)
    (tmp_path / "kernels").chmod(0o777)
    done = firesteel_command("doctor", FIRESTEEL_CACHE="1", FIRESTEEL_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "BAD   cache" in done.stdout
    assert "something is wrong" in done.stdout


def test_every_variable_that_the_sources_read_is_known():
    root = os.path.join(os.path.dirname(__file__), "../..")
    found = set()
    for folder in ("src", "python/firesteel"):
        for where, _, files in os.walk(os.path.join(root, folder)):
            for name in files:
                if name.endswith((".cpp", ".h", ".py")):
                    with open(os.path.join(where, name), encoding="utf-8") as file:
                        found.update(_read_variables(file.read()))
    assert found <= set(doctor.VARIABLES), found - set(doctor.VARIABLES)
    assert len(found) >= 8


def _read_variables(text):
    import re

    return re.findall(r'(?:getenv\(|environ\.get\(|environ\[|VARIABLE = )"(FIRESTEEL[A-Z_]*)"', text)
