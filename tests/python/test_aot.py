"""What a trace must get right beyond shapes: gradients, random numbers, modes, types, custom operators.

Every case is traced on one set of values and compared with eager on another.
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from traced import assert_same, check, tensors

import firesteel

# Modules


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(self.drop(x.mean((2, 3))))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_training_steps_with_batch_norm_and_dropout(layout):
    torch.manual_seed(0)
    ours = Net().to(memory_format=layout)
    theirs = copy.deepcopy(ours)
    image = torch.randn(2, 3, 8, 8).to(memory_format=layout)
    graph = firesteel.trace(ours, image, grad=True)
    assert_same(list(ours.state_dict().values()), list(theirs.state_dict().values()))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (ours, theirs)]
    for step in range(5):
        losses = []
        for run, optimizer in zip((graph, theirs), optimizers, strict=False):
            torch.manual_seed(step)
            batch = torch.randn(2, 3, 8, 8).to(memory_format=layout)
            loss = run(batch).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-6)
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=False):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


def test_eval_mode_reads_the_statistics():
    torch.manual_seed(0)
    net = Net().eval()
    graph = firesteel.trace(net, torch.randn(2, 3, 8, 8))
    with torch.no_grad():
        net.norm.running_mean.add_(1)  # changed in place after the trace: seen
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(graph(x), net(x).detach())


def test_tracing_changes_nothing_of_the_users():
    torch.manual_seed(0)
    net = Net()
    before = copy.deepcopy(net.state_dict())
    x = torch.randn(2, 3, 8, 8)
    kept, state = x.clone(), torch.get_rng_state()
    firesteel.trace(net, x, grad=True)
    assert torch.equal(x, kept)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(before.values(), net.state_dict().values(), strict=False))
    assert all(p.grad is None for p in net.parameters())


# Random numbers


def test_random_operators_follow_the_generator():
    def function(x):
        noise = torch.rand(3, 4) + torch.randn_like(x) + torch.randint(0, 9, (3, 4))
        return F.dropout(x, 0.3) + noise, torch.bernoulli(torch.full((5,), 0.5)), torch.randperm(7)

    check(function, (3, 4))
    check(lambda x: F.dropout(x * 2, 0.5), (30, 4), grad=True)


@pytest.mark.parametrize("draw", [lambda t: F.dropout(t, 0.5), lambda t: t.clone().normal_(), torch.rand_like])
def test_draws_lie_in_memory_as_eager_s_do(draw):
    check(lambda x: (draw(x.transpose(0, 2)), draw(x.mT)), (5, 6, 7))


def test_two_draws_differ():
    graph = firesteel.trace(lambda x: (torch.rand_like(x), torch.rand_like(x)), *tensors((100,)))
    first, second = graph(*tensors((100,)))
    assert not torch.equal(first, second)


def test_a_generator_of_ones_own():
    generator = torch.Generator().manual_seed(3)

    def function(x):
        return x + torch.rand(4, generator=generator)

    graph = firesteel.trace(function, *tensors((4,)))
    (x,) = tensors((4,), seed=2)
    generator.manual_seed(11)
    actual = graph(x)
    generator.manual_seed(11)
    assert torch.equal(actual, function(x))


def test_seeding_inside_is_repeated():
    def function(x):
        first = torch.rand(4)
        torch.manual_seed(3)
        second = torch.rand(4)
        torch.manual_seed(4)
        return x + first, second

    check(function, (4,))


def test_seeding_with_the_seed_in_effect_is_repeated():
    def function(x):
        torch.manual_seed(8)
        return x + torch.rand(4)

    torch.manual_seed(8)
    graph = firesteel.trace(function, *tensors((4,)))
    torch.manual_seed(3)
    (x,) = tensors((4,), seed=2)
    assert torch.equal(graph(x), function(x))


def test_going_back_to_an_earlier_state_is_repeated():
    def function(x):
        start = torch.get_rng_state()
        first = torch.rand(4)
        torch.set_rng_state(start)
        second, third = torch.randn(3), torch.rand(5)
        torch.manual_seed(3)
        fourth = torch.rand(4)
        torch.manual_seed(3)
        fifth = torch.rand(6)
        torch.set_rng_state(start)
        return x + first, second, third, fourth, fifth

    assert "firesteel.get_generator_state" in str(check(function, (4,)))


def test_draws_with_other_probabilities_from_one_state():
    def function(x):
        torch.manual_seed(3)
        first = torch.bernoulli(x.sigmoid())
        torch.manual_seed(3)
        return first, torch.bernoulli(x.cos().abs()), F.dropout(x, 0.2)

    check(function, (30,))


# Modes


def test_no_grad_inside():
    def function(x):
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale

    check(function, (3, 4), grad=True)


def test_detach_inside():
    check(lambda x: x * x.detach().exp(), (3, 4), grad=True)


def test_inference_mode():
    with torch.inference_mode():
        graph = firesteel.trace(lambda x: x.mul(2).view(-1), *tensors((3, 4)))
        (x,) = tensors((3, 4), seed=2)
        result = graph(x)
        assert result.is_inference()
        assert torch.equal(result, x.mul(2).view(-1))

    def function(x):
        with torch.inference_mode():
            y = x * 2
        return y.clone() + x

    check(function, (3,))


def test_autocast():
    layer = nn.Linear(4, 4)

    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(layer(x)).float()

    graph = check(function, (3, 4))
    assert "bf16" in str(graph)
    layer.zero_grad()
    x, y = tensors((3, 4), grad=True), tensors((3, 4), grad=True)
    graph = firesteel.trace(function, *tensors((3, 4), seed=1, grad=True), grad=True)
    graph(*x).sum().backward()
    ours, layer.weight.grad = layer.weight.grad, None
    function(*y).sum().backward()
    torch.testing.assert_close(ours, layer.weight.grad)
    torch.testing.assert_close(x[0].grad, y[0].grad)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3)])
def test_attention_of_any_layout(order):
    def function(q, k, v):
        q, k, v = (t.permute(order) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    check(function, (2, 2, 2, 8), (2, 2, 2, 8), (2, 2, 2, 8), grad=True)


# Autograd


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.exp() * factor

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * ctx.factor, None  # on purpose not the derivative


def test_autograd_function():
    check(lambda x: Scaled.apply(x * 2, 3.0).sum(), (3, 4), grad=True)


def test_hooks_on_tensors():
    def function(x):
        y = x * 2
        y.register_hook(lambda gradient: gradient * 10)
        return y.sin()

    check(function, (3, 4), grad=True)


def test_hooks_on_modules():
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda module, inputs, output: output * 2)
    layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    check(layer, (3, 4), grad=True)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4))

    def function(x):
        return checkpoint(block, x * 1, use_reentrant=reentrant) + x

    check(function, (3, 4), grad=True)


class SavedOnce(torch.autograd.Function):
    """Its saved tensors may be asked for once only where a checkpoint hands them out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos()


