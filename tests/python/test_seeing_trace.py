"""record_trace(): what is compiled and run as a Chrome trace, alone and beside torch.profiler's."""

import gzip
import itertools
import json
import os
import subprocess
import sys
import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import firesteel

THIS = os.path.basename(__file__)


def program(x, y):
    z = x.mm(y)
    return ((z + 1).relu() * 3).sum()


LINE = program.__code__.co_firstlineno


def breaking(x):
    y = x.sin() + 1
    print(end="")
    return y.cos() * 2


def slices(path, kind):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return [event for event in events if event.get("cat") == f"firesteel {kind}"]


def is_inside(inner, outer):
    """Within the rounding of times, which is a thousandth of a microsecond."""
    return (inner["tid"] == outer["tid"] and inner["ts"] >= outer["ts"] - 0.01
            and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.01)  # fmt: skip


def recorded(path, function, *args):
    with firesteel.record_trace(path):
        compiled = firesteel.compile(function, wait=True, isolate_recompiles=True)
        for _ in range(2):
            result = compiled(*args)
            if result.requires_grad:
                result.sum().backward()
    return compiled


@pytest.mark.usefixtures("native")
def test_captures_stages_and_kernels_have_their_place(tmp_path):
    path = tmp_path / "out.json"
    firesteel._C._forget_kernels()
    recorded(path, program, torch.randn(8, 8, requires_grad=True), torch.randn(8, 8))
    (capture,) = slices(path, "capture")
    assert capture["name"] == f"capture program ({THIS}:{LINE})"
    assert capture["args"]["file"] == __file__
    assert capture["args"]["operations"] == 5
    stages = slices(path, "stage")
    assert [stage["name"] for stage in stages] == ["passes", "partition", "code"]
    assert all(is_inside(stage, capture) for stage in stages)
    for before, after in itertools.pairwise(stages):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.01
    kernels = slices(path, "kernel")
    assert kernels
    assert all(f"({THIS}:{LINE + 2})" in kernel["name"] and kernel["args"]["loops"] for kernel in kernels)
    assert {kernel["args"]["phase"] for kernel in kernels} == {"forward", "backward"}
    # Each at its time: kernels are made while the code stage lasts, for wait=True.
    assert all(capture["ts"] <= kernel["ts"] <= capture["ts"] + capture["dur"] for kernel in kernels)


@pytest.mark.usefixtures("native")
def test_runs_hold_their_kernels_and_operators_with_lines(tmp_path):
    path = tmp_path / "out.json"
    recorded(path, program, torch.randn(8, 8, requires_grad=True), torch.randn(8, 8))
    runs = slices(path, "run")
    pieces = [run for run in runs if run["name"].startswith(f"program ({THIS}:{LINE}), graph ")]
    backwards = [run for run in runs if run["name"] == "program_backward"]
    assert len(pieces) == len(backwards) == 2
    kernels = [run for run in runs if run["name"].startswith("kernel add, relu, mul")]
    products = [run for run in runs if run["name"] == f"aten.mm ({THIS}:{LINE + 1})"]
    assert len(kernels) == 2
    assert len(products) >= 2
    for inner in (*kernels, *products):
        assert sum(is_inside(inner, outer) for outer in (*pieces, *backwards)) == 1
    assert all(kernel["name"].endswith(f"({THIS}:{LINE + 2})") for kernel in kernels)
    captures = slices(path, "capture")
    assert min(run["ts"] for run in runs) >= captures[0]["ts"] + captures[0]["dur"]


def test_breaks_recompiles_and_their_lines_are_notes(tmp_path):
    path = tmp_path / "out.json"
    with firesteel.record_trace(path):
        compiled = firesteel.compile(breaking, dynamic=False)
        compiled(torch.ones(3))
        compiled(torch.ones(4))
    notes = [note["name"] for note in slices(path, "note")]
    line = breaking.__code__.co_firstlineno
    assert f"graph break [FS-C-FUNCTION] ({THIS}:{line + 2})" in notes
    assert any(note.startswith("recompile (") for note in notes)
    assert all(note["ph"] == "i" for note in slices(path, "note"))


def well_formed(event):
    """As the Chrome trace format asks of each phase."""
    fields = {"M": ("name", "pid", "args"), "X": ("name", "cat", "ts", "dur", "pid", "tid"),
              "i": ("name", "cat", "ts", "pid", "tid", "s")}[event["ph"]]  # fmt: skip
    numbers = [event[field] for field in ("ts", "dur") if field in event]
    return all(field in event for field in fields) and all(type(it) in (int, float) and it >= 0 for it in numbers)


