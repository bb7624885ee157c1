"""Backends that are functions: what graph they get, what they may give back, and how names lead to them."""

import collections
import gc
import operator
import subprocess
import sys
import weakref

import pytest
import test_capture
import test_segments
import torch
import torch.nn.functional as F
from against_eager import check_calls
from torch import nn

import firesteel
from firesteel import _backends


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset_counters()
    torch.manual_seed(0)
    yield
    firesteel.set_default_backend(None)
    _backends._registered.clear()


class Recorder:
    """A backend that keeps what it was given and runs the graph as it is."""

    def __init__(self):
        self.modules, self.examples, self.calls = [], [], 0

    def __call__(self, module, examples):
        assert isinstance(module, torch.fx.GraphModule)
        self.modules.append(module)
        self.examples.append(examples)

        def run(*args):
            self.calls += 1
            return module(*args)

        return run

    def nodes(self, op=None):
        return [node for module in self.modules for node in module.graph.nodes if op in (None, node.op)]


def check(function, make, calls=3, pieces=1):
    """Every call on fresh values equals eager's; the backend was called once for each piece."""
    backend = Recorder()
    compiled = firesteel.compile(function, backend=backend)
    for _ in range(calls):
        args = make()
        torch.testing.assert_close(compiled(*args), function(*args), rtol=0, atol=0)
    assert len(backend.modules) == pieces
    assert backend.calls == calls * pieces
    counts = firesteel.counters()
    assert (counts["captured"], counts["hits"], counts["fallbacks"]) == (pieces, calls, {})
    return backend


# ---- the graph


def test_functions_methods_operators_and_attributes():
    def f(x, y):
        values, indices = x.T.max(0)
        return F.gelu(x) + y, values, torch.cat([x, y], dim=1)[:, 1:3], indices, -x

    backend = check(f, lambda: (torch.randn(4, 4), torch.randn(4, 4)))
    calls = {(node.op, node.target) for node in backend.nodes() if node.op.startswith("call")}
    assert ("call_function", torch.nn.functional.gelu) in calls or ("call_function", torch._C._nn.gelu) in calls
    assert ("call_function", operator.add) in calls
    assert ("call_function", operator.getitem) in calls
    assert ("call_function", operator.neg) in calls
    assert ("call_function", getattr) in calls
    assert ("call_function", torch.cat) in calls
    assert ("call_method", "max") in calls


def test_placeholders_are_named_after_sources_and_parameters_are_inputs():
    layer = nn.Linear(3, 2)

    def f(x, options):
        return layer(x) * options["scale"]

    backend = check(f, lambda: (torch.randn(5, 3), {"scale": torch.ones(2), "unused": torch.ones(9)}))
    names = [node.name for node in backend.nodes("placeholder")]
    assert len(names) == 4
    # In the order of their use: what a call loads first, then what it is given.
    assert names[0].endswith("_parameters_weight_")
    assert names[2] == "l_x_"
    assert "scale" in names[3]
    (examples,) = backend.examples
    assert any(example is layer.weight for example in examples)


def test_every_tensor_node_tells_its_shape_and_its_line():
    def f(x):
        low, high = x.to(torch.float64).aminmax(dim=1)
        return (high - low).unsqueeze(1).t()

    backend = check(f, lambda: (torch.randn(4, 3, requires_grad=True),))
    (module,) = backend.modules
    values = {node.name: node.meta["example_value"] for node in module.graph.nodes if node.op != "output"}
    assert values["l_x_"].shape == (4, 3)
    assert values["l_x_"].requires_grad
    (result,) = module.graph.output_node().args[0]
    example = result.meta["example_value"]
    assert (example.shape, example.stride(), example.dtype) == ((1, 4), (1, 1), torch.float64)
    assert example.requires_grad
    assert type(example).__name__ == "FakeTensor"
    for node in module.graph.nodes:
        if node.op.startswith("call"):
            assert "test_backends.py" in node.stack_trace
    assert "(high - low)" in result.stack_trace


def test_the_graph_module_prints_and_runs():
    backend = check(lambda x: torch.where(x > 0, x, x.abs() * 2), lambda: (torch.randn(7),))
    (module,) = backend.modules
    assert "torch.where" in module.code
    x = torch.randn(7)
    torch.testing.assert_close(module(x)[0], torch.where(x > 0, x, x.abs() * 2))


Pair = collections.namedtuple("Pair", "a b")


@firesteel.nonstrict_trace
def opaque(pair, table, scale):
    return {"sum": pair.a + pair.b * scale, "more": [table["x"].sin()]}, pair.a


