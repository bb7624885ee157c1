"""Saved values die while the backward runs, at their last use, and only where nobody can ask for them again."""

import gc

import pytest
import torch

import firesteel
from firesteel import _C

firesteel.reset_native_counters()
firesteel.trace(lambda x: x.sum(0), torch.ones(4, 4), native=True)(torch.ones(4, 4))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")

WIDTH = 1024  # a square matrix takes 4 MiB


def layers(x, weights):
    for weight in weights:
        x = (x @ weight).softmax(-1) * 9
    return x


def state(count=6, seed=0):
    torch.manual_seed(seed)
    x = torch.randn(WIDTH, WIDTH)
    return x, [(torch.randn(WIDTH, WIDTH) * 0.03).requires_grad_() for _ in range(count)]


def counts():
    return firesteel.native_counters()


def same(got, wanted):
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.fixture(autouse=True)
def empty():
    gc.collect()
    _C._empty_pool()
    firesteel.reset_native_counters()


@pytest.fixture(scope="module")
def compiled():
    return firesteel.compile(layers, wait=True)


def eager_gradients(x, weights):
    return torch.autograd.grad(layers(x, weights).square().mean(), weights)


def test_what_is_saved_makes_room_for_gradients(compiled):
    x, weights = state()
    for _ in range(2):
        loss = compiled(x, weights).square().mean()
        firesteel.reset_native_counters()
        got = torch.autograd.grad(loss, weights)
        assert counts()["kernels_run"] >= 1
        assert counts()["buffers_returned"] >= 5
        same(got, eager_gradients(x, weights))


def test_a_graph_that_is_retained_keeps_them(compiled):
    x, weights = state()
    loss = compiled(x, weights).square().mean()
    wanted = eager_gradients(x, weights)
    firesteel.reset_native_counters()
    for _ in range(3):
        same(torch.autograd.grad(loss, weights, retain_graph=True), wanted)
    assert counts()["buffers_returned"] == counts()["room_made"] == 0
    same(torch.autograd.grad(loss, weights), wanted)
    assert counts()["buffers_returned"] >= 5
    with pytest.raises(RuntimeError, match="already"):
        torch.autograd.grad(loss, weights)


def test_create_graph_keeps_them(compiled):
    x, weights = state()
    loss = compiled(x, weights).square().mean()
    wanted = eager_gradients(x, weights)
    same(torch.autograd.grad(loss, weights, create_graph=True), wanted)
    assert counts()["buffers_returned"] == 0
    same(torch.autograd.grad(loss, weights), wanted)


def test_calls_that_live_at_once_have_their_own(compiled):
    x, weights = state()
    losses = [compiled(x * scale, weights).square().mean() for scale in (1, 2, 3)]
    for scale, loss in zip((1, 2, 3), losses, strict=True):
        same(torch.autograd.grad(loss, weights), eager_gradients(x * scale, weights))


def test_results_and_inputs_that_are_saved_stay_as_they_are():
    def function(x, w):
        middle = (x @ w).sigmoid()
        return middle, (middle @ w).tanh()

    x, (w,) = state(1)
    x.requires_grad_()
    call = firesteel.compile(function, wait=True)
    for _ in range(2):
        ours, theirs = call(x, w), function(x, w)
        kept = [value.detach().clone() for value in (x, w, *ours)]
        got = torch.autograd.grad(sum(one.square().sum() for one in ours), [x, w])
        wanted = torch.autograd.grad(sum(one.square().sum() for one in theirs), [x, w])
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-1)
        assert all(torch.equal(value, copy) for value, copy in zip((x, w, *ours), kept, strict=True))


def test_an_input_that_only_the_backward_holds():
    call = firesteel.compile(layers, wait=True)
    for seed in (1, 2):
        x, weights = state(2, seed)
        wanted = eager_gradients(x, weights)
        array = x.numpy()  # the same memory
        copy = array.copy()
        loss = call(x, weights).square().mean()
        del x
        same(torch.autograd.grad(loss, weights), wanted)
        assert (array == copy).all()


def test_a_hook_that_fails(compiled):
    def run(function):
        x, weights = state(3)
        seen = []

        def fail(gradient):
            seen.append(gradient.clone())
            raise ValueError("no more")

        weights[0].register_hook(fail)
        loss = function(x, weights).square().mean()
        errors = []
        for _ in range(2):
            try:
                loss.backward()
            except (ValueError, RuntimeError) as error:
                errors.append(isinstance(error, ValueError))
        return errors, seen[0]

    (ours, got), (theirs, wanted) = run(compiled), run(layers)
    assert ours == theirs == [True, False]  # the second finds what was saved freed
    same([got], [wanted])


def test_an_operator_of_the_user_that_fails_can_be_run_again():
    failures = []

    @torch.library.custom_op("saved_memory::moody_gradient", mutates_args=())
    def moody_gradient(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if failures:
            raise ValueError(failures.pop())
        return gradient * x

    @torch.library.custom_op("saved_memory::moody", mutates_args=())
    def moody(x: torch.Tensor) -> torch.Tensor:
        return x * x / 2

    for operator in (moody_gradient, moody):
        operator.register_fake(lambda x, *others: torch.empty_like(x))
    moody.register_autograd(
        lambda ctx, gradient: moody_gradient(gradient, ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )

    def function(x, w):
        return moody((x @ w).sin() * 2) + 1  # eager, too, frees what it has run past

    def run(call):
        x, (w,) = state(1)
        loss = call(x, w).sum()
        failures.append("not now")
        with pytest.raises(ValueError, match="not now"):
            loss.backward()
        loss.backward()
        return w.grad

    call = firesteel.compile(function, wait=True)
    same([run(call) / WIDTH], [run(function) / WIDTH])


def test_gradients_of_a_table_that_is_read_twice():
    def function(table, first, second, w):
        a = torch.nn.functional.embedding(first, table) @ w
        return torch.nn.functional.embedding(second, table) * 2 + a.sin()

    torch.manual_seed(0)
    table = torch.randn(20000, 64, requires_grad=True)
    w = torch.randn(64, 64)
    first, second = torch.randint(20000, (2, 300))
    call = firesteel.compile(function, wait=True)
    for _ in range(2):
        loss = call(table, first, second, w).square().sum()
        firesteel.reset_native_counters()
        (got,) = torch.autograd.grad(loss, table)
        assert counts()["buffers_fresh"] + counts()["buffers_reused"] == 2  # the sum lies where a term did
        (wanted,) = torch.autograd.grad(function(table, first, second, w).square().sum(), table)
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-2)
