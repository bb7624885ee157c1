"""Backwards that read data are one call in the graph, which runs them as they are: gradients equal eager's."""

import pytest
import torch

import firesteel

BACKENDS = ["aot_eager", "firesteel"]
CALLS = 3
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def register(name, function, fake, save, backward):
    op = torch.library.custom_op(f"firesteel_tests::{name}", function, mutates_args=())
    op.register_fake(fake)
    op.register_autograd(backward, setup_context=save)
    return op


def parts(ends):
    """Pairs of start and end, as the tensor's data has them."""
    ends = ends.tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[a:b] @ weight[i] for i, (a, b) in enumerate(parts(ends))])


def grouped_save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.ends = inputs[2]
    ctx.settings = {"scale": 1.0, "names": ["x", "weight"]}


def grouped_backward(ctx, grad):
    x, weight = ctx.saved_tensors
    grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
    for i, (a, b) in enumerate(parts(ctx.ends)):
        grad_x[a:b] = grad[a:b] @ weight[i].T * ctx.settings["scale"]
        grad_weight[i] = x[a:b].T @ grad[a:b]
    return grad_x if ctx.needs_input_grad[0] else None, grad_weight, None


grouped = register(
    "grouped", grouped, lambda x, weight, ends: x.new_empty(x.size(0), weight.size(2)), grouped_save, grouped_backward
)


def scaled_sum(xs: list[torch.Tensor], which: torch.Tensor) -> torch.Tensor:
    return xs[int(which)] * 2


def scaled_sum_backward(ctx, grad):
    grads = [torch.zeros_like(grad) for _ in range(ctx.count)]
    grads[int(ctx.which)] = grad * 2
    return grads, None


def scaled_sum_save(ctx, inputs, output):
    ctx.count, ctx.which = len(inputs[0]), inputs[1]


scaled_sum = register(
    "scaled_sum", scaled_sum, lambda xs, which: torch.empty_like(xs[0]), scaled_sum_save, scaled_sum_backward
)


class ClippedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.limit = limit
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return (grad * (ctx.limit / grad.norm()) if grad.norm() > ctx.limit else grad), None


class SaysNothing(torch.autograd.Function):
    """No gradient for what is positive."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, (None if x.sum() > 0 else grad * x)


class TriplesInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(3) if bool(grad.sum() == 4) else grad


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError(f"no gradient for these: {grad.tolist()}")


def experts(x, weight, ends):
    hidden = grouped(x.sin(), weight * 2, ends).tanh()
    return grouped(hidden, weight.transpose(1, 2), ends).cos() + x


def frozen_weight(x, weight, ends):
    return grouped(x.sin(), weight.detach(), ends).sum(1)


def lists(x, weight, ends):
    return scaled_sum([x, x.sin(), x.cos()], ends[0] % 3) + x


def clipped(x, weight, ends):
    return ClippedGradient.apply(x.sin() * 3, 0.5).exp() * weight.sum()


PROGRAMS = [experts, frozen_weight, lists, clipped]


def inputs(call):
    torch.manual_seed(call)
    x, weight = torch.randn(6, 4, requires_grad=True), torch.randn(3, 4, 4, requires_grad=True)
    return x, weight, torch.tensor([[2, 3, 6], [0, 4, 6], [1, 1, 6]][call])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_whole(program, backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for call in range(CALLS):
        x, weight, ends = inputs(call)
        results = [function(x, weight, ends) for function in (compiled, program)]
        torch.testing.assert_close(*results)
        found, expected = [
            torch.autograd.grad(result.square().sum(), [x, weight], allow_unused=True) for result in results
        ]
        torch.testing.assert_close(found, expected)
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"]) == (1, CALLS)
    assert counters["breaks"] == counters["fallbacks"] == {}


def test_the_graph_has_one_node_for_it(backend):
    text = str(firesteel.trace(experts, *inputs(0), grad=True))
    assert text.count("firesteel.opaque_backward") == 2
    assert text.count("firesteel_tests.grouped") == 2


def test_a_missing_gradient_is_missing_at_leaves_only(backend):
    firesteel.reset_counters()
    plain = lambda x, w: SaysNothing.apply(x, w).sum()  # noqa: E731
    through = lambda x, w: SaysNothing.apply(x, w * 2).sum()  # noqa: E731
    for program in (plain, through):
        compiled = firesteel.compile(program, backend=backend, fullgraph=True)
        for sign in (1, -1, 1):
            grads = []
            for function in (compiled, program):
                x, w = torch.full((4,), 2.0 * sign).requires_grad_(), torch.ones(4, requires_grad=True)
                function(x, w).backward()
                grads.append((x.grad, w.grad))
            torch.testing.assert_close(grads[0][0], grads[1][0])
            if program is plain:
                assert (grads[0][1] is None) == (grads[1][1] is None) == (sign == 1)
            if grads[1][1] is not None:
                torch.testing.assert_close(grads[0][1], grads[1][1])
            elif grads[0][1] is not None:
                assert not grads[0][1].any()
    assert firesteel.counters()["breaks"] == {}


def test_writing_to_a_gradient_is_refused_not_wrong(backend):
    compiled = firesteel.compile(lambda x: TriplesInPlace.apply(x.sin()) * 1, backend=backend, fullgraph=True)
    x = torch.zeros(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="writes in place"):
        compiled(x).sum().backward()
    compiled(x).square().sum().backward()
    assert torch.equal(x.grad, torch.zeros(4))


def test_second_derivatives_are_refused(backend):
    x, weight, ends = inputs(0)
    compiled = firesteel.compile(experts, backend=backend, fullgraph=True)
    (first,) = torch.autograd.grad(compiled(x, weight, ends).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        first.sum().backward()


def test_an_error_in_it_reaches_the_caller(backend):
    x = torch.ones(4, requires_grad=True)
    compiled = firesteel.compile(lambda x: Refuses.apply(x.sin()).cos(), backend=backend, fullgraph=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="no gradient for these"):
            compiled(x).sum().backward()
        assert x.grad is None


def cubed(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() ** 3)


cubed = register(
    "cubed",
    cubed,
    torch.empty_like,
    lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
)


def test_forwards_may_ask_for_numpy(backend):
    compiled = firesteel.compile(lambda x: cubed(x).sin(), backend=backend, fullgraph=True)
    for _ in range(CALLS):
        x = torch.randn(4, requires_grad=True)
        expected, result = cubed(x).sin(), compiled(x)
        torch.testing.assert_close(result, expected)
        grads = [torch.autograd.grad(y.sum(), x) for y in (result, expected)]
        torch.testing.assert_close(*grads)
