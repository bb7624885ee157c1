"""Progress: a compilation that takes long shows its stage and time, on a terminal as a bar, elsewhere as lines."""

import io
import os
import pty
import subprocess
import sys
import threading

import pytest
import torch

import firesteel
from firesteel import _C, _progress


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    firesteel.reset()
    firesteel.reset_counters()
    monkeypatch.setattr(_progress, "_told", None)
    yield
    _progress.start()


@pytest.fixture
def impatient():
    """Everything takes long."""
    before = _C._set_progress_patience(0.0)
    yield
    _C._set_progress_patience(before)


def deep(x, weights):
    for weight in weights:
        x = torch.tanh(x @ weight)
        for _ in range(20):
            x = x * 1.01 + 0.5
    return (x * 2).sum()


def arguments():
    torch.manual_seed(0)
    return torch.randn(8, 8), [torch.randn(8, 8, requires_grad=True) for _ in range(4)]


# --- what is told


@pytest.mark.usefixtures("impatient", "native")
def test_every_stage_of_a_compilation_is_told():
    seen = []
    _C._set_progress_listener(lambda *news: seen.append(news))
    firesteel._C._forget_kernels()
    x, weights = arguments()
    compiled = firesteel.compile(deep, wait=True, fullgraph=True)
    result = compiled(x, weights)
    result.backward()
    torch.testing.assert_close(result, deep(x, weights))
    assert firesteel.counters()["captured"] == 1
    assert not firesteel.counters()["fallbacks"]
    stages = list(dict.fromkeys(stage for stage, *_ in seen))
    assert stages == ["capturing", "tracing the backward", "simplifying the graph", "parting forward and backward",
                      "making code", "compiling kernels", ""]  # fmt: skip
    operators = [done for stage, done, *_ in seen if stage == "capturing"]
    assert operators == sorted(operators)
    assert operators[-1] > 20
    made = [(done, asked) for stage, done, asked, *_ in seen if stage == "compiling kernels" and done]
    assert made[-1][0] == made[-1][1] >= 2
    assert all(0 <= of_stage <= seconds + 1e-6 for stage, _, _, of_stage, seconds in seen if stage)
    # It has ended once, and a call that is served tells nothing.
    assert [stage for stage, *_ in seen].count("") == 1
    told = len(seen)
    compiled(x, weights)
    assert len(seen) == told


@pytest.mark.usefixtures("impatient")
def test_what_listens_is_no_part_of_the_capture():
    box, met = [], []

    class Counter:
        def __init__(self):
            self.steps = 0

    counter = Counter()

    def listen(stage, *news):
        met.append((stage, torch.ones(2).sum().item()))

    def f(x):
        box.append(1)
        counter.steps += 1
        for _ in range(100):
            x = x + 1
        return x

    _C._set_progress_listener(listen)
    compiled = firesteel.compile(f, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.zeros(3)), torch.full((3,), 100.0))
    assert [stage for stage, *_ in met].count("capturing") > 1
    assert all(total == 2 for *_, total in met)
    assert (box, counter.steps) == ([1, 1], 2)
    assert firesteel.counters()["hits"] == 2


@pytest.mark.usefixtures("impatient")
def test_an_interrupt_that_meets_the_listener_reaches_the_program():
    met = []

    def listen(stage, *news):
        met.append(stage)
        if len(met) == 1:
            raise KeyboardInterrupt

    def f(x):
        for _ in range(400):
            x = x + 1
        return x

    _C._set_progress_listener(listen)
    with pytest.raises(KeyboardInterrupt):
        firesteel.compile(f, backend="aot_eager")(torch.zeros(3))
    _C._set_progress_listener(None)
    torch.testing.assert_close(firesteel.compile(f, backend="aot_eager")(torch.zeros(3)), torch.full((3,), 400.0))


def test_nobody_is_told_of_a_quick_compilation(capfd):
    x, weights = arguments()
    firesteel.compile(deep, wait=True)(x, weights)
    assert firesteel.counters()["captured"] == 1
    assert capfd.readouterr().err == ""