@pytest.mark.parametrize("reentrant", [False, True])
def test_autograd_function_in_a_checkpoint(reentrant):
    def function(x):
        return checkpoint(lambda y: SavedOnce.apply(y.exp()) * 2, x * 1, use_reentrant=reentrant) + x

    check(function, (3, 4), grad=True)


def test_gradient_of_a_gradient_says_it_cannot():
    graph = firesteel.trace(lambda x: x.sin(), *tensors((3,), grad=True), grad=True)
    (x,) = tensors((3,), grad=True)
    (gradient,) = torch.autograd.grad(graph(x).sum(), x, create_graph=True)
    torch.testing.assert_close(gradient.detach(), x.cos().detach())
    with pytest.raises(RuntimeError, match="first derivatives only"):
        gradient.sum().backward()


def test_gradients_inside_the_function():
    def function(x):
        y = x * x
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (gradient * x).sum()

    check(function, (3,), grad=True)


def test_backward_twice():
    graph = firesteel.trace(lambda x: (x * x).sum(), *tensors((3,), grad=True), grad=True)
    (x,) = tensors((3,), seed=2, grad=True)
    loss = graph(x)
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    torch.testing.assert_close(x.grad, 4 * x.detach())
    loss = graph(x)
    loss.backward()
    with pytest.raises(RuntimeError, match="already"):
        loss.backward()


def test_write_after_the_call_is_noticed_by_backward():
    graph = firesteel.trace(lambda x, y: (x * y).sum(), *tensors((3,), (3,), grad=True), grad=True)
    x, y = tensors((3,), (3,), seed=2, grad=True)
    middle = y * 1
    loss = graph(x, middle)
    with torch.no_grad():
        middle.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_found_inside_get_gradients():
    weight = torch.randn(4, requires_grad=True)
    graph = firesteel.trace(lambda x: (x * weight).sum(), *tensors((4,)), grad=True)
    (x,) = tensors((4,), seed=2)
    graph(x).backward()
    assert torch.equal(weight.grad, x)
    assert len(graph.captured) == 1
    assert graph.captured[0] is weight


# Types


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_floating_types(dtype):
    check(lambda x, y: F.gelu(x @ y).softmax(-1), (3, 4), (4, 5), dtype=dtype, grad=True)


def test_complex():
    def function(x):
        z = torch.complex(x, x * 2)
        return torch.fft.ifft(torch.fft.fft(z) * z.conj()).real, torch.view_as_real(z * z.conj().resolve_conj())

    check(function, (3, 4), grad=True)


def test_integers_and_booleans():
    def function(x):
        index = (x * 10).to(torch.int64)
        return (
            index.clamp(0, 3),
            (index > 2) & (index % 2 == 0),
            index.to(torch.uint8),
            index // 3,
            index.bitwise_xor(5),
        )

    check(function, (3, 4))


def test_one_hot():
    def function(x):
        classes = (x.abs() * 3).to(torch.int64).clamp(max=3)
        return F.one_hot(classes, 4) * x.unsqueeze(-1)

    check(function, (3, 4), grad=True)
    graph = firesteel.trace(lambda i: F.one_hot(i, 4), torch.tensor([1, 2]))
    with pytest.raises(RuntimeError):
        graph(torch.tensor([1, 4]))


