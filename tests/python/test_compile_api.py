"""compile(): the forms it may be written in, what it refuses, and the wrapper it puts around a module."""

import copy
import functools
import inspect
import io
import pickle

import pytest
import torch
from torch import nn

import firesteel


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset_counters()
    torch.manual_seed(0)


def double(x, *, scale=2):
    """Doubles."""
    return x * scale


@firesteel.compile
def decorated(x):
    return x + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.5)
        self.factor = 2

    def forward(self, x):
        return self.drop(self.fc(x)) * self.factor

    def describe(self):
        return "a net"


def served(calls=1):
    counts = firesteel.counters()
    return counts["hits"] == calls and counts["fallbacks"] == {}


# ---- forms


def test_plain_call_and_both_decorators():
    x = torch.ones(2)

    @firesteel.compile(backend="eager", fullgraph=True)
    def with_arguments(x):
        return x + 2

    @firesteel.compile()
    def with_none(x):
        return x + 3

    for compiled, expected in ((firesteel.compile(double), 2), (decorated, 2), (with_arguments, 3), (with_none, 4)):
        assert compiled(x).tolist() == [expected] * 2
    assert served(4)


def test_names_documentation_and_signature_stay():
    compiled = firesteel.compile(double)
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("double", "Doubles.", __name__)
    assert compiled.__wrapped__ is double
    assert inspect.signature(compiled) == inspect.signature(double)
    assert compiled(torch.ones(1), scale=5).item() == 5


class Scaler:
    def __init__(self, scale):
        self.scale = scale

    def method(self, x):
        return x * self.scale

    @firesteel.compile
    def compiled_method(self, x):
        return x * self.scale

    @firesteel.compile
    @staticmethod
    def outer_static(x):
        return x * 5

    @staticmethod
    @firesteel.compile
    def inner_static(x):
        return x * 6

    @firesteel.compile
    @classmethod
    def outer_class(cls, x):
        return x * len(cls.__name__)

    def __call__(self, x):
        return x - self.scale


@pytest.mark.parametrize(
    ("callable_", "expected"),
    [
        (Scaler(3).method, 3),
        (Scaler(4).compiled_method, 4),
        (Scaler.outer_static, 5),
        (Scaler.inner_static, 6),
        (Scaler.outer_class, 6),
        (Scaler(3), -2),
        (lambda x: x * 7, 7),
        (functools.partial(double, scale=8), 8),
        (torch.neg, -1),
        (torch.ones(1).add, 2),
        (firesteel.nonstrict_trace(double), 2),
    ],
    ids=lambda value: getattr(value, "__qualname__", type(value).__name__) if callable(value) else str(value),
)
def test_what_can_be_called_can_be_compiled(callable_, expected):
    compiled = callable_ if isinstance(callable_, firesteel.CompiledFunction) else firesteel.compile(callable_)
    assert compiled(torch.ones(1)).tolist() == [expected]


def test_compiling_again_takes_the_new_options():
    seen = []

    def backend(module, examples):
        seen.append(module)
        return module.forward

    again = firesteel.compile(firesteel.compile(double), backend=backend)
    assert again(torch.ones(1)).item() == 2
    assert len(seen) == 1
    assert again.__wrapped__ is double
    model = Net().eval()
    wrapped = firesteel.compile(firesteel.compile(model), backend=backend)
    assert wrapped._orig_mod is model


def test_disable_gives_the_function_back():
    model = Net()
    assert firesteel.compile(double, disable=True) is double
    assert firesteel.compile(model, disable=True) is model
    assert firesteel.compile(disable=True)(double) is double


