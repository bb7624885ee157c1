"""Ctrl-C and lack of memory at any point of a capture: the program's state is that of before the call, or of eager."""

import importlib.util
import subprocess
import sys

import pytest
import torch
from against_eager import BACKENDS

import firesteel


class Thing:
    pass


class State:
    def __init__(self):
        self.items, self.table, self.thing, self.count = [1], {"a": 1}, Thing(), 0

    def look(self):
        return (len(self.items), sorted(self.table), sorted(vars(self.thing)), self.count, torch.is_grad_enabled())


STATE = State()


def helper(x):
    STATE.count += 1
    return x + 1


def writes_in_a_row(x):
    y = x * 2
    STATE.items.append(y)
    STATE.table["c"] = y + 1
    STATE.thing.fresh = {"x": y}
    with torch.no_grad():
        y = helper(y)
    try:
        z = [part * 2 for part in (x, y)]
    except (MemoryError, KeyboardInterrupt):
        z = None
    return z, y


# After each of the writes, in their order.
LOOKS = [
    (1, ["a"], [], 0, True),
    (2, ["a"], [], 0, True),
    (2, ["a", "c"], [], 0, True),
    (2, ["a", "c"], ["fresh"], 0, True),
    (2, ["a", "c"], ["fresh"], 1, True),
]


def check_afterwards(compiled, x):
    global STATE
    STATE = State()
    z, y = compiled(x)
    assert torch.equal(z[1], x * 6)
    assert torch.equal(y, x * 3)
    assert STATE.look() == LOOKS[-1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_interrupts_at_any_instruction(backend):
    global STATE
    x = torch.ones(3)
    interrupted = 0
    for after in range(1, 400):
        STATE = State()
        compiled = firesteel.compile(writes_in_a_row, backend=backend, fullgraph=True)
        firesteel._C._interrupt_after(after)
        try:
            compiled(x)
            sum(range(3))  # whoever called sees a late one
            for _ in range(2):
                pass
            finished = True
        except KeyboardInterrupt:
            finished = False
        never_pressed = firesteel._C._interrupt_after(0)
        assert STATE.look() in (LOOKS[0], LOOKS[-1])
        interrupted += not finished
        check_afterwards(compiled, x)
        if never_pressed:
            break
    assert never_pressed
    assert interrupted == after - 1 > 50


PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import _testcapi, torch, firesteel
import test_interruptions as t

x, failures, calls = torch.ones(3), 0, 0
t.check_afterwards(firesteel.compile(t.writes_in_a_row, backend={backend!r}), x)
for number in range(150):
    t.STATE = t.State()
    compiled = firesteel.compile(t.writes_in_a_row, backend={backend!r})
    result = None
    _testcapi.set_nomemory(number, number + 1)
    try:
        result = compiled(x)
    except (MemoryError, torch.OutOfMemoryError):
        failures += 1
    finally:
        _testcapi.remove_mem_hooks()
    look = t.STATE.look()
    assert look in t.LOOKS, (number, look)
    assert result is None or look == t.LOOKS[-1], (number, look)
    t.check_afterwards(compiled, x)
print(failures)
"""


@pytest.mark.skipif(
    not importlib.util.find_spec("_testcapi"), reason="this Python comes without _testcapi, which takes memory away"
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_memory_at_any_allocation(backend):
    """One allocation after the other fails; most of them during the capture, which then steps aside."""
    program = PROGRAM.format(folder=__file__.rpartition("/")[0], backend=backend)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 30
