"""Operators of the program's own whose results have sizes that data gives: one graph for all of them."""

import pytest
import torch
from torch.testing import assert_close

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel", lambda graph, inputs: graph.forward]


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset_counters()


@torch.library.custom_op("firesteel_sizes::kept", mutates_args=())
def kept(x: torch.Tensor, least: float) -> tuple[torch.Tensor, torch.Tensor]:
    places = (x > least).nonzero().flatten()
    return x[places], places


@kept.register_fake
def _(x, least):
    count = torch.library.get_ctx().new_dynamic_size(min=0, max=64)
    return x.new_empty(count), torch.empty([count], dtype=torch.int64, device=x.device)


def kept_backward(ctx, grad, _):
    (places,) = ctx.saved_tensors
    return torch.zeros(ctx.size).index_put((places,), grad), None


def kept_save(ctx, inputs, output):
    ctx.size = inputs[0].shape[0]
    ctx.save_for_backward(output[1])


kept.register_autograd(kept_backward, setup_context=kept_save)


@torch.library.custom_op("firesteel_sizes::doubled", mutates_args=())
def doubled(x: torch.Tensor, extra: bool = True) -> torch.Tensor:
    return torch.cat([x, x]) if extra else x.clone()


@doubled.register_fake
def _(x, extra=True):
    return x.new_empty(x.shape[0] * 2 if extra else x.shape[0], *x.shape[1:])


def chosen(x):
    values, places = kept(x * 2, 1.0)
    return values.sin() * 3, places + 1, values.sum()


def twice(x):
    values, _ = kept(x, 0.0)
    again, places = kept(values - 1, 0.0)
    return again, places, values.shape[0]


def followed_by_another(x):
    return doubled(kept(x, 0.5)[0]).cos()


@pytest.mark.parametrize("backend", BACKENDS, ids=["eager", "aot_eager", "firesteel", "function"])
@pytest.mark.parametrize("function", [chosen, twice, followed_by_another])
def test_one_graph(function, backend):
    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(12)
        assert_close(compiled(x), function(x))
    assert_close(compiled(torch.zeros(12)), function(torch.zeros(12)))
    assert firesteel.counters()["captured"] == 1
    assert not firesteel.counters()["breaks"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
def test_gradients(backend):
    compiled = firesteel.compile(chosen, backend=backend, fullgraph=True)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(12, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        (compiled(x)[0].sum() + compiled(x)[2]).backward()
        (chosen(y)[0].sum() + chosen(y)[2]).backward()
        assert_close(x.grad, y.grad)
    assert not firesteel.counters()["breaks"]


@pytest.mark.parametrize("backend", ["aot_eager", "firesteel"])
def test_of_any_size(backend):
    compiled = firesteel.compile(chosen, backend=backend, fullgraph=True, dynamic=True)
    for size in (5, 9, 30, 17):
        x = torch.randn(size)
        assert_close(compiled(x), chosen(x))
    assert firesteel.counters()["captured"] == 1


def test_without_fullgraph_it_is_a_break():
    compiled = firesteel.compile(chosen)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(12)
        assert_close(compiled(x), chosen(x))


def test_operators_without_such_sizes_are_as_before():
    compiled = firesteel.compile(lambda x: doubled(x.sin()), backend="aot_eager", fullgraph=True)
    x = torch.randn(3, 2)
    assert_close(compiled(x), doubled(x.sin()))


def test_polygamma_in_place():
    def changed(x):
        y = x * 2
        y.polygamma_(1)
        x.polygamma_(2)
        return y

    for backend in ("eager", "aot_eager", "firesteel"):
        x, z = torch.rand(4) + 1, torch.rand(4) + 1
        z.copy_(x)
        assert_close(firesteel.compile(changed, backend=backend, fullgraph=True)(x), changed(z))
        assert_close(x, z)


def test_a_context_that_the_program_has_kept():
    held = []

    @torch.library.custom_op("firesteel_sizes::keeping", mutates_args=())
    def keeping(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    @keeping.register_fake
    def _(x):
        held.append(torch.library.get_ctx())
        return x.new_empty(held[-1].new_dynamic_size())

    x = torch.tensor([1.0, -1.0])
    assert_close(firesteel.compile(lambda x: keeping(x) * 2, fullgraph=True)(x), torch.tensor([2.0]))
    with pytest.raises(RuntimeError, match="has ended"):
        held[-1].new_dynamic_size()
