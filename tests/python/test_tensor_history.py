"""A tensor's place in autograd, changed inside: leaves and parameters made there, gradients set, and clean breaks."""

import copy

import pytest
import torch
from against_eager import same, tensors_in
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
CALLS = 3


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def factory(x):
    weight = torch.full((4,), 2.0, requires_grad=True)
    return (x * weight).sum(), weight


def made_and_marked(x):
    y = x.detach() * 2
    y.requires_grad_()
    return (y * 3 * x).sum(), y, y.is_leaf, y.requires_grad


def marked_by_attribute(x):
    y = torch.ones(4) * 2
    y.requires_grad = True
    return (y * x).sum(), y


def marked_and_kept(x):
    y = x.detach() * 2
    y.requires_grad_(requires_grad=True)
    return (y * 3).sum()


def marked_and_unmarked(x):
    y = (x.detach() * 2).requires_grad_()
    y.requires_grad_(False)
    return y * x, y


def parameter(x):
    weight = nn.Parameter(torch.linspace(1, 2, 4))
    return (x * weight).sum(), weight, isinstance(weight, nn.Parameter), weight.is_leaf


def parameter_without_gradient(x):
    weight = nn.Parameter(data=x.detach() + 1, requires_grad=False)
    return x * weight, weight


def parameter_and_its_data(x):
    data = x.detach() * 2
    weight = nn.Parameter(data)
    return (weight * x).sum(), weight, data


def parameter_under_no_grad(x):
    with torch.no_grad():
        weight = nn.Parameter(torch.ones(4))
        weight.mul_(2)
    return (weight * x).sum(), weight


def parameter_twice(x):
    weight = nn.Parameter(torch.ones(4))
    return (weight * x).sum(), weight, [weight], weight.view(2, 2) * 2


def leaf_without_use(x):
    return x * 2, torch.zeros(3, requires_grad=True)


def layer(x):
    made = nn.Linear(4, 2)
    return made(x).square().sum(), made.weight, made.bias


def network(x):
    made = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
    return made(x).sum(), dict(made.named_parameters())


def ends_of_history(x):
    y = x * 2
    return y, x.is_leaf, y.is_leaf, x.detach().is_leaf, x.grad_fn is None, y.detach().grad_fn, (y + 1).detach_().is_leaf


CAPTURED = [
    factory,
    made_and_marked,
    marked_by_attribute,
    marked_and_kept,
    marked_and_unmarked,
    parameter,
    parameter_without_gradient,
    parameter_and_its_data,
    parameter_under_no_grad,
    parameter_twice,
    leaf_without_use,
    layer,
    network,
    ends_of_history,
]


def outcome(function, call, requires_grad=True):
    torch.manual_seed(call)
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(requires_grad)
    result = function(x)
    tensors = tensors_in(result)
    kinds = [(type(t), t.requires_grad, t.is_leaf) for t in tensors]
    for t in tensors:
        if t.requires_grad and not t.is_leaf:
            t.sum().backward(retain_graph=True)
    return result, kinds, x.grad, [t.grad for t in tensors if t.is_leaf]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", CAPTURED, ids=lambda program: program.__name__)
def test_captured_whole(program, backend):
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for requires_grad in (True, False):
        for call in range(CALLS):
            expected, got = outcome(program, call, requires_grad), outcome(compiled, call, requires_grad)
            assert expected[1] == got[1]
            torch.testing.assert_close(tensors_in(got), tensors_in(expected))
            assert same(got[0], expected[0]) or backend == "firesteel" or program in (layer, network)
            assert [g is None for g in got[3]] == [g is None for g in expected[3]]
    counters = firesteel.counters()
    assert counters["captured"] == 2
    assert counters["hits"] == 2 * CALLS
    assert counters["breaks"] == counters["fallbacks"] == {}


