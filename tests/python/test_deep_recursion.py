"""Functions that call themselves thousands of times: no more of the C stack is taken than there is."""

import subprocess
import sys
import threading

import pytest
import torch

import firesteel

CODE = """
import sys, threading, torch, firesteel

sys.setrecursionlimit(1_000_000)

def down(n, x):
    return x if n == 0 else down(n - 1, x)

def in_turns(n, x):
    if n == 0:
        return x
    y = in_turns(n - 1, x)
    print(end="")
    return y + 1

def run():
    x = torch.ones(2)
    for function in (down, in_turns):
        for backend in ("eager", "aot_eager"):
            compiled = firesteel.compile(lambda x, n: function(n, x) + 1, backend=backend)
            for n in (30, 300, 5000):
                assert torch.equal(compiled(x, n), function(n, x) + 1), (function, n)
    print("well")

if {thread}:
    worker = threading.Thread(target=run)
    worker.start()
    worker.join()
else:
    run()
"""


@pytest.mark.parametrize("thread", [False, True], ids=["main thread", "another"])
def test_thousands_of_calls(thread):
    done = subprocess.run(
        [sys.executable, "-c", CODE.replace("{thread}", str(thread))],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "well"), done.stderr[-2000:]


def test_a_small_stack():
    """In a thread with little stack a function runs as it is, or is compiled: never does the process end."""

    def function(x, n):
        return x if n == 0 else function(x + 1, n - 1)

    found = []
    compiled = firesteel.compile(function, backend="eager")
    before = threading.stack_size(512 * 1024)
    try:
        worker = threading.Thread(target=lambda: found.append(compiled(torch.zeros(1), 40)))
        worker.start()
        worker.join()
    finally:
        threading.stack_size(before)
    torch.testing.assert_close(found[0], torch.full((1,), 40.0))
