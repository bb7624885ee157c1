"""The same code compiled several times, as the layers of a model are: graphs are shared where the guards allow."""

import gc
import warnings
import weakref

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset()
    firesteel.reset_counters()


class Block(torch.nn.Module):
    def __init__(self, size=4, slope=0.1):
        super().__init__()
        self.inner = torch.nn.Linear(size, size)
        self.norm = torch.nn.LayerNorm(size)
        self.slope = slope

    def forward(self, x):
        return x + torch.nn.functional.leaky_relu(self.inner(self.norm(x)), self.slope)


class Broken(Block):
    def forward(self, x):
        y = self.inner(x)
        firesteel.graph_break()
        return y * self.norm(x)


def check(compiled, plain, x):
    """Result and gradients of one layer against eager's."""
    x, twin = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = compiled(x), plain(twin)
    torch.testing.assert_close(found, expected)
    gradients = []
    for result, at in ((found, x), (expected, twin)):
        gradients.append(torch.autograd.grad(result.square().sum(), [at, *plain.parameters()]))
    torch.testing.assert_close(*gradients)


def check_all(layers, **options):
    compiled = [firesteel.compile(layer, **options) for layer in layers]
    for _ in range(2):
        for one, layer in zip(compiled, layers, strict=True):
            check(one, layer, torch.randn(3, layer.inner.in_features))
    return firesteel.counters()["captured"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_share(backend):
    # The first has its own parameters in it; the second shows that they differ; all others use the second's.
    assert check_all([Block() for _ in range(6)], backend=backend, fullgraph=True) == 2
    counters = firesteel.counters()
    assert counters["hits"] == 12
    assert counters["misses"] == 2
    assert not counters["fallbacks"]
    assert not counters["breaks"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_pieces_after_a_break_are_shared_too(backend):
    layers = [Broken() for _ in range(6)]
    compiled = [firesteel.compile(layer.forward, backend=backend) for layer in layers]
    for one, layer in zip(compiled, layers, strict=True):
        check(one, layer, torch.randn(3, 4))
    # What torch wraps around forward() would be captured for each: it has no graph.
    assert firesteel.counters()["captured"] == 4
    assert firesteel.counters()["fallbacks"] == {}


def test_modules_compiled_in_place_share():
    model = torch.nn.Sequential(*[Block() for _ in range(5)])
    for layer in model:
        firesteel.compile_module_(layer)
    expected = x = torch.randn(2, 4)
    for layer in model:
        expected = layer.forward(expected)
    torch.testing.assert_close(model(x), expected)
    assert firesteel.counters()["captured"] == 3  # what the first one gets requires no gradient


def test_isolated_ones_do_not():
    assert check_all([Block() for _ in range(4)], backend="aot_eager", isolate_recompiles=True) == 4


@pytest.mark.parametrize("other", [{"backend": "eager"}, {"fullgraph": True}, {"wait": True}])
def test_other_options_do_not_share(other):
    layers = [Block() for _ in range(4)]
    assert check_all(layers, backend="aot_eager") == 2
    assert check_all(layers, **({"backend": "aot_eager"} | other)) == 4


def test_layers_that_differ_have_their_own():
    assert check_all([Block(4), Block(5), Block(6)], backend="aot_eager") == 3
    for size in (4, 5, 6):
        layer = Block(size)
        check(firesteel.compile(layer, backend="aot_eager"), layer, torch.randn(3, size))


def test_a_number_that_differs_is_never_the_other_ones():
    check_all([Block(slope=slope) for slope in (0.1, 0.1, 0.2, 0.3, 0.2, 0.1)], backend="aot_eager")
    assert firesteel.counters()["fallbacks"] == {}


def test_train_and_eval_and_hooks_are_seen():
    layers = [Block() for _ in range(3)]
    compiled = [firesteel.compile(layer, backend="aot_eager") for layer in layers]
    for one, layer in zip(compiled, layers, strict=True):
        check(one, layer, torch.randn(2, 4))
    layers[2].inner.register_forward_hook(lambda module, args, result: result * 2)
    layers[1].inner.weight = torch.nn.Parameter(torch.randn(4, 4))
    for one, layer in zip(compiled, layers, strict=True):
        check(one, layer, torch.randn(2, 4))


def test_functions_of_one_code_share_and_have_their_own_limit():
    def make(k):
        return lambda x: x.sin() * (x + k)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(20):
            compiled = firesteel.compile(make(k), backend="aot_eager", recompile_limit=3)
            x = torch.randn(5)
            torch.testing.assert_close(compiled(x), x.sin() * (x + k))
    assert firesteel.counters()["fallbacks"] == {}


def test_a_lender_may_die():
    layers = [Block() for _ in range(5)]
    compiled = [firesteel.compile(layer, backend="aot_eager") for layer in layers]
    for one, layer in zip(compiled, layers, strict=True):
        check(one, layer, torch.randn(3, 4))
    gone = [weakref.ref(layer) for layer in layers[:2]]
    del one, layer, compiled[:2], layers[:2]
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    captured = firesteel.counters()["captured"]
    layers.append(Block())
    compiled.append(firesteel.compile(layers[-1], backend="aot_eager"))
    for one, layer in zip(compiled, layers, strict=True):
        check(one, layer, torch.randn(3, 4))
    assert firesteel.counters()["captured"] == captured


def test_circles_are_collected_and_nobody_elses_objects():
    class Holder(Block):
        def __init__(self):
            super().__init__()
            self.extra = [torch.randn(4)]
            self.call = firesteel.compile(self.compute, backend="aot_eager")

        def compute(self, x):
            return self.inner(x) + self.extra[0]

    holders = [Holder() for _ in range(4)]
    x = torch.randn(2, 4)
    for holder in holders:
        torch.testing.assert_close(holder.call(x), holder.compute(x))
    gone = [weakref.ref(holder) for holder in holders[:3]]
    del holder, holders[:3]
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    torch.testing.assert_close(holders[0].call(x), holders[0].compute(x))
    last = weakref.ref(holders.pop())
    gc.collect()
    assert last() is None


def test_many_instances_leave_nothing_behind():
    def one():
        layer = Block()
        check(firesteel.compile(layer, backend="aot_eager"), layer, torch.randn(3, 4))

    for _ in range(20):
        one()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        one()
    gc.collect()
    assert len(gc.get_objects()) <= before + 20


def test_reset_forgets_what_was_lent():
    layers = [Block() for _ in range(3)]
    compiled = [firesteel.compile(layer, backend="aot_eager") for layer in layers]
    for one, layer in zip(compiled, layers, strict=True):
        check(one, layer, torch.randn(3, 4))
    firesteel.reset()
    firesteel.reset_counters()
    for one, layer in zip(compiled, layers, strict=True):
        check(one, layer, torch.randn(3, 4))
    assert firesteel.counters()["captured"] == 2
