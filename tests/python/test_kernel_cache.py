"""Machine code on disk: found again, never trusted blindly, and never in the way."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

import firesteel
from firesteel import _C

firesteel.trace(lambda x: (x + 1) * 2, torch.ones(2), native=True)(torch.ones(2))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CACHE", "1")
    monkeypatch.setenv("FIRESTEEL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def run_native(scale=1.5):
    """What became of one kernel; its result is checked."""
    _C._forget_kernels()
    firesteel.reset_native_counters()
    x = torch.randn(37)
    graph = firesteel.trace(lambda x: (x * scale).sin() + x, x, native=True)
    torch.testing.assert_close(graph(x), (x * scale).sin() + x)
    counts = firesteel.native_counters()
    assert counts["kernels_run"] == 1, counts
    return {name: counts[f"kernels_{name}"] for name in ("compiled", "loaded", "failed")}


COMPILED = {"compiled": 1, "loaded": 0, "failed": 0}
LOADED = {"compiled": 0, "loaded": 1, "failed": 0}


def test_code_is_found_again(folder):
    assert run_native() == COMPILED
    assert run_native() == LOADED
    assert run_native(2.5) == COMPILED
    assert len(list(folder.iterdir())) == 2
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


def cut(data):
    return data[: len(data) // 2]


def flip_last(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def flip_in_key(data):
    return data[:60] + bytes([data[60] ^ 1]) + data[61:]


@pytest.mark.parametrize("damage", [cut, flip_last, flip_in_key, lambda data: b"", lambda data: b"\0" * len(data)])
def test_damaged_entries_are_made_again(folder, damage):
    assert run_native() == COMPILED
    (entry,) = folder.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert run_native() == COMPILED
    assert run_native() == LOADED


def test_a_folder_that_others_can_reach_is_not_used(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    assert run_native() == COMPILED
    assert run_native() == COMPILED
    assert list(folder.iterdir()) == []


def test_a_link_in_the_folder_s_place_is_not_used(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.parent.mkdir()
    folder.symlink_to(elsewhere)
    assert run_native() == COMPILED
    assert list(elsewhere.iterdir()) == []


def test_a_file_in_the_folder_s_place(folder):
    folder.parent.mkdir()
    folder.write_text("")
    assert run_native() == COMPILED


def test_no_cache_is_no_error(folder, monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CACHE", "0")
    assert run_native() == COMPILED
    assert run_native() == COMPILED
    monkeypatch.setenv("FIRESTEEL_CACHE", "1")
    monkeypatch.setenv("FIRESTEEL_CACHE_DIR", "/proc/no such place")
    assert run_native() == COMPILED


def test_the_folder_stays_within_its_limit(folder, monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CACHE_LIMIT", "20000")
    for scale in range(130):
        run_native(scale + 0.25)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 65 * 12000


PROGRAM = """
import torch, firesteel
x = torch.randn(64)
graph = firesteel.trace(lambda x: (x * 3.5).cos() - x, x, native=True)
torch.testing.assert_close(graph(x), (x * 3.5).cos() - x)
print(firesteel.native_counters()["kernels_loaded"])
"""


def test_processes_share_it(folder):
    root = pathlib.Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root / "python")}
    at_once = [subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env=env) for _ in range(3)]
    for process in at_once:
        process.communicate(timeout=300)
        assert process.returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env, check=True, timeout=300
    )
    assert done.stdout == "1\n"