def test_nonstrict_functions_are_one_node():
    def f(x, y):
        found, a = opaque(Pair(x, y), {"x": x}, 3)
        return found["sum"] + a, found["more"][0]

    backend = check(f, lambda: (torch.randn(4), torch.randn(4)))
    assert [node.name for node in backend.nodes("call_function")].count("opaque") == 1
    assert "sin" not in str(backend.modules[0].graph)


def test_modules_made_inside_reach_nonstrict_functions():
    opaque = firesteel.nonstrict_trace(lambda module, x: module(x))
    backend = Recorder()

    def f(x):
        return opaque(torch.nn.Linear(2, 2), x)

    compiled = firesteel.compile(f, backend=backend, fullgraph=True)
    for seed in (0, 1):
        x = torch.randn(3, 2)
        torch.manual_seed(seed)
        expected = f(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x), expected)
    assert len(backend.modules) == 1


def test_each_piece_is_a_graph_of_its_own():
    def f(x):
        x = x.sin() * 2
        if x.sum() > 1000:
            return x
        return x.cos() + 1

    backend = check(f, lambda: (torch.randn(4),), pieces=2)
    assert [str(node.target) for node in backend.nodes("call_method")][:2] == ["sin", "sum"]


def test_a_recompile_calls_the_backend_again():
    backend = Recorder()
    compiled = firesteel.compile(lambda x: x * 2, backend=backend)
    for size in (3, 4, 3, 4):
        compiled(torch.ones(size))
    assert [module.graph.output_node().args[0][0].meta["example_value"].shape for module in backend.modules] == [
        (3,),
        (4,),
    ]
    assert firesteel.counters()["hits"] == 4


def test_gradients_writes_and_grad_modes():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    twin = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    twin.load_state_dict(model.state_dict())
    backend = Recorder()
    compiled = firesteel.compile(model, backend=backend)
    for _ in range(2):
        x = torch.randn(8, 4)
        compiled(x).sum().backward()
        twin(x).sum().backward()
    for (name, a), b in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    for a, b in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b)

    def f(x):
        with torch.no_grad():
            y = x * 2
        x.add_(1)
        return y, x + y

    compiled = firesteel.compile(f, backend=Recorder())
    ours, theirs = torch.ones(3), torch.ones(3)
    torch.testing.assert_close(compiled(ours), f(theirs))
    torch.testing.assert_close(ours, theirs)
    assert torch.is_grad_enabled()


def test_random_numbers_of_the_program_stay():
    def noisy(module, examples):
        torch.rand(100)
        return module.forward

    compiled = firesteel.compile(lambda x: x + torch.rand(3), backend=noisy)
    torch.manual_seed(1)
    ours = compiled(torch.zeros(3))
    torch.manual_seed(1)
    torch.testing.assert_close(ours, torch.rand(3))


def as_it_is(module, examples):
    return module.forward


@pytest.mark.parametrize("program", test_capture.PROGRAMS, ids=lambda program: program.__name__)
def test_whole_programs_are_like_eager(program):
    test_capture.captured_like_eager(program, as_it_is)


@pytest.mark.parametrize("every", [0, 3])
@pytest.mark.parametrize("program", list(test_segments.marked(0)))
def test_programs_in_pieces_are_like_eager(program, every):
    check_calls(program, test_segments.inputs()[2:4], as_it_is, every)


# ---- what a backend may do wrong


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        (lambda *args: args[0] + 1, "returned a Tensor, not a tuple of 1 tensor"),
        (lambda *args: None, "returned None"),
        (lambda *args: (args[0], args[0]), "a tuple of 2: \\(Tensor, Tensor\\), not a tuple of 1 tensor"),
        (lambda *args: [3], "a list of 1: \\(int\\)"),
    ],
)
def test_wrong_results_are_errors(run, shown):
    def careless(module, examples):
        return run

    compiled = firesteel.compile(lambda x: x + 1, backend=careless)
    with pytest.raises(firesteel.BackendError, match=shown) as raised:
        compiled(torch.ones(3))
    assert "careless" in str(raised.value)
    assert "try: " in str(raised.value)


def test_a_backend_must_give_a_callable():
    compiled = firesteel.compile(lambda x: x + 1, backend=lambda module, examples: None)
    with pytest.raises(firesteel.BackendError, match="returned None for the graph of"):
        compiled(torch.ones(3))


