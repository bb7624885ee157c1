"""torch.inference_mode around compiled calls and inside them: captured, and inference tensors where eager has them."""

import pytest
import torch
from against_eager import same, tensors_in
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]
WEIGHT = nn.Parameter(torch.linspace(0.5, 1, 4))
BUFFER = torch.ones(4)
READY = torch.inference_mode()


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


def block(x):
    y = x * 2
    with torch.inference_mode():
        z = (y + 1) * 3
    return y - 1, z, z.is_inference(), y.is_inference(), torch.is_inference(z)


@torch.inference_mode()
def decorated(x):
    return x * 2, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


@torch.inference_mode
def decorated_plainly(x):
    return x * 2


def inner_function(x):
    return decorated(x)[0] + 1, x * 3


def switched_off_inside(x):
    with torch.inference_mode():
        y = x + 1
        with torch.inference_mode(False):
            z = x * 2
            inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    return y, z, inside


def off_enables_gradients(x):
    with torch.no_grad(), torch.inference_mode(mode=False):
        y = x * 2
        enabled = torch.is_grad_enabled()
    return y, enabled, torch.is_grad_enabled()


def parameter_met_inside(x):
    with torch.inference_mode():
        scale = (WEIGHT * 2).sum() + BUFFER.sum()
    return x * WEIGHT, scale


def views(x):
    y = x * 2
    with torch.inference_mode():
        flat, row, made = y.view(-1), x[0], torch.ones(3, 4).t()
        known = flat.is_inference(), row.is_inference(), made.is_inference(), made[0].is_inference()
    again = made.view(4, 3), made.clone()
    return row, made, again, known, flat.detach() + 1, made[1].is_inference(), made.clone().is_inference()


def reshaped(x):
    with torch.inference_mode():
        copied, seen = x.t().reshape(-1), x.reshape(-1)
    return copied, seen, copied.is_inference(), seen.is_inference()


def writes(x):
    total = torch.zeros(3, 4)
    with torch.inference_mode():
        total.add_(x)
        own = x + 1
        own.mul_(2)
        own[0] = 7
    total += 1
    return total, own


def shared_memory(x):
    with torch.inference_mode():
        own = x * 2
        part = own[1]
        part.add_(1)
    return own, part


def constants(x):
    with torch.inference_mode():
        return torch.tensor([1.0, 2.0]), torch.arange(3), torch.zeros_like(x)