# --- how it looks


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("has_rich", [True, False])
def test_one_line_on_a_terminal(monkeypatch, has_rich):
    screen, streams = Terminal(), (sys.stdout, sys.stdin)
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr(sys, "stderr", screen)
    _progress.show("capturing", 1234, 0, 3.0, 3.0)
    assert "firesteel: capturing" in screen.getvalue()
    assert "1,234 operators" in screen.getvalue()
    assert "3 s so far" in screen.getvalue()
    assert (sys.stdout, sys.stderr, sys.stdin) == (streams[0], screen, streams[1])
    _progress.show("compiling kernels", 10, 40, 3.0, 6.0)
    assert "10 of 40" in screen.getvalue()
    assert "6 s so far, about 9 s left" in screen.getvalue()
    assert "\n" not in screen.getvalue()
    _progress.show("", 0, 0, 0.0, 9.0)
    assert _progress._bar is None
    assert screen.getvalue().rstrip("\n").endswith("\x1b[K") or "\x1b[2K" in screen.getvalue()  # the line is gone


def test_few_lines_in_a_pipe(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    for made in range(1, 41):
        _progress.show("compiling kernels", made, 40, made / 4, 2.0 + made / 4)
    lines = pipe.getvalue().splitlines()
    assert lines[0] == "firesteel: compiling kernels, 1 of 40, 2 s so far, about 10 s left"
    assert 2 <= len(lines) <= 3
    # Another stage, or another compilation, is news.
    _progress.show("making code", 0, 0, 0.0, 12.1)
    _progress.show("", 0, 0, 0.0, 12.2)
    _progress.show("making code", 0, 0, 0.0, 2.0)
    assert pipe.getvalue().splitlines()[len(lines) :] == ["firesteel: making code, 12 s so far",
                                                          "firesteel: making code, 2 s so far"]  # fmt: skip
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    _progress.show("making code", 0, 0, 0.0, 9.0)


def test_a_backend_that_says_nothing_is_spoken_for(monkeypatch):
    told = threading.Event()
    seen = []

    def listen(*news):
        seen.append(news)
        told.set()

    def patient(graph, inputs):
        assert told.wait(60)
        return graph.forward

    monkeypatch.setattr(_progress, "_PATIENCE", 0.01)
    monkeypatch.setattr(_progress, "show", listen)
    firesteel.compile(lambda x: x.sin(), backend=patient)(torch.ones(3))
    stage, done, asked, *_ = seen[0]
    assert stage == "the backend `test_a_backend_that_says_nothing_is_spoken_for.<locals>.patient` is compiling"
    assert (done, asked) == (0, 0)
    assert seen[-1][0] == ""
    assert not [thread for thread in threading.enumerate() if thread.name == "firesteel progress"]


# --- whole programs

PROGRAM = """
import torch, firesteel
firesteel._C._set_progress_patience(0.0)
firesteel._progress._BETWEEN_LINES = 0.0
def f(x):
    for _ in range(300):
        x = x + 1
    return x
firesteel.compile(f, backend="aot_eager")(torch.ones(3))
print("done")
"""


def run(tmp_path, program=PROGRAM, prefix=(), **variables):
    script = tmp_path / "prögram.py"
    script.write_text(program, encoding="utf-8")
    return subprocess.run([*prefix, sys.executable, script.name], cwd=tmp_path, env={**os.environ, **variables},
                          capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)  # fmt: skip


EXECUTED = f"exec(compile({PROGRAM!r}, '<made>', 'exec'), {{}})\n"


@pytest.mark.parametrize(("program", "prefix"), [(PROGRAM, ()), (PROGRAM, ("nohup",)), (EXECUTED, ())],
                         ids=["pipe", "nohup", "exec"])  # fmt: skip
def test_plain_lines_where_there_is_no_terminal(tmp_path, program, prefix):
    done = run(tmp_path, program, prefix)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    lines = [line for line in done.stderr.splitlines() if line.startswith("firesteel: ")]
    assert lines[0].startswith("firesteel: capturing, ")
    assert lines[0].endswith("0 s so far")
    assert any("operators" in line for line in lines)
    assert "\x1b" not in done.stderr


def test_quiet_is_quiet(tmp_path):
    done = run(tmp_path, FIRESTEEL_PROGRESS="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_bar_on_a_real_terminal_leaves_nothing_behind(tmp_path):
    script = tmp_path / "prögram.py"
    script.write_text(PROGRAM, encoding="utf-8")
    ours, theirs = pty.openpty()
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    started = subprocess.Popen([sys.executable, script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=theirs, env=variables)  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert started.communicate(timeout=240)[0] == b"done\n"
    assert started.returncode == 0
    assert b"firesteel: capturing" in shown
    assert b"\x1b[2K" in shown.rsplit(b"firesteel: ", 1)[1]  # the last line was taken away