def test_indexing():
    def function(x):
        rows = x.argmax(0).clamp(max=2)
        y = x[rows] + x[:, torch.tensor([3, 0, 1])].sum()
        y[rows[:1]] = 0
        return y, x.gather(1, rows.unsqueeze(0).expand(3, -1))

    check(function, (3, 4), grad=True)


def test_constants_made_inside():
    def function(x):
        table = torch.tensor([1.0, 2.0, 3.0])
        table[0] = 5  # changes this call's table only
        steps = int(torch.tensor(2).item())
        return x * table * steps, table, torch.arange(3) + torch.as_tensor([1, 2, 3])

    graph = check(function, (3,))
    first = graph(*tensors((3,)))[1]
    first.zero_()
    assert graph(*tensors((3,)))[1].tolist() == [5.0, 2.0, 3.0]


# Custom operators


@torch.library.custom_op("firesteel_tests::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * factor)


@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


def scale_context(ctx, inputs, output):
    ctx.factor = inputs[1]


scale.register_autograd(lambda ctx, gradient: (gradient * ctx.factor, None), setup_context=scale_context)


@torch.library.custom_op("firesteel_tests::accumulate", mutates_args={"total"})
def accumulate(x: torch.Tensor, total: torch.Tensor) -> None:
    total.add_(x)


def test_custom_operator():
    graph = check(lambda x: scale(x * 2, 3.0).sin(), (3, 4), grad=True)
    assert any(node.op == "firesteel_tests.scale" for node in graph.nodes)


def test_custom_operator_that_writes():
    def function(x, total):
        accumulate(x * 2, total)
        accumulate(x, total)
        return total.sum()

    graph = check(function, (3, 4), (3, 4))
    assert sum(node.op == "firesteel_tests.accumulate" for node in graph.nodes) == 2


def test_custom_operator_without_a_shape_rule():
    library = torch.library.Library("firesteel_tests", "FRAGMENT")
    library.define("halve(Tensor x) -> Tensor")
    library.impl("halve", lambda x: torch.from_numpy(x.numpy()[: x.shape[0] // 2] / 2), "CPU")
    check(lambda x: torch.ops.firesteel_tests.halve(x + 1) * 2, (6, 4))


@pytest.mark.parametrize("times", range(2))
@pytest.mark.parametrize(
    ("schema", "kernel", "function"),
    [
        ("(Tensor x) -> Tensor", lambda x: x.sin(), lambda op, x: op(x) + 1),
        (
            "(Tensor x, int n, Tensor y) -> (Tensor, Tensor)",
            lambda x, n, y: (x * n, y + 1),
            lambda op, x: op(x, 3, x)[1],
        ),
        ("(Tensor(a!) x) -> ()", lambda x: [x.add_(1), None][1], lambda op, x: (op(x), x * 2)[1]),
    ],
)
def test_custom_operator_that_is_defined_anew(schema, kernel, function, times):
    """Under one name, with another schema each time: nothing that was known of the last one holds."""
    library = torch.library.Library("firesteel_tests_anew", "FRAGMENT")
    try:
        library.define(f"op{schema}")
        for key in ("CPU", "Meta"):
            library.impl("op", (lambda x: None) if key == "Meta" and "!" in schema else kernel, key)
        check(lambda x: function(torch.ops.firesteel_tests_anew.op, x), (3,))
    finally:
        library._destroy()


# Nesting


def test_a_graph_called_while_tracing_is_inlined():
    inner = firesteel.trace(lambda x: x.sin() * 2, *tensors((3,), grad=True), grad=True)
    graph = check(lambda x: inner(x + 1) + x, (3,), grad=True)
    assert any(node.op == "aten.sin" for node in graph.nodes)


def test_vmap_and_func_grad_inside():
    def function(x):
        return torch.vmap(lambda row: (row * row).sum())(x), torch.func.grad(lambda v: v.sin().sum())(x[0])

    check(function, (3, 4))


def test_a_view_that_is_given_back_twice_keeps_its_gradient():
    def function(a):
        view = (a + a).transpose(0, 1)
        return view, view, view.t()

    a = torch.randn(3, 2, requires_grad=True)
    graph = firesteel.trace(function, a, grad=True)
    for result, expected in zip(graph(a), function(a), strict=True):
        assert result.requires_grad
        assert torch.equal(result, expected)
        weights = torch.randn_like(expected)
        (found,), (wanted,) = (torch.autograd.grad(one, a, weights, retain_graph=True) for one in (result, expected))
        assert torch.equal(found, wanted)


def test_a_promised_size_of_what_is_empty(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CHECK_SHAPES", "1")

    def f(x, repeats):
        return torch.repeat_interleave(x, repeats, dim=0, output_size=6) * 2

    for count in (0, 3):
        args = (torch.randn(count, 2), torch.full((count,), 2))
        assert_same(firesteel.trace(f, *args)(*args), f(*args))