def raises_inside(x):
    events = []
    try:
        with torch.inference_mode():
            y = x + 1
            raise ValueError("inside")
    except ValueError as error:
        events.append((str(error), torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
    return y, x * 2, events


def returns_from_inside(x):
    for i in range(3):
        with torch.inference_mode():
            x = x + i
            if i == 1:
                return x
    return None


def autocast_inside(x):
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    return y, x @ x.t()


def random_inside(x):
    with torch.inference_mode():
        y = nn.functional.dropout(x, 0.5) + torch.rand(3, 4)
    return y, torch.rand(2)


def asks_for_state(x):
    before = torch.is_inference_mode_enabled()
    with torch.inference_mode():
        inside = torch.is_inference_mode_enabled()
    return x + before + 2 * inside + 4 * torch.is_inference_mode_enabled()


def added_to_a_gradient(x):
    with torch.inference_mode():
        bias = torch.ones(4)
    return x * 2 + bias


PROGRAMS = [
    block,
    decorated,
    decorated_plainly,
    inner_function,
    switched_off_inside,
    off_enables_gradients,
    parameter_met_inside,
    views,
    reshaped,
    writes,
    shared_memory,
    constants,
    raises_inside,
    returns_from_inside,
    autocast_inside,
    random_inside,
    asks_for_state,
    added_to_a_gradient,
]
# With inference mode on outside these break: gradients would have to be traced, or an object lives on.
BREAKING_INSIDE = {switched_off_inside, off_enables_gradients}


def picture(result, x):
    tensors = tensors_in(result)
    kinds = [(t.is_inference(), t.requires_grad, t.is_leaf) for t in tensors]
    grads = [t for t in tensors if t.requires_grad and t.grad_fn is not None]
    WEIGHT.grad = None
    if grads:
        sum(t.sum() for t in grads).backward()
    return result, kinds, x.grad, WEIGHT.grad, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def outcome(function, requires_grad, around, call):
    torch.manual_seed(call)
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(requires_grad)
    with torch.inference_mode(around) if around else torch.enable_grad():
        result = function(x)
    return picture(result, x)


@pytest.mark.parametrize("around", [False, True], ids=["", "inside"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_whole(program, backend, around):
    whole = not (around and program in BREAKING_INSIDE)
    compiled = firesteel.compile(program, backend=backend, fullgraph=whole)
    for requires_grad in (False, True):
        for call in range(3):
            expected = outcome(program, requires_grad, around, call)
            assert same(outcome(compiled, requires_grad, around, call), expected)
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert counters["hits"] == 6
    if whole:
        assert counters["captured"] == 2
        assert counters["breaks"] == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_mode_is_guarded(backend):
    compiled = firesteel.compile(lambda x: x * 2, backend=backend, fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        assert compiled(x).requires_grad
        with torch.inference_mode():
            assert compiled(x).is_inference()
        with torch.no_grad():
            plain = compiled(x)
            assert not plain.is_inference()
            assert not plain.requires_grad
    assert firesteel.counters()["captured"] == 3
    assert firesteel.counters()["hits"] == 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)

    @torch.inference_mode()
    def predict(self, x):
        return self.layers(x).softmax(-1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_and_prediction_take_turns(backend):
    torch.manual_seed(0)
    mine, theirs = Model(), Model()
    mine.load_state_dict(theirs.state_dict())
    forward = firesteel.compile(mine, backend=backend, fullgraph=True)
    predict = firesteel.compile(mine.predict, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(5, 4)
        for model, run in ((theirs, theirs), (mine, forward)):
            model.zero_grad()
            run(x).square().sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
        got, expected = predict(x), theirs.predict(x)
        assert got.is_inference()
        torch.testing.assert_close(got, expected)
        for a, b in zip(mine.state_dict().values(), theirs.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b)
    assert firesteel.counters()["breaks"] == {}
    assert firesteel.counters()["fallbacks"] == {}


def breaks_inside(x):
    y = x * 2
    with torch.inference_mode():
        z = y + 1
        print(end="")
        z = z * 2
    return y, z, torch.is_inference_mode_enabled()


def left_open(x):
    context = torch.inference_mode()
    context.__enter__()
    y = x + 1
    context.__exit__(None, None, None)
    torch.inference_mode().__enter__()  # ends at once, with the object
    return y, x * 2, torch.is_inference_mode_enabled()


def made_outside(x):
    with READY:
        y = x + 1
    return y, x * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [breaks_inside, left_open, made_outside], ids=lambda program: program.__name__)
def test_what_cannot_be_in_one_graph_breaks(program, backend):
    compiled = firesteel.compile(program, backend=backend)
    for call in range(3):
        for requires_grad in (False, True):
            expected = outcome(program, requires_grad, False, call)
            assert same(outcome(compiled, requires_grad, False, call), expected)
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    assert counters["hits"] == 6
    assert sum(counters["breaks"].values()) <= 3 * 6
    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(program, backend=backend, fullgraph=True)(torch.ones(3, 4))
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


def inference_tensor():
    with torch.inference_mode():
        return torch.linspace(1, 2, 12).reshape(3, 4)


TAKES_ONE = {
    "product": lambda x, t: x * t,
    "sum": lambda x, t: x + t,
    "copy": lambda x, t: x * t.clone(),
    "recomputed": lambda x, t: (x @ t.exp().t(), t * 2),
    "view": lambda x, t: (t.view(-1), t[0], t.t().is_inference(), x),
    "write": lambda x, t: (t.add_(1), x)[1],
    "write to a view": lambda x, t: (t[0].add_(1), x)[1],
    "itself": lambda x, t: (t, x * 2),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TAKES_ONE)
def test_inference_tensors_as_inputs(name, backend, requires_grad):
    program = TAKES_ONE[name]
    compiled = firesteel.compile(program, backend=backend)
    outcomes = []
    for function in (program, compiled, compiled):
        x, t = torch.ones(3, 4, requires_grad=requires_grad), inference_tensor()
        try:
            result = function(x, t)
        except RuntimeError as error:
            outcomes.append((str(error), t.tolist()))
            continue
        outcomes.append((*picture(result, x), t.tolist()))
    assert same(outcomes[0], outcomes[1])
    assert same(outcomes[0], outcomes[2])
    counters = firesteel.counters()
    assert counters["fallbacks"] == {}
    raises = len(outcomes[0]) == 2
    assert counters["breaks"] == ({"FS-EXCEPTION": 2} if raises else {})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_failing_call_leaves_the_mode(backend, mode):
    def program(x, index):
        with mode():
            return x[index] * 2

    compiled = firesteel.compile(program, backend=backend, fullgraph=True)
    x = torch.ones(4, requires_grad=True)
    compiled(x, torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert (x * 2).requires_grad
    assert firesteel.counters()["captured"] == 1


def test_a_backend_of_the_users_own():
    seen = []

    def backend(graph, inputs):
        seen.append([node.target.__name__ for node in graph.graph.nodes if node.op == "call_function"])
        return graph.forward

    compiled = firesteel.compile(block, backend=backend, fullgraph=True)
    x = torch.ones(3, 4, requires_grad=True)
    assert same(compiled(x), block(x))
    assert compiled(x)[1].is_inference()
    assert any("inference" in name for name in seen[0])


def test_a_capture_given_up_inside_leaves_no_mode_behind():
    def program(x):
        with torch.inference_mode():
            y = x + 1
            if y.sum() > 0:
                y = y * 2
        return y

    compiled = firesteel.compile(program, backend="aot_eager")
    assert same(compiled(torch.ones(2)), program(torch.ones(2)))
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()
    assert torch.ones(2).requires_grad_().mul(2).requires_grad
    assert not torch.ones(2).is_inference()
