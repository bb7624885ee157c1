"""Guards: whatever a captured call read and someone changed is seen at the next call, and said in words."""

import typing
import warnings

import pytest
import torch
from torch import nn

import firesteel

BACKENDS = ["eager", "aot_eager"]
X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def fresh_counters():
    firesteel.reset_counters()


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


class Watched:
    """Calls a function before and after changes; each change must lead to a new capture and the right answer."""

    def __init__(self, function, backend):
        self.function = function
        self.compiled = firesteel.compile(function, backend=backend, fullgraph=True)

    def __call__(self, *args, new):
        before = firesteel.counters()["captured"]
        expected, got = self.function(*args), self.compiled(*args)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert firesteel.counters()["captured"] - before == int(new)
        assert firesteel.counters()["fallbacks"] == {}


SCALE = 2
CONFIG = {"power": 2, "names": ["a", "b"]}
TENSOR = torch.ones(3)


def helper(x):
    return x * 3


def test_globals(backend, monkeypatch):
    watched = Watched(lambda x: helper(x) * SCALE + TENSOR, backend)
    watched(X, new=True)
    watched(X + 1, new=False)
    monkeypatch.setitem(globals(), "SCALE", 5)
    watched(X, new=True)
    monkeypatch.setitem(globals(), "helper", lambda x: x * 7)
    watched(X, new=True)
    monkeypatch.setitem(globals(), "TENSOR", torch.zeros(3))
    watched(X, new=True)
    TENSOR.add_(1)  # the tensor itself is read at every call
    watched(X, new=False)
    monkeypatch.setitem(globals(), "len", lambda x: 3)
    watched(X, new=False)


KINDS = (int, float)


def test_classes_in_a_tuple(backend, monkeypatch):
    watched = Watched(lambda x, n: x * 2 if isinstance(n, KINDS) else x * 3, backend)
    watched(X, 1, new=True)
    monkeypatch.setitem(globals(), "KINDS", (str, bytes))
    watched(X, 1, new=True)


def test_a_builtin_hidden_by_a_global(backend, monkeypatch):
    watched = Watched(lambda x: x * len([1, 2]), backend)
    watched(X, new=True)
    monkeypatch.setitem(globals(), "len", lambda items: 9)
    watched(X, new=True)


def test_containers(backend):
    config = {"power": 2, "names": ["a", "b"]}
    watched = Watched(lambda x: x ** config["power"] * len(config["names"]) + config.get("extra", 0), backend)
    watched(X, new=True)
    config["other"] = 1
    watched(X, new=False)
    config["power"] = 3
    watched(X, new=True)
    config["names"].append("c")
    watched(X, new=True)
    config["extra"] = 1
    watched(X, new=True)


def test_arguments(backend):
    def function(x, scale, names, table):
        return x * scale + len(names) + table["t"]

    watched = Watched(function, backend)
    other = X + 1
    watched(X, 2, ["a"], {"t": other}, new=True)
    watched(X, 2, ["b"], {"t": X + 3}, new=False)
    watched(X + 2, 2, ["b"], {"t": X + 4}, new=False)
    watched(X, 3, ["b"], {"t": other}, new=True)
    watched(X, 2.0, ["b"], {"t": other}, new=True)
    watched(X, True, ["b"], {"t": other}, new=True)
    watched(X, 2, ["b", "c"], {"t": other}, new=True)
    watched(X, 2, ["b"], {"t": X[0]}, new=True)
    watched(X, 2, ["b"], {"t": X}, new=True)  # the same tensor twice


def test_tensors(backend):
    watched = Watched(lambda x: x * 2, backend)
    watched(X, new=True)
    for other in (X.double(), X[:1], X.T, X.clone().requires_grad_(), X[:, 1:], nn.Parameter(X.clone())):
        watched(other, new=True)
        watched(other, new=False)


def test_the_same_tensor_twice(backend):
    def function(x, y):
        return x + y, x is y

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    a, b = torch.randn(3), torch.randn(3)
    for args in ((a, b), (a, a), (b, a), (b, b)):
        result = compiled(*args)
        assert torch.equal(result[0], args[0] + args[1])
        assert result[1] is (args[0] is args[1])
    assert firesteel.counters()["captured"] == 2


def test_ways_to_pass_arguments(backend):
    def function(x, y=2, *rest, k=3, **named):
        return x * y + k + sum([*rest, *named.values()])

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    calls = [
        ((X,), {}),
        ((X, 4), {}),
        ((X,), {"y": 5}),
        ((X, 1, 2, 3), {"k": 1}),
        ((X,), {"k": 2, "z": 1}),
        ((), {"x": X}),
    ]
    for args, kwargs in calls * 2:
        assert torch.equal(compiled(*args, **kwargs), function(*args, **kwargs))
    assert firesteel.counters()["captured"] == len(calls) - 1  # the last is the first, written in another way
    function.__defaults__ = (7,)
    assert torch.equal(compiled(X), function(X))
    function.__kwdefaults__["k"] = 8
    assert torch.equal(compiled(X), function(X))


