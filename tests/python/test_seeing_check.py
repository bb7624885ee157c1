"""FIRESTEEL_CHECK=1: right programs run as before, wrong kernels are named with graph and line."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import firesteel
from firesteel import _C, _check


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CHECK", "1")
    monkeypatch.setenv("FIRESTEEL_CACHE", "0")
    firesteel.reset_counters()
    torch.manual_seed(0)


@pytest.fixture
def wrong_kernels():
    _C._forget_kernels()
    _C._spoil_kernels(True)
    yield
    _C._spoil_kernels(False)
    _C._forget_kernels()


@pytest.fixture
def comparisons(monkeypatch):
    """How often results were compared."""
    seen = []
    compare = _check.compare
    monkeypatch.setattr(_check, "compare", lambda *args: seen.append(compare(*args)))
    return seen


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.5)

    def forward(self, x):
        h = functional.gelu(self.norm(self.first(x)))
        h.mul_(2)
        return self.drop(h).softmax(-1), h


def test_right_programs_give_the_same_as_without(comparisons, monkeypatch):
    def trained(steps=3):
        torch.manual_seed(1)
        model = Net()
        compiled = firesteel.compile(model, wait=True)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(steps):
            first, second = compiled(torch.randn(8, 16))
            optimizer.zero_grad()
            (first.pow(2).sum() + second.mean()).backward()
            optimizer.step()
        return [*model.parameters(), *model.buffers(), torch.rand(3)]

    under_check = trained()
    assert len(comparisons) == 3
    assert firesteel.counters()["captured"] == 1
    monkeypatch.delenv("FIRESTEEL_CHECK")
    for ours, theirs in zip(under_check, trained(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert len(comparisons) == 3


def test_writes_breaks_and_errors_are_the_programs_own(comparisons):
    def program(x, log, index):
        x.add_(1)
        log.append(float(x.sum()))
        return x[index]

    compiled = firesteel.compile(program)
    x, log = torch.zeros(3), []
    assert compiled(x, log, torch.tensor(1)) == 1
    assert log == [3.0]
    assert comparisons
    with pytest.raises(IndexError):
        compiled(x, log, torch.tensor(7))
    assert log == [3.0, 6.0]


@pytest.mark.usefixtures("native")
def test_a_wrong_kernel_is_named_with_graph_and_line(wrong_kernels):
    def program(x, y):
        z = x.mm(y)
        z = (z + 1).relu() * 3
        return z.mm(y)

    compiled = firesteel.compile(program, wait=True)
    x = torch.randn(8, 8)
    with pytest.raises(_check.CheckError) as raised:
        compiled(x, x)
    text = str(raised.value)
    line = program.__code__.co_firstlineno + 2
    first, *rest = text.splitlines()
    assert first == "a compiled call gives another result than eager"
    assert f"test_seeing_check.py:{line}  z = (z + 1).relu() * 3" in rest[0]
    assert "graph: piece " in rest[1]
    assert "%mm_1 = torch.Tensor.mm" in rest[1] or "torch.Tensor.mm" in rest[1]
    assert "difference: result 1: largest distance" in rest[2]
    assert "kernel: 1 of the forward, aten.add.Tensor, aten.relu, aten.mul.Tensor: largest distance" in rest[3]
    assert f"test_seeing_check.py:{line}" in rest[4]
    assert 'try: compile(backend="aot_eager")' in rest[5]
    assert isinstance(raised.value, firesteel.Error)


@pytest.mark.usefixtures("native")
def test_a_wrong_kernel_of_the_backward_is_found(monkeypatch):
    def program(x):
        return x.sin().exp()

    # Only the backward's kernel is made wrong: the forward's is there already.
    torch.manual_seed(0)
    x = torch.randn(8, 8, requires_grad=True)
    monkeypatch.delenv("FIRESTEEL_CHECK")
    _C._forget_kernels()
    with torch.no_grad():
        firesteel.compile(program, wait=True)(x)
    firesteel.compile(lambda x: (x.sin().exp(), x.sin()), wait=True)(x)
    monkeypatch.setenv("FIRESTEEL_CHECK", "1")
    _C._spoil_kernels(True)
    try:
        with pytest.raises(_check.CheckError, match=r"of the (forward|backward)"):
            firesteel.compile(program, wait=True, isolate_recompiles=True)(x * 1)
    finally:
        _C._spoil_kernels(False)
        _C._forget_kernels()


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        (torch.ones(3), torch.ones(3) + 1e-6, None),
        (torch.ones(3) * 1e6, torch.ones(3) * 1e6 + 1, None),
        (torch.tensor([float("nan"), float("inf")]), torch.tensor([float("nan"), float("inf")]), None),
        (torch.tensor([float("nan"), 1.0]), torch.tensor([0.0, 1.0]), "at [0]"),
        (torch.zeros(2, 2), torch.tensor([[0.0, 0.0], [0.5, 0.0]]), "0.5 at [1, 0] (eager 0, compiled 0.5)"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 elements differ, the first at [1]"),
        (torch.ones(2), torch.ones(3), "torch.float32[3], eager gives torch.float32[2]"),
        (torch.ones(2), torch.ones(2).double(), "torch.float64[2]"),
    ],
)  # fmt: skip
def test_how_near_is_near_enough(expected, found, words):
    what = _check.differs(expected, found)
    assert (what is None) if words is None else words in what


def test_copies_share_memory_as_the_inputs_do():
    base = torch.randn(4, 4)
    one, two, other = _check.copies([base, base[1], torch.ones(2, requires_grad=True)])
    two.zero_()
    assert one[1].eq(0).all()
    assert base[1].ne(0).any()
    assert other.requires_grad
    assert other.is_leaf
