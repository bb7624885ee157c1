"""What cannot be in a graph is one break, with both sides compiled: no frame is given up, nothing around it is torn."""

import collections
import logging
import threading
import time
import warnings

import numpy
import pytest
import torch
from against_eager import BACKENDS, same
from torch import nn

import firesteel

LOCK = threading.Lock()
LOG = logging.getLogger(__name__)
CALLS = 3


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


class Scaled(torch.Tensor):
    """A subclass with rules of its own: what is added to one is doubled, and plain."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **(kwargs or {})).as_subclass(torch.Tensor)
            return result * 2 if function is torch.Tensor.add else result


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.Tensor.cos else result


def inference_mode(x):
    y = x * 2
    with torch.inference_mode():
        z = (y + 1).sin()
    return y.cos(), z.is_inference(), z.clone()


def module_made_inside(x):
    y = x * 2
    layer = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4))
    return layer(y).sin()


def parameter_made_inside(x):
    y = x.detach() * 2
    weight = nn.Parameter(y)
    return (weight * x).sum(), weight


def requires_grad(x):
    y = x.detach() * 2
    y.requires_grad_()
    leaf = y.is_leaf
    return (y * 3).sum(), leaf


def detach_in_place(x):
    y = x * 2
    y.detach_()
    return y + 1


def retain_grad(x):
    y = x * 2
    y.retain_grad()
    loss = (y * y).sum()
    loss.backward()
    return y.grad, loss.detach()


def hook_on_a_tensor(x):
    y = x * 2
    y.register_hook(lambda gradient: gradient * 10)
    return (y * 3).sum()


def grad_is_read(x):
    y = x * 2
    return y if x.grad is None else y + x.grad


def grad_is_written(x):
    y = x * 2
    x.grad = torch.ones_like(x)
    return y + 1


def data_is_read(x):
    y = x.data * 2
    return y + 1


def data_is_written(x):
    y = x * 1
    y.data = torch.ones(3, 4)
    return y + 1


def backward_inside(x):
    y = (x * 2).sum()
    y.backward()
    return x.grad + 1, y.detach()


def grad_inside(x):
    y = (x * x).sum()
    (gradient,) = torch.autograd.grad(y, x)
    return gradient * 2


def address(x):
    y = x * 2
    known = {id(LOCK): "lock"}
    return y + 1, known[id(LOCK)]


def lock(x):
    y = x * 2
    with LOCK:
        y = y + 1
    return y * 3


def numpy_array(x):
    y = x.detach() * 2
    a = numpy.sin(y.numpy()) + 1
    return torch.from_numpy(a) + 1


def subclass(x):
    y = x.detach().cos()
    z = y.as_subclass(Scaled)
    z = z + 1
    return z.sin() * 2


def function_mode(x):
    y = x * 2
    with Doubling():
        y = y.cos()
    return y.cos() * 3


def warning(x):
    y = x * 2
    warnings.warn("between", stacklevel=1)
    return y + 1


def logged(x):
    y = x * 2
    LOG.info("between %s", 1)
    return y + 1


def printed(x):
    y = x * 2
    print("between")
    return y + 1


def clock(x):
    y = x * 2
    now = time.time()
    return y + 1, now > 0


# The most breaks a call may have.
BREAKS = {
    module_made_inside: 2,
    parameter_made_inside: 1,
    requires_grad: 2,
    detach_in_place: 1,
    retain_grad: 3,
    hook_on_a_tensor: 1,
    grad_is_read: 2,
    grad_is_written: 1,
    data_is_read: 1,
    data_is_written: 1,
    backward_inside: 2,
    address: 2,
    lock: 2,
    numpy_array: 4,
    subclass: 4,
    function_mode: 2,
    warning: 1,
    logged: 1,
    printed: 1,
    clock: 1,
}


def gradient_of(result, x):
    loss = sum(t.sum() for t in result if isinstance(t, torch.Tensor) and t.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    return x.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", BREAKS, ids=lambda program: program.__name__)
def test_breaks_are_clean(program, backend, capsys):
    compiled = firesteel.compile(program, backend=backend)
    firesteel.reset_counters()
    for call in range(CALLS):
        outcomes = []
        for function in (program, compiled):
            torch.manual_seed(call)
            x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
            result = function(x)
            result = result if isinstance(result, tuple) else (result,)
            outcomes.append((result, gradient_of(result, x)))
        assert same(*outcomes)
        assert [type(value) for value in outcomes[0][0]] == [type(value) for value in outcomes[1][0]]
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert sum(counters["breaks"].values()) <= CALLS * BREAKS[program], counters
    assert counters["hits"] == CALLS
    pieces = [entry for entry in firesteel._C._entries(compiled) if entry["runs"]]
    assert pieces[0]["graph"].count(" = ") >= 1  # what comes before the break
    assert any(entry["reason"] is None and " = " in entry["graph"] for entry in pieces[1:] or pieces)


def data_is_changed(x):
    y = x * 1
    y.data.mul_(3)
    return y + 1


def already_requires_grad(x):
    x.requires_grad_()
    return (x * x).sum()


def tensors_in_sets(x):
    y = x * 2
    seen = {x, y}
    return y.sin(), x in seen, y in seen, len({x, x, y}), len({x: 1, y: 2})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        inference_mode,
        grad_inside,
        detach_in_place,
        grad_is_read,
        data_is_read,
        data_is_changed,
        address,
        already_requires_grad,
        tensors_in_sets,
    ],
)
def test_these_are_captured_whole(program, backend):
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    firesteel.reset_counters()
    for step in range(6):
        outcomes = []
        for function in (program, compiled):
            x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
            if step > 1:
                x.grad = torch.full((3, 4), float(step))
            result = function(x)
            result = result if isinstance(result, tuple) else (result,)
            outcomes.append((result, gradient_of(result, x)))
        assert same(*outcomes)
    counters = firesteel.counters()
    # A gradient is none at first, then one that is there, then one that moves.
    assert counters["captured"] <= (3 if program is grad_is_read else 1)
    assert counters["hits"] == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_deque_from_outside(backend):
    queues = collections.deque([1, 2], maxlen=3), collections.deque([1, 2], maxlen=3)

    def program(x, queue):
        y = x * 2
        queue.append(len(queue))
        first = queue.popleft()
        return y + first, list(queue)

    compiled = firesteel.compile(program, backend=backend)
    for _ in range(5):
        x = torch.ones(2)
        assert same(program(x, queues[0]), compiled(x, queues[1]))
        assert queues[0] == queues[1]
    assert firesteel.counters()["fallbacks"] == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_appending_to_a_deque_looks_at_nothing_in_it(backend):
    queues = [(collections.deque(maxlen=limit), collections.deque(maxlen=limit)) for limit in (None, 2, 4)]

    def program(x, queue, n):
        queue.append(n)
        queue.append(x + n)
        return x * 2

    compiled = firesteel.compile(program, backend=backend)
    for n in range(6):
        for mine, theirs in queues:
            x = torch.ones(2)
            assert same(program(x, theirs, n), compiled(x, mine, n))
            assert same(list(mine), list(theirs))
    assert firesteel.counters()["fallbacks"] == {}
    assert firesteel.counters()["captured"] <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_generator_runs_as_it_is(backend):
    def parts(x):
        yield x * 2
        received = yield x + 1
        yield x * received

    firesteel.reset_counters()
    compiled = firesteel.compile(parts, backend=backend)
    outcomes = []
    for function in (parts, compiled):
        running = function(torch.ones(2))
        outcomes.append([next(running), next(running), running.send(3)])
    assert same(*outcomes)
    assert firesteel.counters()["fallbacks"] == {"FS-GENERATOR": 1}
    with pytest.raises(firesteel.GraphBreakError, match="FS-GENERATOR"):
        firesteel.compile(parts, backend=backend, fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("given", [{"flag": None, "mode": "s"}, {"flag": 3, "other": 1.5}, {}])
def test_keyword_arguments_are_whole_after_an_attempt(given, backend):
    def function(x, **kwargs):
        flag = kwargs.pop("flag", "none")
        kwargs["added"] = "yes"
        y = x.sin()
        print(end="")  # breaks: what was captured before is captured once more, up to here
        return y, flag, sorted(kwargs)

    def fails(x, **kwargs):
        kwargs.pop("flag", None)
        kwargs["added"] = "yes"
        return x.view(1000)

    def tells(x, **kwargs):
        try:
            return fails(x, **kwargs)
        except RuntimeError as error:
            return str(error), sorted(kwargs)

    compiled, failing, telling = (firesteel.compile(f, backend=backend) for f in (function, fails, tells))
    for _ in range(3):
        x = torch.randn(3)
        found, expected = compiled(x, **given), function(x, **given)
        torch.testing.assert_close(found[0], expected[0])
        assert found[1:] == expected[1:]
        with pytest.raises(RuntimeError, match="invalid for input"):
            failing(x, **given)
        assert telling(x, **given) == tells(x, **given)