def test_closures(backend):
    def make(scale):
        def function(x):
            return x * scale

        def change(value):
            nonlocal scale
            scale = value

        return function, change

    function, change = make(2)
    watched = Watched(function, backend)
    watched(X, new=True)
    change(3)
    watched(X, new=True)
    change(2)
    watched(X, new=False)

    def apply(f, x):
        return f(x)

    compiled = firesteel.compile(apply, backend=backend, fullgraph=True)
    before = firesteel.counters()["captured"]
    for scale in (4, 4, 5):
        assert torch.equal(compiled(make(scale)[0], X), X * scale)
    assert firesteel.counters()["captured"] - before == 2


class Model(nn.Module):
    factor = 2

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.offset = 1.0
        self.register_buffer("state", torch.ones(3))

    @property
    def doubled(self):
        return self.offset * 2

    def forward(self, x):
        return self.drop(self.inner(x)) * self.factor + self.doubled + self.state


def test_modules(backend):
    model = Model()

    def run(x):
        torch.manual_seed(0)
        return model(x)

    compiled = firesteel.compile(model, backend=backend, fullgraph=True)

    def call(new):
        before = firesteel.counters()["captured"]
        torch.manual_seed(0)
        assert torch.equal(compiled(X), run(X))
        assert firesteel.counters()["captured"] - before == int(new)

    call(new=True)
    call(new=False)
    model.eval()
    call(new=True)
    model.train()
    call(new=False)
    model.inner.weight = nn.Parameter(torch.randn(3, 3))
    call(new=True)
    model.inner.weight.data.mul_(2)
    call(new=False)
    model.offset = 4.0
    call(new=True)
    model.state = torch.zeros(3)
    call(new=True)
    model.factor = 3
    call(new=True)
    del model.factor
    Model.factor = 5
    try:
        call(new=True)
    finally:
        Model.factor = 2
    model.inner = nn.Linear(3, 3, bias=False)
    call(new=True)
    assert firesteel.counters()["fallbacks"] == {}


def test_hooks_and_patched_methods(backend):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    compiled = firesteel.compile(model, backend=backend)
    assert torch.equal(compiled(X), model(X))
    seen = []
    handle = model[0].register_forward_hook(lambda module, args, result: seen.append(1))
    assert torch.equal(compiled(X), model(X))
    assert len(seen) == 2
    handle.remove()
    model[1].forward = lambda x: x * 100
    assert torch.equal(compiled(X), model(X))


def test_code_replaced(backend):
    def function(x):
        return x + 1

    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    assert torch.equal(compiled(X), X + 1)
    function.__code__ = (lambda x: x + 2).__code__
    assert torch.equal(compiled(X), X + 2)


def test_ambient_state(backend):
    compiled = firesteel.compile(lambda x: x + torch.ones(3), backend=backend, fullgraph=True)
    compiled(X)
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(X).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert compiled(X).dtype == torch.float32
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        compiled(X)
    finally:
        torch.set_num_threads(threads)
    assert firesteel.counters()["captured"] == 3


def test_the_recompile_limit(backend):
    compiled = firesteel.compile(lambda x, n: x * len(str(n) * n), backend=backend)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for n in range(12):
            assert torch.equal(compiled(X, n), X * len(str(n) * n))
    counters = firesteel.counters()
    assert counters["captured"] == 8
    assert counters["fallbacks"] == {"FS-RECOMPILE-LIMIT": 4}
    (warning,) = given
    assert "was compiled 8 times and runs eagerly" in str(warning.message)
    assert "`n` is 8, was 7" in str(warning.message)
    assert torch.equal(compiled(X, 3), X * 3)
    assert firesteel.counters()["fallbacks"] == {"FS-RECOMPILE-LIMIT": 4}

    strict = firesteel.compile(lambda x, n: x * len(str(n)), backend=backend, fullgraph=True, recompile_limit=2)
    strict(X, 1)
    strict(X, 2)
    with pytest.raises(firesteel.RecompileLimitError, match=r"compiled 2 times(.*\n)+.*`n` is 3, was 2"):
        strict(X, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: ((X[:1], 1, [1]), {}), r"`x`: size is \[1, 3\], was \[2, 3\]"),
        (lambda: ((X.double(), 1, [1]), {}), "`x`: dtype is Double, was Float"),
        (lambda: ((X, 2, [1]), {}), "`n` is 2, was 1"),
        (lambda: ((X, 1, (1,)), {}), "`items` is a tuple, was a list"),
        (lambda: ((X, 1, [1, 2]), {}), "`items` has 2 items, had 1"),
        (lambda: ((3, 1, [1]), {}), "`x`: no tensor any more"),
        (lambda: ((X, 1, [1], 5), {}), "passes its arguments in another way"),
    ],
)
def test_misses_are_told_in_words(change, words):
    compiled = firesteel.compile(lambda x, n, items, *rest: x * n + len(items), recompile_limit=1)
    compiled(X, 1, [1])
    args, kwargs = change()
    with pytest.warns(RuntimeWarning, match=words):
        compiled(*args, **kwargs)


def test_a_dict_keyed_by_forms_of_typing():
    kinds = {int: 1, typing.Union: 2, typing.Any: 3}

    def f(x):
        return x + 1, kinds.get(typing.Union), [kinds[key] for key in kinds]

    compiled = firesteel.compile(f, fullgraph=True, backend="eager")
    for change in ({}, {typing.Any: 5}, {str: 4}):
        kinds.update(change)
        assert compiled(torch.ones(2))[1:] == f(torch.ones(2))[1:]