# ---- refusals


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"mode": "fast"}, ValueError, "no mode 'fast'; those there are: 'default', 'reduce-overhead', 'max-autotune'"),
        ({"options": {"speed": 1}}, ValueError, "has no option 'speed'; those there are"),
        ({"options": {"a": 1}, "mode": "default"}, ValueError, "mode or options, not both"),
        ({"options": [1]}, TypeError, "options=...\\) is a dict"),
        ({"dynamic": "yes"}, TypeError, "dynamic=...\\) is True, False or None"),
        ({"fullgraph": 1}, TypeError, "fullgraph=...\\) is True or False"),
        ({"wait": None}, TypeError, "wait=...\\) is True or False"),
        ({"isolate_recompiles": 0}, TypeError, "isolate_recompiles"),
        ({"disable": "no"}, TypeError, "disable"),
        ({"name": 3}, TypeError, "name=...\\) is text or None"),
        ({"recompile_limit": 0}, ValueError, "at least 1"),
        ({"recompile_limit": True}, TypeError, "is a number or None"),
        ({"shapes_spec": 3}, TypeError, "shapes_spec"),
        ({"speed": 1}, TypeError, "speed"),
    ],
)
def test_wrong_options_are_refused_at_once(given, kind, message):
    for model in ((), (double,)):
        with pytest.raises(kind, match=message):
            firesteel.compile(*model, **given)


@pytest.mark.parametrize("given", [3, None.__class__, Scaler, nn.Linear, "double", property(lambda self: 1), [double]])
def test_what_cannot_be_compiled_is_refused(given):
    with pytest.raises(TypeError, match=r"compile\(\) needs a function, method or module, not"):
        firesteel.compile(given)


def test_every_option_of_the_contract_is_taken():
    compiled = firesteel.compile(
        double, fullgraph=True, dynamic=True, backend="eager", mode="reduce-overhead", options=None, name="d",
        disable=False, recompile_limit=2, isolate_recompiles=True, shapes_spec=None, wait=True,
    )  # fmt: skip
    assert compiled(torch.ones(1)).item() == 2
    compiled(torch.ones(2))
    compiled(torch.ones(3))
    with pytest.raises(firesteel.FailOnRecompileLimitHit):
        compiled(torch.ones(3, 3))


# ---- copies of functions


def test_functions_pickle_by_name_and_copy_as_themselves():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated
    scaler = Scaler(3)
    scaler.fast = firesteel.compile(scaler.method)
    twin = copy.deepcopy(scaler)
    twin.scale = 4
    assert scaler.fast(torch.ones(1)).item() == 3
    assert twin.fast(torch.ones(1)).item() == 4


# ---- modules


def test_a_wrapped_module_is_the_module():
    model = Net()
    compiled = firesteel.compile(model)
    assert isinstance(compiled, Net)
    assert isinstance(compiled, nn.Module)
    assert compiled._orig_mod is model
    assert compiled.describe() == "a net"
    assert list(compiled.state_dict()) == ["fc.weight", "fc.bias"]
    assert [name for name, _ in compiled.named_parameters()] == ["fc.weight", "fc.bias"]
    assert all(a is b for a, b in zip(compiled.parameters(), model.parameters(), strict=True))
    compiled.factor = 3
    assert model.factor == 3
    assert "factor" in dir(compiled)
    assert "Net(" in repr(compiled)
    assert bool(compiled)
    del compiled.factor
    assert not hasattr(model, "factor")
    with pytest.raises(AttributeError, match="nothing"):
        _ = compiled.nothing
    with pytest.raises(TypeError, match="len"):
        len(compiled)


def test_calls_are_compiled_and_equal_eagers():
    model = Net()
    compiled = firesteel.compile(model, fullgraph=True)
    x = torch.randn(5, 3)
    assert compiled.eval() is compiled
    assert not model.training
    torch.testing.assert_close(compiled(x), model(x))
    compiled.train()
    torch.manual_seed(3)
    ours = compiled(x)
    torch.manual_seed(3)
    torch.testing.assert_close(ours, model(x))
    assert served(2)
    assert compiled.requires_grad_(False) is compiled
    assert compiled.to(torch.float64) is compiled
    assert compiled.double().fc.weight.dtype is torch.float64
    assert compiled.apply(lambda module: None) is compiled


