"""sys.settrace, cProfile, coverage and pdb at the same time, each on a thread of its own: each sees what it should."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import contextlib, cProfile, io, json, pdb, pstats, sys, threading
import coverage, torch, firesteel

def function(x, n):
    y = x * n
    print(end="")
    for i in range(n):
        y = y + i
    return y

FIRST = function.__code__.co_firstlineno
CALLS, TOOLS = 40, 4
wrong, seen, ready = [], {}, threading.Barrier(TOOLS + 1)
shared = firesteel.compile(function, backend=sys.argv[1], recompile_limit=64)

def work(who, compiled=shared):
    for i in range(CALLS):
        x = torch.ones(len(who))
        n = i % 4
        if not torch.equal(compiled(x, n), function.__wrapped__(x, n)):
            wrong.append((who, i))

function.__wrapped__ = lambda x, n: x * n + sum(range(n))

def plain():
    ready.wait()
    firesteel.reset_counters()
    work("plain", firesteel.compile(function, backend=sys.argv[1]))
    seen["plain"] = firesteel.counters()["hits"]

def traced():
    lines = set()
    def trace(frame, event, arg):
        if frame.f_code is function.__code__ and event == "line":
            lines.add(frame.f_lineno - FIRST)
        return trace
    ready.wait()
    sys.settrace(trace)
    try:
        work("traced")
    finally:
        sys.settrace(None)
    seen["traced"] = sorted(lines)

def profiled():
    profile = cProfile.Profile()
    ready.wait()
    profile.runcall(work, "profiled")
    stats = pstats.Stats(profile).stats
    seen["profiled"] = sum(row[1] for key, row in stats.items() if key[1:] == (FIRST, "function"))

def debugged():
    out = io.StringIO()
    ready.wait()
    for n in (1, 2):
        typed = io.StringIO("step\\nnext\\np ('y', y)\\ncontinue\\n")
        debugger = pdb.Pdb(stdin=typed, stdout=out, nosigint=True, readrc=False)
        result = debugger.runcall(shared, torch.ones(1), n)
        if result.item() != n + sum(range(n)):
            wrong.append(("debugged", n, result))
    seen["debugged"] = out.getvalue()

def covered():
    ready.wait()
    cover = coverage.Coverage(data_file=None, include=[__file__], config_file=False)
    cover.start()
    try:
        work("covered")
    finally:
        cover.stop()
    lines = cover.get_data().lines(__file__) or []
    seen["covered"] = sorted(line - FIRST for line in lines if FIRST < line <= FIRST + 5)

def guarded(part):
    try:
        part()
    except BaseException as error:
        wrong.append((part.__name__, repr(error)))
        ready.abort()

threads = [threading.Thread(target=guarded, args=(part,)) for part in (plain, traced, profiled, debugged)]
[thread.start() for thread in threads]
guarded(covered)
[thread.join() for thread in threads]
firesteel.reset_counters()
work("after")
seen["after"] = firesteel.counters()["hits"]
print(json.dumps({"wrong": wrong, "seen": seen}))
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_all_tools_at_once(backend, tmp_path):
    script = tmp_path / "watched.py"
    script.write_text(PROGRAM)
    ended = subprocess.run([sys.executable, script, backend], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    seen = found["seen"]
    assert not found["wrong"]
    if sys.version_info < (3, 12):  # from there on cProfile watches all threads
        assert seen["plain"] > 0
    assert seen["after"] == 40
    assert seen["traced"] == [1, 2, 3, 4, 5]
    assert seen["covered"] == [1, 2, 3, 4, 5]
    assert seen["profiled"] == 40 if sys.version_info < (3, 12) else seen["profiled"] >= 40
    assert seen["debugged"].count("-> y = x * n") == 2
    assert seen["debugged"].count("('y', tensor(") == 2