def test_a_backends_own_error_reaches_the_user_and_nothing_has_run():
    log = []

    def failing(module, examples):
        raise KeyError("mine")

    def f(x):
        log.append(1)
        x.add_(1)
        return x * 2

    compiled = firesteel.compile(f, backend=failing)
    x = torch.zeros(3)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            compiled(x)
    assert (log, x.tolist()) == ([], [0, 0, 0])


def test_lists_are_taken_and_a_backend_may_compile_inside():
    inner = firesteel.compile(lambda x: x * 2, backend="eager")

    def nesting(module, examples):
        inner(examples[0])
        return lambda *args: list(module(*args))

    compiled = firesteel.compile(lambda x: (x + 1, x - 1), backend=nesting)
    torch.testing.assert_close(compiled(torch.ones(2)), (torch.full((2,), 2.0), torch.zeros(2)))


def test_a_cycle_through_a_backend_is_collected():
    def make():
        def backend(module, examples):
            return lambda *args: (holder, module(*args))[1]

        holder = firesteel.compile(lambda x: x + 1, backend=backend)
        holder(torch.ones(2))
        return weakref.ref(holder)

    reference = make()
    gc.collect()
    assert reference() is None


# ---- names


def test_registered_names():
    @firesteel.register_backend
    def mine(module, examples):
        return module.forward

    @firesteel.register_backend(name="hidden", tags=["debug"])
    def other(module, examples):
        return module.forward

    assert "mine" in firesteel.list_backends()
    assert "hidden" not in firesteel.list_backends()
    assert "hidden" in firesteel.list_backends(exclude_tags=())
    assert {"eager", "aot_eager", "firesteel", "inductor"} <= set(firesteel.list_backends())
    torch.testing.assert_close(firesteel.compile(torch.sin, backend="mine")(torch.zeros(2)), torch.zeros(2))
    firesteel.register_backend(mine)
    with pytest.raises(ValueError, match='"mine" is taken'):
        firesteel.register_backend(other, name="mine")
    with pytest.raises(ValueError, match="built-in"):
        firesteel.register_backend(other, name="eager")
    with pytest.raises(TypeError, match="needs a function"):
        firesteel.register_backend(3)


def test_unknown_names_are_refused_where_the_user_stands():
    with pytest.raises(ValueError, match='no backend "nope"; those there are: "eager", "aot_eager"'):
        firesteel.compile(torch.sin, backend="nope")
    with pytest.raises(ValueError, match='no backend "nope"'):
        firesteel.compile(backend="nope")
    with pytest.raises(TypeError, match="needs a name or a function, not 3"):
        firesteel.compile(torch.sin, backend=3)


def test_the_default_backend():
    backend = Recorder()
    firesteel.set_default_backend(backend)
    assert firesteel.get_default_backend() is backend
    firesteel.compile(lambda x: x + 1)(torch.ones(2))
    assert len(backend.modules) == 1
    with pytest.raises(ValueError, match="no backend"):
        firesteel.set_default_backend("nope")
    firesteel.set_default_backend(None)
    assert firesteel.get_default_backend() in firesteel.list_backends()


def test_mode_and_options_reach_the_function():
    seen = []

    def backend(module, examples, **given):
        seen.append(given)
        return module.forward

    for given in ({"mode": "max-autotune"}, {"options": {"a": 1}}, {"mode": "default"}, {}):
        firesteel.compile(lambda x: x + 1, backend=backend, **given)(torch.ones(2))
    assert seen == [{"mode": "max-autotune"}, {"options": {"a": 1}}, {}, {}]


@pytest.mark.parametrize("name", ["firesteel", "inductor"])
def test_native_code_by_name(name):
    compiled = firesteel.compile(lambda x: (x.sin() + x * 2).relu(), backend=name, fullgraph=True)
    x = torch.randn(1000, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    compiled(x).sum().backward()
    (y.sin() + y * 2).relu().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_pytorchs_own_backends():
    compiled = firesteel.compile(lambda x: x.sin() + 1, backend="torch:aot_eager")
    x = torch.randn(4, requires_grad=True)
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    with pytest.raises(ValueError, match=r'PyTorch has no backend "nope"; those there are: .*"inductor"'):
        firesteel.compile(torch.sin, backend="torch:nope")


def test_fx_is_loaded_for_such_backends_only():
    program = """
import sys, torch
before = set(sys.modules)
import firesteel
firesteel.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
assert "firesteel.interop.graph_modules" not in sys.modules
assert "torch._dynamo" not in set(sys.modules) - before
"""
    subprocess.run([sys.executable, "-c", program], check=True)
