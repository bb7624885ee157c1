"""Training through nonstrict_trace: what the function does inside, changes in place, random numbers, twenty steps."""

import contextlib
import sys
import threading

import pytest
import torch
from nonstrict_calls import BACKENDS, Box, assert_captured, compiled_whole

import firesteel

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x  # not the derivative: it must be this that runs


@torch.library.custom_op("controls_test::shift", mutates_args=())
def shift(x: torch.Tensor, by: float) -> torch.Tensor:
    return x + by


shift.register_fake(lambda x, by: torch.empty_like(x))
shift.register_autograd(lambda ctx, grad: (grad * 5, None))


def with_no_grad(x):
    with torch.no_grad():
        fixed = x.sin()
    return x * fixed


def with_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return torch.mm(x.view(1, -1), x.view(-1, 1)).float() * x


def with_checkpoint(x):
    return torch.utils.checkpoint.checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False)


def with_hook(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda grad: grad * 7)
    return y.sin()


BODIES = {
    "function": Square.apply,
    "custom op": lambda x: shift(x, 1.5).sin(),
    "no_grad": with_no_grad,
    "autocast": with_autocast,
    "checkpoint": with_checkpoint,
    "hook": with_hook,
    "view": lambda x: x.view(-1)[1:].sum() * x,
    "in-place": lambda x: (x * 1).mul_(3).add_(x),
}


@pytest.mark.parametrize("name", BODIES)
def test_training_through_it(backend, name):
    body = BODIES[name]
    opaque = firesteel.nonstrict_trace(body)
    compiled = compiled_whole(lambda x: (opaque(x.cos()) * 2).sum(), backend)
    for _ in range(2):
        x = torch.randn(4, requires_grad=True)
        other = x.detach().clone().requires_grad_()
        compiled(x).backward()
        (body(other.cos()) * 2).sum().backward()
        torch.testing.assert_close(x.grad, other.grad)
    assert_captured(1, 2)


def test_inputs_changed_in_place_are_seen(backend):
    @firesteel.nonstrict_trace
    def count(buffer, x):
        buffer.add_(x)
        return buffer * 2

    compiled = compiled_whole(lambda buffer, x: count(buffer, x) + buffer, backend)
    buffer, other = torch.zeros(3), torch.zeros(3)
    for _ in range(3):
        x = torch.randn(3)
        result = compiled(buffer, x)
        other.add_(x)
        torch.testing.assert_close(buffer, other)
        torch.testing.assert_close(result, other * 3)
    assert_captured(1, 3)


SCALE = 2


@contextlib.contextmanager
def thread_beside():
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_state_that_the_compiled_code_has_changed(backend):
    module = torch.nn.Identity()
    module.factor = 1

    @firesteel.nonstrict_trace
    def reads(x, table, box, module):
        return x * SCALE * table["a"] * box.inside * module.factor

    def f(x, table, box):
        global SCALE
        SCALE = 3
        table["a"] = x + 1
        box.inside = box.inside + 1
        module.factor = 5
        return reads(x, table, box, module), box.inside

    def run(function):
        global SCALE
        SCALE, module.factor = 2, 1
        return function(torch.ones(2), {"a": 0}, Box(torch.ones(2), "b")), SCALE, module.factor

    compiled = firesteel.compile(f, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(run(compiled), run(f))
    with thread_beside():
        torch.testing.assert_close(run(firesteel.compile(f, backend=backend)), run(f))
    if backend == "eager":  # its Python runs with the graph, and writes come after it
        with pytest.raises(firesteel.GraphBreakError, match=r"which `.*reads` could read"):
            run(firesteel.compile(f, backend=backend, fullgraph=True))
    elif len(sys._current_frames()) == 1 and not torch.cuda.is_available():
        # Beside other threads it is a break as well, and torch keeps one for each GPU.
        torch.testing.assert_close(run(firesteel.compile(f, backend=backend, fullgraph=True)), run(f))


def test_random_operators_draw_what_eager_draws(backend):
    opaque = firesteel.nonstrict_trace(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(3))
    compiled = compiled_whole(lambda x: opaque(x) + torch.rand(3), backend)
    x = torch.randn(3)
    for seed in range(3):
        torch.manual_seed(seed)
        got = compiled(x), torch.rand(1)
        torch.manual_seed(seed)
        wanted = torch.nn.functional.dropout(x, 0.5) + torch.rand(3) + torch.rand(3), torch.rand(1)
        torch.testing.assert_close(got, wanted)


def test_twenty_steps_are_eager_s(backend):
    def build():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))

    @firesteel.nonstrict_trace
    def forward(model, x):
        firesteel.graph_break()
        return model(x)

    def losses(step, model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        torch.manual_seed(1)
        seen = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = step(model, torch.randn(6, 4))
            loss.backward()
            optimizer.step()
            seen.append(loss.detach())
        return torch.stack(seen)

    def step(model, x):
        return (forward(model, x) - x.sum(1, keepdim=True)).square().mean()

    firesteel.reset_counters()
    got = losses(firesteel.compile(step, backend=backend, fullgraph=True), build())
    assert_captured(1, 20)
    torch.testing.assert_close(got, losses(step, build()))
