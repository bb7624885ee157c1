"""Transforms of torch.func inside compiled functions: one graph, nested at will; others break cleanly."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from against_eager import tensors_in
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel", lambda module, examples: module.forward]
LAYER = nn.Linear(3, 2)
WEIGHT = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()


@pytest.fixture(autouse=True, scope="module")
def loaded_compiler():
    """The first backward in eager code loads PyTorch's compiler, which changes modules that guards look at."""
    grad(torch.sum)(torch.ones(1))


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def open_level():
    return torch._C._functorch.maybe_current_level()


# ---- of a vector


def gradient(x):
    return grad(lambda t: t.sin().sum())(x)


def second_gradient(x):
    return grad(lambda t: grad(lambda u: (u**3).sum())(t).sum())(x)


def of_two(x):
    return grad(lambda a, b: (a * b.sin()).sum(), argnums=(0, 1))(x, x * 2)


def with_more(x):
    return grad(lambda t: (t.sin().sum(), (t + 1, {"k": t * 2})), has_aux=True)(x), grad_and_value(torch.sum)(x)


def of_a_nest(x):
    return grad(lambda d: (d["a"].sin() * d["b"][0]).sum())({"a": x, "b": [x * 2]})


def of_a_captured_weight(x):
    return x + grad(lambda t: (t * WEIGHT).sum())(x).cos()


def without_gradients_around(x):
    with torch.no_grad():
        return grad(lambda t: t.sin().sum())(x)


def without_gradients_inside(x):
    def loss(t):
        with torch.no_grad():
            c = t**2
        return (t - c).sum()

    return grad(loss)(x)


def of_writes(x):
    def loss(t):
        y = t.clone()
        y.mul_(3)
        y[0] = 0
        return y.sum()

    return grad(loss)(x)


def jacobians(x):
    return jacrev(lambda t: t.sin() * t.sum())(x), jacfwd(lambda t: t.sin() * t.sum())(x), jacrev(LAYER)(x)


def of_second_order(x):
    return hessian(lambda t: (t.sin() ** 2).sum())(x)


def pushed_forward(x):
    return jvp(lambda a: a.sin() * 2, (x,), (x * 3,)), jvp(lambda a: (a.sin(), a.cos()), (x,), (x,), has_aux=True)


def pulled_back(x):
    value, pull = vjp(lambda a, b: (a * b, a.sum()), x, x + 1)
    return value, pull((x, x.sum()))


def through_a_function_of_its_own(x):
    return grad(lambda t: Square.apply(t).sum())(x), vmap(Square.apply)(x)


def caught(x):
    try:
        return vmap(lambda t: t @ torch.ones(7))(x)
    except RuntimeError:
        return x + 1


def raised(x):
    def refuse(t):
        raise KeyError("k")

    try:
        return vmap(refuse)(x)
    except KeyError:
        return x.sin()


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


VECTORS = [gradient, second_gradient, of_two, with_more, of_a_nest, of_a_captured_weight, without_gradients_around,
           without_gradients_inside, of_writes, jacobians, of_second_order, pushed_forward, pulled_back,
           through_a_function_of_its_own, caught, raised]  # fmt: skip


# ---- of a batch


def mapped(x):
    return vmap(lambda t: t.sin().sum())(x)


def mapped_twice(x):
    return vmap(vmap(lambda t: t * t + 1))(x)


def along_other_dimensions(x):
    return vmap(lambda t, u: (t * u, t.sum()), in_dims=(0, None), out_dims=(1, 0))(x, x[0])


def with_a_keyword(x):
    return vmap(lambda t, k=1: t * k)(x, k=3)


def over_a_closure(x):
    total = x.sum(0)
    return vmap(lambda t: t * total + WEIGHT.sum())(x)


def in_chunks(x):
    return vmap(lambda t: t.sin(), chunk_size=2)(x)


def of_a_layer(x):
    return vmap(LAYER)(x)


def of_each_row(x):
    return vmap(grad(lambda t: t.sin().sum()))(x)


def gradients_of_each_sample(x):
    weights = {name: weight.detach() for name, weight in LAYER.named_parameters()}

    def loss(given, row):
        return functional_call(LAYER, given, (row,)).pow(2).sum()

    return vmap(grad(loss), in_dims=(None, 0))(weights, x)


def choices(x):
    return vmap(lambda t: torch.where(t > 0, t, -t)[[0, 2]].argmax())(x)


def losses(x):
    return vmap(lambda t, u: nn.functional.cross_entropy(LAYER(t), u))(x, torch.arange(4) % 2)


BATCHES = [mapped, mapped_twice, along_other_dimensions, with_a_keyword, over_a_closure, in_chunks, of_a_layer,
           of_each_row, gradients_of_each_sample, choices, losses]  # fmt: skip


