"""A call whose backward can be neither traced nor called as it is breaks at that call; all around it is compiled."""

import pytest
import torch

import firesteel

BACKENDS = ["aot_eager", "firesteel"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


@torch.library.custom_op("firesteel_tests::split_scale", mutates_args=())
def split_scale(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    result, start = torch.empty_like(x), 0
    for i, end in enumerate(ends.tolist()):
        result[start:end] = x[start:end] * (i + 1)
        start = end
    return result


@split_scale.register_fake
def _(x, ends):
    return torch.empty_like(x)


class Ends:
    """What a context keeps that no graph can: an object of the call."""

    def __init__(self, ends):
        self.ends = ends


def _save(ctx, inputs, output):
    ctx.kept = Ends(inputs[1])


def _backward(ctx, grad):
    result, start = torch.empty_like(grad), 0
    for i, end in enumerate(ctx.kept.ends.tolist()):  # reads data
        result[start:end] = grad[start:end] * (i + 1)
        start = end
    return result, None


split_scale.register_autograd(_backward, setup_context=_save)


class Expert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x, ends):
        return split_scale(self.inner(x).tanh(), ends).sin() + x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = Expert(), Expert(), Expert()
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x, ends):
        x = self.first(x, ends).cos()
        x = self.second(x, ends).cos()
        x = self.third(x, ends).cos()
        return self.head(x).relu()


def check(model, compiled):
    for seed in (1, 2):
        torch.manual_seed(seed)
        x, ends = torch.randn(6, 4, requires_grad=True), torch.tensor([2, 3 + seed, 6])
        results = [call(x, ends) for call in (compiled, model)]
        torch.testing.assert_close(*results)
        gradients = [torch.autograd.grad(result.square().sum(), [x, *model.parameters()]) for result in results]
        torch.testing.assert_close(*gradients)


def test_the_call_breaks_and_nothing_else(backend):
    def function(x, ends):
        y = split_scale(x.sin() * 2, ends)
        return y.cos() + x

    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend=backend)
    x, ends = torch.randn(6, 4, requires_grad=True), torch.tensor([2, 5, 6])
    for _ in range(2):
        found, expected = compiled(x, ends), function(x, ends)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*[torch.autograd.grad(y.sum(), x) for y in (found, expected)])
    counters = firesteel.counters()
    assert counters["captured"] == 2
    assert counters["breaks"] == {"FS-TRACE": 2}
    assert counters["fallbacks"] == {}


def test_layers_around_it_are_compiled(backend):
    firesteel.reset_counters()
    model = Model()
    check(model, firesteel.compile(model, backend=backend))
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert set(counters["breaks"]) == {"FS-TRACE"}


def test_fullgraph_says_which_call_it_is(backend):
    model = Model()
    with pytest.raises(firesteel.GraphBreakError) as stopped:
        firesteel.compile(model, backend=backend, fullgraph=True)(
            torch.randn(6, 4, requires_grad=True), torch.tensor([2, 5, 6])
        )
    text = str(stopped.value)
    assert "the backward of `torch.ops.firesteel_tests.split_scale.default`" in text
    assert "return split_scale(self.inner(x).tanh(), ends).sin() + x" in text
    assert "tolist: reads a tensor's data" in text


def test_without_gradients_it_is_whole(backend):
    model = Model()
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    x, ends = torch.randn(6, 4), torch.tensor([2, 5, 6])
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, ends), model(x, ends))