def test_hooks_run():
    log = []
    model = Net().eval()
    compiled = firesteel.compile(model, backend="eager")
    handle = compiled.register_forward_hook(lambda module, args, result: log.append("after") or result + 1)
    compiled.register_forward_pre_hook(lambda module, args: log.append("before"))
    x = torch.randn(2, 3)
    ours = compiled(x)
    assert log == ["before", "after"]
    torch.testing.assert_close(ours, model(x))
    handle.remove()
    torch.testing.assert_close(compiled(x) + 1, ours)


def test_containers_keep_their_protocols():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = firesteel.compile(model)
    assert len(compiled) == 2
    assert compiled[1] is model[1]
    assert list(compiled) == list(model)
    compiled.append(nn.Sigmoid())
    compiled[1] = nn.Tanh()
    x = torch.randn(3, 2)
    torch.testing.assert_close(compiled(x), model(x))
    table = firesteel.compile(nn.ModuleDict({"a": nn.Linear(1, 1)}))
    assert "a" in table


def test_checkpoints_load_with_and_without_the_prefix():
    source = Net()
    plain = source.state_dict()
    prefixed = {f"_orig_mod.{key}": value for key, value in plain.items()}
    torchs_own = torch.compile(source).state_dict()
    assert set(torchs_own) == set(prefixed)
    for checkpoint in (plain, prefixed, torchs_own):
        model = Net()
        assert not firesteel.compile(model).load_state_dict(checkpoint).missing_keys
        torch.testing.assert_close(model.state_dict(), plain)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        firesteel.compile(Net()).load_state_dict({**prefixed, "_orig_mod.more": torch.ones(1)})


def test_as_a_part_of_another_module():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = firesteel.compile(Net())
            self.head = nn.Linear(2, 2)

        def forward(self, x):
            return self.head(self.part(x))

    outer = Outer().eval()
    assert not outer.part.training
    assert list(outer.state_dict()) == ["part.fc.weight", "part.fc.bias", "head.weight", "head.bias"]
    assert len(list(outer.parameters())) == 4
    state = {key.replace("part.", "part._orig_mod."): value + 1 for key, value in outer.state_dict().items()}
    outer.load_state_dict(state)
    torch.testing.assert_close(outer.part.fc.weight, state["part._orig_mod.fc.weight"])
    x = torch.randn(4, 3)
    expected = outer.head(outer.part._orig_mod(x))
    torch.testing.assert_close(outer(x), expected)
    torch.testing.assert_close(firesteel.compile(outer, fullgraph=True)(x), expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_copies_and_pickles(backend):
    compiled = firesteel.compile(Net().eval(), backend=backend)
    x = torch.randn(2, 3)
    expected = compiled(x)
    saved = io.BytesIO()
    torch.save(compiled, saved)
    saved.seek(0)
    for twin in (
        copy.deepcopy(compiled),
        pickle.loads(pickle.dumps(compiled)),
        torch.load(saved, weights_only=False),
        copy.deepcopy(compiled._orig_mod),
    ):
        assert isinstance(twin, Net)
        torch.testing.assert_close(twin(x), expected)
        twin.fc.weight.data.zero_()
        assert not torch.equal(twin(x), expected)
    torch.testing.assert_close(compiled(x), expected)


def test_in_place():
    model = Net().eval()
    x = torch.randn(2, 3)
    expected = model(x)
    assert firesteel.compile_module_(model, fullgraph=True) is model
    torch.testing.assert_close(model(x), expected)
    assert served()
    assert type(model) is Net
    twin = pickle.loads(pickle.dumps(model))
    torch.testing.assert_close(copy.deepcopy(model)(x), twin(x))
    assert served()  # copies are plain
    outer = nn.Sequential(model, nn.ReLU())
    torch.testing.assert_close(firesteel.compile(outer, fullgraph=True)(x), expected.relu())
    firesteel.compile_module_(model, disable=True)
    torch.testing.assert_close(model(x), expected)
    with pytest.raises(TypeError, match="needs a module"):
        firesteel.compile_module_(double)