def gradients_of(results, x):
    wanted = [tensor.sum() for tensor in tensors_in(results) if tensor.requires_grad]
    given = [one for one in (x, WEIGHT, *LAYER.parameters()) if one.requires_grad]
    return torch.autograd.grad(wanted, given, allow_unused=True) if wanted else ()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("program", "shape"),
    [(one, (3,)) for one in VECTORS] + [(one, (4, 3)) for one in BATCHES],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_one_graph(program, shape, backend):
    compiled = firesteel.compile(
        program, backend=backend, fullgraph=True, **({"wait": True} if backend == "firesteel" else {})
    )
    for needs_gradient in (False, True, False, True):
        x = torch.randn(shape, requires_grad=needs_gradient)
        found, wanted = compiled(x), program(x)
        torch.testing.assert_close(found, wanted)
        assert [t.requires_grad for t in tensors_in(found)] == [t.requires_grad for t in tensors_in(wanted)]
        torch.testing.assert_close(gradients_of(found, x), gradients_of(wanted, x))
    counters = firesteel.counters()
    assert counters["captured"] == 2
    assert counters["hits"] == 4
    assert not counters["fallbacks"]
    assert open_level() is None


def test_the_graph_shows_the_levels():
    texts = []
    firesteel.compile(mapped, backend=lambda module, examples: texts.append(module.code) or module.forward)(
        torch.ones(4, 3)
    )
    steps = ["_vmap_increment_nesting", "_add_batch_dim", "_remove_batch_dim", "_vmap_decrement_nesting"]
    places = [texts[0].index(step) for step in steps]
    assert places == sorted(places)


# ---- what breaks

LEFT = []


def breaks_inside(x):
    def inner(t):
        firesteel.graph_break()
        return t.sin().sum()

    return vmap(inner)(x + 1) * 2


def reads_data(x):
    return grad(lambda t: t.sin().sum() if t.sum() > 0 else t.cos().sum())(x)


def leaves_a_wrapped_tensor(x):
    return vmap(lambda t: (LEFT.append(t), t * 2)[1])(x) + 1


def pulls_back_after_a_break(x):
    value, pull = vjp(lambda t: t.sin(), x)
    firesteel.graph_break()
    return pull(value)


def is_linearized(x):
    value, push = linearize(lambda t: t.sin(), x)
    return value, push(x)


@pytest.mark.parametrize("backend", BACKENDS[:3])
@pytest.mark.parametrize(
    "program", [breaks_inside, reads_data, leaves_a_wrapped_tensor, pulls_back_after_a_break, is_linearized]
)
def test_transforms_that_break_run_eagerly(program, backend):
    compiled = firesteel.compile(program, backend=backend)
    for sign in (1, -1, 1):
        x = sign * torch.rand(4, 3)
        torch.testing.assert_close(compiled(x), program(x))
        assert open_level() is None
    counters = firesteel.counters()
    assert sum(counters["breaks"].values()) in range(1, 12)
    assert counters["captured"] <= 6  # nothing of torch.func's own code is compiled in pieces
    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(program, backend=backend, fullgraph=True)(torch.rand(4, 3))
    assert open_level() is None


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_the_graph_closes_the_levels(backend, fullgraph):
    compiled = firesteel.compile(lambda x, i: vmap(lambda t: t[i] * 2)(x), backend=backend, fullgraph=fullgraph)
    x = torch.rand(4, 3)
    torch.testing.assert_close(compiled(x, torch.tensor([1])), x[:, [1]] * 2)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        compiled(x, torch.tensor([9]))
    assert open_level() is None
    torch.testing.assert_close(compiled(x, torch.tensor([2])), x[:, [2]] * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_functions_under_transforms_run_eagerly(backend):
    x, other = torch.rand(4, 3), torch.rand(3)
    compiled = firesteel.compile(lambda t: t.sin() * 2, backend=backend)
    captured = firesteel.compile(lambda: other * 2, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(vmap(compiled)(x), x.sin() * 2)
        torch.testing.assert_close(grad(lambda t: compiled(t).sum())(x), x.cos() * 2)
        torch.testing.assert_close(vmap(grad(lambda t: compiled(t).sum()))(x), x.cos() * 2)
        torch.testing.assert_close(vmap(lambda t: t + captured())(x), x + other * 2)
        torch.testing.assert_close(captured(), other * 2)
        torch.testing.assert_close(compiled(x), x.sin() * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tangents_are_not_lost(backend):
    compiled = firesteel.compile(lambda t: t.sin() * 2, backend=backend)
    x = torch.rand(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), x.sin() * 2)
        with forward_ad.dual_level():
            found = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, torch.ones(3))))
            torch.testing.assert_close(found.tangent, x.cos() * 2)
            torch.testing.assert_close(compiled(x + 1), (x + 1).sin() * 2)