@pytest.mark.usefixtures("native")
def test_every_event_is_one_that_perfetto_takes(tmp_path):
    path = tmp_path / "out.json"
    recorded(path, breaking, torch.ones(64, 64, requires_grad=True))
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "i"}
    assert all(well_formed(event) for event in events), [event for event in events if not well_formed(event)]
    assert trace["baseTimeNanoseconds"] >= 0
    tracks = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in events if event["ph"] != "M"} <= tracks
    # Slices of a track lie within each other or apart: others cannot be drawn.
    for track in tracks:
        slices = sorted((e["ts"], -e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == track)
        ends = []
        for begin, minus in slices:
            while ends and ends[-1] <= begin + 0.01:
                ends.pop()
            assert not ends or begin - minus <= ends[-1] + 0.01
            ends.append(begin - minus)


def test_every_thread_has_a_track_with_a_name(tmp_path):
    path = tmp_path / "out.json.gz"
    compiled = firesteel.compile(program)
    compiled(torch.ones(4, 4), torch.ones(4, 4))
    with firesteel.record_trace(path):
        threads = [threading.Thread(target=compiled, args=(torch.ones(4, 4), torch.ones(4, 4))) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
        compiled(torch.ones(4, 4), torch.ones(4, 4))
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    runs = {event["tid"] for event in events if event.get("cat") == "firesteel run"}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert len(runs) >= 2
    assert all(names[track].startswith("firesteel: runs, thread ") for track in runs)
    assert not [event for event in events if event.get("cat") == "firesteel capture"]  # from before it was on


def test_recordings_may_lie_within_each_other_and_end_once(tmp_path):
    compiled = firesteel.compile(program)
    x = torch.ones(4, 4)
    outer = firesteel.record_trace(tmp_path / "outer.json")
    assert ", on>" in repr(outer)
    compiled(x, x)
    with firesteel.record_trace(tmp_path / "inner.json"):
        compiled(x, x)
    compiled(x, x)
    assert outer.stop() == outer.stop() == str(tmp_path / "outer.json")
    assert ", written>" in repr(outer)

    def pieces(name):
        return [run for run in slices(tmp_path / name, "run") if run["name"].startswith("program (")]

    assert len(pieces("inner.json")) == 1
    assert len(pieces("outer.json")) == 3


def test_nothing_is_kept_when_nobody_records():
    firesteel.compile(program)(torch.ones(4, 4), torch.ones(4, 4))
    assert firesteel._C._stop_run_log() == ([], 0)


@pytest.mark.usefixtures("native")
def test_torchs_profiler_sees_compiled_code_and_merges(tmp_path):
    ours, theirs, both = (tmp_path / name for name in ("ours.json", "theirs.json", "both.json"))
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    compiled = firesteel.compile(program, wait=True)
    compiled(x, y)
    with profile(activities=[ProfilerActivity.CPU]) as profiler, firesteel.record_trace(ours):
        compiled(x, y)
    profiler.export_chrome_trace(str(theirs))
    names = {row.key for row in profiler.key_averages()}
    kernel = next(name for name in names if name.startswith("firesteel kernel add, relu, mul"))
    assert kernel.endswith(f"({THIS}:{LINE + 2})")
    assert firesteel.merge_traces(ours, theirs, both) == str(both)
    assert firesteel.merge_traces(theirs, ours, tmp_path / "other.json")
    for path in (both, tmp_path / "other.json"):
        with open(path, encoding="utf-8") as file:
            merged = json.load(file)
        assert merged["baseTimeNanoseconds"]
        run = next(event for event in merged["traceEvents"] if event.get("cat") == "firesteel run"
                   and event["name"].startswith("program ("))  # fmt: skip
        product = next(event for event in merged["traceEvents"] if event["name"] == "aten::mm")
        # The clocks are one: torch's operator lies within our piece, give or take their reading.
        assert run["ts"] - 50 <= product["ts"] <= run["ts"] + run["dur"] + 50
        assert run["pid"] == product["pid"]
        assert run["tid"] != product["tid"]


def test_traces_of_other_bases_are_put_on_one_clock(tmp_path):
    for name, trace in (("a", {"traceEvents": [{"name": "a", "ts": 5.0}], "baseTimeNanoseconds": 1000, "x": 1}),
                        ("b", {"traceEvents": [{"name": "b", "ts": 5.0}], "baseTimeNanoseconds": 3000, "y": 2}),
                        ("c", [{"name": "c", "ts": 5.0}])):  # fmt: skip
        (tmp_path / name).write_text(json.dumps(trace))
    firesteel.merge_traces(tmp_path / "a", tmp_path / "b", tmp_path / "ab")
    merged = json.loads((tmp_path / "ab").read_text())
    assert [(event["name"], event["ts"]) for event in merged["traceEvents"]] == [("a", 5.0), ("b", 7.0)]
    assert (merged["x"], merged["y"], merged["baseTimeNanoseconds"]) == (1, 2, 1000)
    firesteel.merge_traces(tmp_path / "a", tmp_path / "c", tmp_path / "ac.gz")
    assert len(json.loads(gzip.decompress((tmp_path / "ac.gz").read_bytes()))["traceEvents"]) == 2
    (tmp_path / "d").write_text("no json")
    with pytest.raises(ValueError, match="d is no Chrome trace"):
        firesteel.merge_traces(tmp_path / "a", tmp_path / "d", tmp_path / "out")
    with pytest.raises(TypeError, match=r"merge_traces\(\) needs a path, not 3"):
        firesteel.merge_traces(3, tmp_path / "a", tmp_path / "out")


PROGRAM = """
import torch

@torch.compile
def f(x):
    return x.sin() * 2

f(torch.ones(3))
f(torch.ones(3))
"""


@pytest.mark.parametrize("way", ["option", "word", "variable"])
def test_a_program_with_a_trace(tmp_path, way):
    script, out = tmp_path / "prögram.py", tmp_path / "out-%p.json"
    script.write_text(PROGRAM, encoding="utf-8")
    arguments = {"option": ["--trace", out, script], "word": ["run", "--trace", out, script], "variable": [script]}[way]
    done = subprocess.Popen(
        [sys.executable, "-m", "firesteel", *map(str, arguments)],
        env={**os.environ, **({"FIRESTEEL_TRACE": str(out)} if way == "variable" else {})},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _, errors = done.communicate(timeout=240)
    path = tmp_path / f"out-{done.pid}.json"
    assert done.returncode == 0
    assert errors == f"firesteel: the trace is in {path}\n"
    assert [capture["name"] for capture in slices(path, "capture")] == ["capture f (prögram.py:4)"]
    assert len([run for run in slices(path, "run") if run["name"].startswith("f (prögram.py:4)")]) == 2