class Factory(nn.Module):
    """Makes a model at each call, and keeps the last."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.made = nn.Linear(4, 4, bias=False)
        return self.made(x * self.scale)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_that_stays(backend):
    mine, theirs = Factory(), Factory()
    compiled = firesteel.compile(mine, backend=backend, fullgraph=True)
    for call in range(CALLS):
        for model, run in ((theirs, theirs), (mine, compiled)):
            torch.manual_seed(call)
            run(torch.ones(2, 4)).sum().backward()
            assert [name for name, _ in model.named_parameters()] == ["scale", "made.weight"]
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert type(a) is type(b) is nn.Parameter
            torch.testing.assert_close((a, a.grad), (b, b.grad))
        # What was made inside is a module like any other.
        torch.testing.assert_close(mine.made(torch.ones(4)), theirs.made(torch.ones(4)))
    assert firesteel.counters()["fallbacks"] == {}


# ---- gradients that are set


def zero_by_none(model, x):
    model.zero_grad()
    return model(x)


def zero_in_place(model, x):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()
    return model(x)


def scaled(model, x):
    for p in model.parameters():
        p.grad = torch.ones_like(p) if p.grad is None else p.grad * 0.5
    return sum(p.grad.sum() for p in model.parameters()) + model(x).sum()


def set_twice(model, x):
    weight = model.weight
    weight.grad = torch.ones(2, 4)
    first = weight.grad
    weight.grad = None
    missing = weight.grad is None
    weight.grad = first + 1
    return first, weight.grad, missing, model(x)


def exchanged(model, x):
    x.grad, kept = model.weight.grad, x.grad
    return x * 2 if kept is None else x * 2 + kept.sum()


def set_under_no_grad(model, x):
    with torch.no_grad():
        model.weight.grad = model.weight * 2
        model.weight -= 0.1 * model.weight.grad
    return model(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program", [zero_by_none, zero_in_place, scaled, set_twice, exchanged, set_under_no_grad], ids=lambda p: p.__name__
)
def test_gradients_are_set(program, backend):
    torch.manual_seed(0)
    theirs = nn.Linear(4, 2)
    mine = copy.deepcopy(theirs)
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for step in range(6):
        outcomes = []
        for model, run in ((theirs, program), (mine, compiled)):
            x = torch.linspace(-1, 1, 8).reshape(2, 4).requires_grad_()
            result = run(model, x)
            before = [p.grad for p in (*model.parameters(), x)]
            before = [None if g is None else g.clone() for g in before]
            sum(t.sum() for t in tensors_in(result) if t.requires_grad and not t.is_leaf).backward()
            outcomes.append((result, before, [p.grad for p in (*model.parameters(), x)]))
        assert same(*outcomes) or backend == "firesteel", step
        torch.testing.assert_close(tensors_in(outcomes[1]), tensors_in(outcomes[0]))
    counters = firesteel.counters()
    assert counters["breaks"] == counters["fallbacks"] == {}
    assert counters["hits"] == 6
    assert counters["captured"] <= 4  # no gradient yet; one; one that moves; and that of the input


# ---- what breaks


def hook(x):
    y = x * 2
    y.register_hook(lambda gradient: gradient * 10)
    return (y * 3).sum()


def hook_on_an_input(x):
    handle = x.register_hook(lambda gradient: gradient * 10)
    y = (x * 3).sum()
    handle.remove()
    return y


def retained(x):
    y = x * 2
    y.retain_grad()
    return (y * y).sum(), y


def input_is_unmarked(x):
    y = x * 2
    z = x.detach()
    z.requires_grad_()
    return y.sum() + (z * 3).sum(), z


def data_is_replaced(x):
    y = x * 1
    y.data = torch.ones(3, 4)
    return y + 1


def history_is_read(x):
    y = x * 2
    return y + 1, type(y.grad_fn).__name__


def parameter_over_an_input(x):
    y = x * 2
    weight = nn.Parameter(x)
    return (weight * y).sum(), weight


BREAKS = {
    hook: "FS-AUTOGRAD",
    hook_on_an_input: "FS-AUTOGRAD",
    retained: "FS-AUTOGRAD",
    input_is_unmarked: "FS-AUTOGRAD",
    data_is_replaced: "FS-AUTOGRAD",
    history_is_read: "FS-AUTOGRAD",
    parameter_over_an_input: "FS-CREATION",
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", BREAKS, ids=lambda program: program.__name__)
def test_the_others_break(program, backend):
    compiled = firesteel.compile(program, backend=backend)
    for call in range(CALLS):
        expected, got = outcome(program, call), outcome(compiled, call)
        assert expected[1] == got[1]
        torch.testing.assert_close(tensors_in(got), tensors_in(expected))
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert set(counters["breaks"]) <= {BREAKS[program], "FS-WRITE"}
    assert sum(counters["breaks"].values()) <= 2 * CALLS
    whole = firesteel.compile(program, backend=backend, fullgraph=True)
    if program in (hook, hook_on_an_input, retained):  # left by the graph
        for call in range(CALLS):
            expected, got = outcome(program, call), outcome(whole, call)
            assert expected[1] == got[1]
            torch.testing.assert_close(tensors_in(got), tensors_in(expected))
        return
    with pytest.raises(firesteel.GraphBreakError, match=BREAKS[program]):
        whole(torch.ones(3, 4, requires_grad=True))


# ---- hooks on modules


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


HOOKS = {
    "forward": lambda net, log: net.first.register_forward_hook(lambda module, args, out: (log.append(1), out * 2)[1]),
    "forward, always": lambda net, log: net.first.register_forward_hook(lambda *a: log.append(2), always_call=True),
    "before": lambda net, log: net.first.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "before, by name": lambda net, log: net.first.register_forward_pre_hook(
        lambda module, args, named: ((args[0] * 3,), named), with_kwargs=True
    ),
    "backward": lambda net, log: net.first.register_full_backward_hook(
        lambda module, inputs, outputs: (log.append(3), tuple(g * 2 for g in inputs))[1]
    ),
    "before backward": lambda net, log: net.first.register_full_backward_pre_hook(
        lambda module, outputs: tuple(g * 3 for g in outputs)
    ),
    "parameter": lambda net, log: net.first.weight.register_hook(lambda gradient: gradient * 5),
    "all modules": lambda net, log: nn.modules.module.register_module_forward_hook(
        lambda module, args, out: out + 1 if isinstance(module, nn.Linear) else None
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_on_modules_from_outside(name, backend):
    torch.manual_seed(0)
    net, log = Net(), []
    compiled = firesteel.compile(net, backend=backend)

    def run(function):
        log.clear()
        net.zero_grad()
        x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        result = function(x)
        result.sum().backward()
        return [result, x.grad, *(p.grad for p in net.parameters())], list(log)

    for stage in ("none", "hooked", "removed"):
        if stage == "hooked":
            handle = HOOKS[name](net, log)
        if stage == "removed":
            handle.remove()
        for _ in range(2):
            expected, got = run(net), run(compiled)
            torch.testing.assert_close(got[0], expected[0])
            assert got[1] == expected[1]
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    if "backward" not in name:
        assert counters["breaks"] == {}
        assert counters["hits"] == 6


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["forward", "before", "backward"])
def test_hooks_on_modules_from_inside(kind, backend):
    torch.manual_seed(0)
    net, log = Net(), []

    def program(x):
        y = x * 2
        handle = HOOKS[kind](net, log)
        y = net(y)
        handle.remove()
        return y + 1

    compiled = firesteel.compile(program, backend=backend)
    for _ in range(2 * CALLS):
        outcomes = []
        for function in (program, compiled):
            log.clear()
            x = torch.ones(2, 4, requires_grad=True)
            net.zero_grad()
            result = function(x)
            result.sum().backward()
            outcomes.append(([result, x.grad, *(p.grad for p in net.parameters())], list(log)))
        torch.testing.assert_close(outcomes[1][0], outcomes[0][0])
        assert outcomes[0][1] == outcomes[1][1]
        assert not net.first._forward_hooks
        assert not net.first._forward_pre_hooks
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert counters["breaks"]["FS-WRITE"] == 2 * 2 * CALLS


def view_of_an_argument(x, weight):
    y = x.detach()[:, None]
    y.requires_grad = True
    return (y * weight).sin().sum()


def alias_of_an_argument(x, weight):
    y = x.detach().requires_grad_()
    return (y * weight).sum(), y.detach(), x


def gradient_of_a_view(x, weight):
    y = x.detach()[0].requires_grad_()
    (slope,) = torch.autograd.grad((y * y * weight[0]).sum(), y, create_graph=True)
    return (slope * weight[1]).sum()


def view_of_what_was_made(x, weight):
    y = torch.ones(6)[2:].requires_grad_()
    return (y * weight).sum()


def without_other_gradients(x, weight):
    y = x.detach()[0].requires_grad_()
    return y * 2


BORROWED = [
    view_of_an_argument,
    alias_of_an_argument,
    gradient_of_a_view,
    view_of_what_was_made,
    without_other_gradients,
]


def borrowed_outcome(function, call):
    torch.manual_seed(call)
    x, weight = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
    result = function(x, weight)
    tensors = tensors_in(result)
    for t in tensors:
        if t.requires_grad:
            t.sum().backward()
    return [t.detach() for t in tensors], [(t.requires_grad, t.is_leaf) for t in tensors], weight.grad, x.requires_grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", BORROWED, ids=lambda program: program.__name__)
def test_leaf_in_the_memory_of_another(program, backend):
    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    for call in range(CALLS):
        expected, got = borrowed_outcome(program, call), borrowed_outcome(compiled, call)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1] == expected[1]
        assert got[3] == expected[3]
        assert (got[2] is None) == (expected[2] is None)
        if expected[2] is not None:
            torch.testing.assert_close(got[2], expected[2])
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"]) == (1, CALLS)
    assert counters["breaks"] == counters["fallbacks"] == {}


def gives_the_leaf(x, weight):
    y = x.detach()[0]
    y.requires_grad_()
    return (y * weight).sum(), y


def gives_a_view_of_the_leaf(x, weight):
    y = x.detach()
    y.requires_grad = True
    return (y * weight).sum(), y[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [gives_the_leaf, gives_a_view_of_the_leaf], ids=lambda program: program.__name__)
def test_such_a_leaf_that_is_given_back_breaks(program, backend):
    with pytest.raises(firesteel.GraphBreakError, match="FS-AUTOGRAD"):
        firesteel.compile(program, backend=backend, fullgraph=True)(
            torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
        )
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend=backend)
    for call in range(CALLS):
        results = []
        for function in (program, compiled):
            torch.manual_seed(call)
            x, weight = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
            loss, leaf = function(x, weight)
            gradients = torch.autograd.grad(loss, [weight, leaf], allow_unused=True)
            results.append((loss, leaf, leaf.is_leaf, leaf.requires_grad, gradients[0], gradients[1]))
        assert same(results[0][2:4], results[1][2:4])
        torch.testing.assert_close(tensors_in(results[1]), tensors_in(results[0]))
    assert set(firesteel.counters()["breaks"]) == {"FS-AUTOGRAD"}
