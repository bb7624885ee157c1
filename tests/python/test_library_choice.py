"""Products and convolutions by whichever library is faster: every way against eager, and how one is chosen and kept."""

import os
import re
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

import firesteel
from firesteel import _C


@pytest.fixture(autouse=True)
def choices(native, tmp_path, monkeypatch):
    """The folder of answers, empty."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setenv("FIRESTEEL_CACHE", "1")
    monkeypatch.setenv("FIRESTEEL_CACHE_DIR", str(tmp_path / "cache"))
    _C._forget_contests()
    firesteel.reset_native_counters()
    yield tmp_path / "cache" / "choices"
    _C._forget_contests()


def contests():
    counts = firesteel.native_counters()
    return counts["contests_held"], counts["contests_loaded"]


def answers(folder):
    return [line for path in folder.iterdir() for line in path.read_text().splitlines()]


def decide_all(folder, way):
    """As if that way had won every contest."""
    for path in folder.iterdir():
        path.write_text(re.sub(r" = \d;", f" = {way};", path.read_text()))
    _C._forget_contests()


def check(function, make, train=True):
    """Results and gradients against eager, for fresh values each time."""
    compiled = firesteel.compile(function, fullgraph=True, wait=True)
    for seed in (1, 2):
        torch.manual_seed(seed)
        inputs = [tensor.requires_grad_(train) for tensor in make()]
        got, wanted = compiled(*inputs), function(*inputs)
        assert got.stride() == wanted.stride()
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)
        if not train:
            continue
        weights = torch.randn_like(wanted)
        mine, theirs = (torch.autograd.grad((result * weights).sum(), inputs) for result in (got, wanted))
        assert [tensor.stride() for tensor in mine] == [tensor.stride() for tensor in theirs]
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-2)


def shaped(*shapes):
    return lambda: [torch.randn(shape) for shape in shapes]


def transposed(rows, *others):
    return lambda: [torch.randn(rows[::-1]).t(), *(torch.randn(shape) for shape in others)]


def convolution(**settings):
    return lambda x, w, *b: F.conv2d(x, w, *b, **settings)


PROGRAMS = {
    "mm": (torch.mm, shaped((130, 120), (120, 90))),
    "mm, transposed": (torch.mm, transposed((130, 120), (120, 90))),
    "linear": (F.linear, shaped((64, 128), (257, 128), (257,))),
    "linear over a batch": (F.linear, shaped((3, 32, 128), (257, 128))),
    "bmm": (torch.bmm, shaped((3, 120, 100), (3, 100, 130))),
    "bmm, transposed": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), shaped((2, 120, 100), (2, 130, 100))),
    "3x3": (convolution(padding=1), shaped((2, 16, 20, 21), (24, 16, 3, 3), (24,))),
    "3x3, strided, in groups": (convolution(stride=2, groups=4, dilation=2), shaped((2, 32, 40, 40), (64, 8, 3, 3))),
    "1x1": (convolution(), shaped((2, 48, 20, 21), (64, 48, 1, 1))),
    "1x1, one picture": (convolution(), shaped((1, 64, 20, 21), (96, 64, 1, 1))),
    "1x1 with a bias": (convolution(), shaped((3, 48, 20, 21), (64, 48, 1, 1), (64,))),
    "1x1, strided": (convolution(stride=(2, 3)), shaped((2, 96, 35, 34), (80, 96, 1, 1))),
    "1x1, padded": (convolution(padding=1), shaped((2, 48, 20, 21), (64, 48, 1, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_way_is_right(name, choices):
    program, make = PROGRAMS[name]
    check(program, make)
    held = contests()[0]
    assert held == len(answers(choices)) > 0
    for way in (0, 1, 2):
        decide_all(choices, way)
        firesteel.reset_native_counters()
        check(program, make)
        # An answer that no way stands for is none: those contests are held again.
        assert contests()[1] == held
        if way < 2:
            assert contests()[0] == 0


def test_ways_are_taken_as_decided(choices):
    x, y = torch.randn(200, 150), torch.randn(150, 170)
    compiled = firesteel.compile(torch.mm, wait=True)
    compiled(x, y)
    counted = []
    for way in (0, 1):
        decide_all(choices, way)
        firesteel.reset_native_counters()
        torch.testing.assert_close(compiled(x, y), x @ y, rtol=1e-4, atol=1e-4)
        counted.append(firesteel.native_counters()["onednn_matmuls"])
    assert counted == [0, 1]


def test_a_contest_is_held_once(choices):
    compiled = firesteel.compile(lambda x, y: (x @ y).relu(), wait=True)
    x, y = torch.randn(200, 150), torch.randn(150, 170)
    first = compiled(x, y)
    assert contests() == (1, 0)
    for _ in range(5):
        assert torch.equal(compiled(x, y), first)  # the winner's result from the first call on
    assert contests() == (1, 0)
    other = firesteel.compile(lambda x, y: x @ y + 1, wait=True)
    other(torch.randn(201, 150), torch.randn(150, 170))  # near enough
    assert contests() == (1, 0)
    other(torch.randn(400, 150), torch.randn(150, 170))
    assert contests() == (2, 0)
    assert len(answers(choices)) == 2
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        compiled(x, y)
    finally:
        torch.set_num_threads(before)
    assert contests() == (3, 0)


def test_answers_are_kept_on_disk(choices):
    compiled = firesteel.compile(torch.mm, wait=True)
    x, y = torch.randn(200, 150), torch.randn(150, 170)
    compiled(x, y)
    _C._forget_contests()
    firesteel.reset_native_counters()
    compiled(x, y)
    assert contests() == (0, 1)
    assert choices.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in choices.iterdir())


def test_a_damaged_file_is_no_answer(choices):
    compiled = firesteel.compile(torch.mm, wait=True)
    x, y = torch.randn(200, 150), torch.randn(150, 170)
    compiled(x, y)
    (path,) = choices.iterdir()
    whole = path.read_bytes()
    for damage in (
        whole[:10],
        b"\xff\x00" * 50,
        b"",
        whole.replace(b";", b""),
        b"zz" + whole,
        whole.replace(b"=", b"-"),
    ):
        path.write_bytes(damage)
        _C._forget_contests()
        firesteel.reset_native_counters()
        torch.testing.assert_close(compiled(x, y), x @ y, rtol=1e-4, atol=1e-4)
        assert contests() == (1, 0), damage


def test_a_folder_that_cannot_be_used_is_none(choices, monkeypatch):
    compiled = firesteel.compile(torch.mm, wait=True)
    x, y = torch.randn(200, 150), torch.randn(150, 170)
    compiled(x, y)
    choices.chmod(0o755)
    _C._forget_contests()
    firesteel.reset_native_counters()
    compiled(x, y)
    assert contests() == (1, 0)
    for folder in ("/proc/nowhere", os.devnull):
        monkeypatch.setenv("FIRESTEEL_CACHE_DIR", folder)
        _C._forget_contests()
        compiled(x, y)
    assert contests() == (3, 0)


def test_a_rule_decides_where_nothing_is_measured(choices, monkeypatch):
    compiled = firesteel.compile(torch.mm, wait=True)
    x, y = torch.randn(200, 150), torch.randn(150, 170)
    torch.use_deterministic_algorithms(True)
    try:
        compiled(x, y)
    finally:
        torch.use_deterministic_algorithms(False)
    monkeypatch.setenv("FIRESTEEL_MEASURE", "0")
    _C._forget_contests()
    compiled(x, y)
    assert contests() == (0, 0)
    assert not choices.exists() or answers(choices) == []


def test_open_sizes_find_their_library(choices):
    weight = torch.randn(300, 200)
    compiled = firesteel.compile(lambda x: F.linear(x, weight).relu(), dynamic=True, wait=True, backend="firesteel")
    for rows in (3, 60, 61, 200, 500):
        x = torch.randn(rows, 200)
        torch.testing.assert_close(compiled(x), F.linear(x, weight).relu(), rtol=1e-4, atol=1e-4)
    assert contests()[0] == 3  # 60 and 61 share one, 3 rows are too little work


def test_processes_share_answers(choices):
    program = """
import torch, firesteel
compiled = firesteel.compile(torch.mm, wait=True)
for size in (110, 150, 210, 300):
    x = torch.randn(size, size)
    torch.testing.assert_close(compiled(x, x), x @ x, rtol=1e-4, atol=1e-3)
counts = firesteel.native_counters()
print(counts["contests_held"] + counts["contests_loaded"])
"""
    run = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in run] == ["4"] * 3
    assert len({line.split()[0] for line in answers(choices)}) == 4
    after = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert after.stdout.strip() == "4"


def test_a_fork_in_between(choices):
    compiled = firesteel.compile(torch.mm, wait=True)
    x = torch.randn(200, 200)
    compiled(x, x)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        os._exit(0 if torch.allclose(compiled(x, x), x @ x, rtol=1e-4, atol=1e-3) else 1)
    assert os.waitpid(child, 0)[1] == 0
