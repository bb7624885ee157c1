"""nonstrict_trace and allow_in_graph given what they cannot take: a clear error, and the next correct call works."""

import io
import threading

import pytest
import torch
from torch.utils import _pytree as pytree

import firesteel

BACKENDS = ["eager", "aot_eager"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)

COUNTER = 0
KEPT = []


class Unknown:
    def __init__(self, value):
        self.value = value


def refused(function, error, *texts, backend, args=None, fullgraph=(True, False)):
    """Each text is in the error, with the user's line; a correct call afterwards works."""
    for whole in fullgraph:
        compiled = firesteel.compile(function, backend=backend, fullgraph=whole)
        with pytest.raises(error) as caught:
            compiled(*(args or (torch.randn(3),)))
        for text in texts:
            assert text in str(caught.value), str(caught.value)
    ok = firesteel.nonstrict_trace(lambda x: x + 1)
    x = torch.randn(3)
    assert torch.equal(firesteel.compile(lambda x: ok(x), backend=backend, fullgraph=True)(x), x + 1)


@pytest.mark.parametrize("bad", [3, "text", None, [1]])
def test_what_is_no_function(backend, bad):
    for control in (firesteel.nonstrict_trace, firesteel.allow_in_graph, firesteel.forbid_in_graph):
        if isinstance(bad, list) and control is not firesteel.nonstrict_trace:
            bad = [1]
        with pytest.raises(TypeError, match="needs a function"):
            control(bad)


def test_a_class_where_a_function_is_due(backend):
    for control in (firesteel.nonstrict_trace, firesteel.allow_in_graph, firesteel.assume_constant_result):
        with pytest.raises(TypeError, match="the class Unknown"):
            control(Unknown)


def test_an_unregistered_type_deep_in_an_argument(backend):
    opaque = firesteel.nonstrict_trace(lambda x, cfg: x + cfg["a"][1].value)
    holder = {"a": [0, Unknown(1)]}
    refused(
        lambda x: opaque(x, holder),
        firesteel.TraceError,
        'args[1]["a"][1] is an Unknown',
        "register_pytree_node",
        "register_dataclass",
        "register_constant",
        "test_nonstrict_bad_input.py",
        backend=backend,
    )
    refused(lambda x: opaque(x, cfg=holder), firesteel.TraceError, 'kwargs["cfg"]["a"][1]', backend=backend)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda x: (i for i in [x]), "generator"),
        (lambda x: threading.Lock(), "lock"),
        (lambda x: io.StringIO(), "StringIO"),
        (lambda x: Unknown(x), "Unknown"),
    ],
)
def test_results_that_cannot_be_given(backend, made, name):
    opaque = firesteel.nonstrict_trace(lambda x: [x, made(x)])
    refused(lambda x: opaque(x), firesteel.OutputTypeError, name, "result[1]", backend=backend)


def test_a_generator_that_is_refused_goes_quietly(backend, capfd):
    opaque = firesteel.nonstrict_trace(lambda x: (x for _ in range(2)))
    with pytest.raises(firesteel.Error):
        firesteel.compile(lambda x: opaque(x), backend=backend, fullgraph=True)(torch.ones(2))
    assert "ignored" not in capfd.readouterr().err


def test_a_function_made_inside(backend):
    def f(x):
        @firesteel.nonstrict_trace
        def inside(y):
            return y + x

        return inside(x)

    refused(f, firesteel.ControlError, "inside", "define it outside", "test_nonstrict_bad_input.py", backend=backend)


def test_an_exception_is_itself(backend):
    def fails(x):
        raise KeyError("of the user's")

    opaque = firesteel.nonstrict_trace(fails)
    for whole in (True, False):
        with pytest.raises(KeyError, match="of the user's") as caught:
            firesteel.compile(lambda x: opaque(x), backend=backend, fullgraph=whole)(torch.randn(3))
        assert "fails" in [entry.name for entry in caught.traceback]


def test_an_exception_may_be_caught_inside(backend):
    @firesteel.nonstrict_trace
    def fails(x):
        raise KeyError("of the user's")

    def f(x):
        try:
            return fails(x)
        except KeyError:
            return x + 1

    x = torch.randn(3)
    assert torch.equal(firesteel.compile(f, backend=backend, fullgraph=True)(x), x + 1)


def test_exit_exits(backend):
    opaque = firesteel.nonstrict_trace(lambda x: exit(3))
    for whole in (True, False):
        with pytest.raises(SystemExit):
            firesteel.compile(lambda x: opaque(x), backend=backend, fullgraph=whole)(torch.randn(3))


def test_a_data_dependent_branch(backend):
    @firesteel.nonstrict_trace
    def branches(x):
        if x.sum() > 0:
            return x
        return -x

    refused(lambda x: branches(x), firesteel.DataDependentError, "if x.sum() > 0:", backend=backend)


def test_writes_to_globals(backend):
    @firesteel.nonstrict_trace
    def counts(x):
        global COUNTER
        COUNTER += 1
        return x

    refused(lambda x: counts(x), firesteel.ControlError, "`", "sets the global `COUNTER`", backend=backend)
    assert COUNTER == 0


def test_writes_to_an_enclosing_function(backend):
    total = 0

    @firesteel.nonstrict_trace
    def counts(x):
        nonlocal total
        total += 1
        return x

    refused(lambda x: counts(x), firesteel.ControlError, "sets `total` of an enclosing function", backend=backend)
    assert total == 0


def test_writes_to_a_module(backend):
    module = torch.nn.Linear(3, 3)
    module.seen = 0
    module.register_buffer("last", torch.zeros(3))
    before = module.last

    @firesteel.nonstrict_trace
    def counts(module, x):
        module.seen += 1
        return x

    @firesteel.nonstrict_trace
    def rebinds(module, x):
        module.last = x + 1
        return x

    refused(
        lambda x: counts(module, x), firesteel.ControlError, "sets the attribute `seen` of a Linear", backend=backend
    )
    refused(lambda x: rebinds(module, x), firesteel.ControlError, "the attribute `last` of a Linear", backend=backend)
    assert module.seen == 0
    assert module.last is before


def test_a_leaked_tensor_is_named(backend):
    @firesteel.nonstrict_trace
    def keeps(x):
        KEPT.append(x * 2)
        return x

    try:
        refused(
            lambda x: keeps(x),
            firesteel.EscapedTensorError,
            "keeps a traced tensor in a list in the global `KEPT` of",
            backend=backend,
        )
    finally:
        KEPT.clear()


def test_a_changed_list_is_seen_or_refused(backend):
    @firesteel.nonstrict_trace
    def appends(items, x):
        items.append(x * 2)
        return x

    def f(x):
        items = [x]
        y = appends(items, x)
        return y, items

    with pytest.raises(firesteel.GraphBreakError, match="changes a container it was given"):
        firesteel.compile(f, backend=backend, fullgraph=True)(torch.randn(3))
    x = torch.randn(3)
    compiled = firesteel.compile(f, backend=backend)
    for _ in range(2):
        assert len(compiled(x)[1]) == 2


# ---- registered classes that misbehave


def registered(flatten, unflatten):
    class Odd:
        def __init__(self, inside):
            self.inside = inside

    pytree.register_pytree_node(Odd, flatten, lambda parts, context: unflatten(Odd, parts, context))
    return Odd


def raising(*_):
    raise LookupError("flatten or unflatten fails")


@pytest.mark.parametrize(
    ("flatten", "unflatten", "error", "text"),
    [
        (raising, lambda cls, parts, context: cls(*parts), LookupError, "flatten or unflatten fails"),
        (lambda odd: ([odd.inside], None), raising, LookupError, "flatten or unflatten fails"),
        (lambda odd: [odd.inside], lambda cls, parts, context: cls(*parts), firesteel.TraceError, "not a pair"),
        (
            lambda odd: (odd.inside, None),
            lambda cls, parts, context: cls(*parts),
            firesteel.TraceError,
            "list or tuple",
        ),
    ],
    ids=["flatten raises", "unflatten raises", "wrong arity", "no children"],
)
def test_registered_classes_that_misbehave(backend, flatten, unflatten, error, text):
    odd = registered(flatten, unflatten)
    opaque = firesteel.nonstrict_trace(lambda x, value: x + value.inside)
    args = torch.randn(3), odd(torch.randn(3))
    refused(lambda x, value: opaque(x, value), error, text, backend=backend, args=args)


def test_a_class_that_changes_its_structure(backend):
    sizes = iter(range(1, 99))
    odd = registered(lambda odd: ([odd.inside] * next(sizes), None), lambda cls, parts, context: cls(parts[0]))
    opaque = firesteel.nonstrict_trace(lambda x, value: x + value.inside)
    with pytest.raises(firesteel.Error):
        firesteel.compile(lambda x, v: opaque(x, v), backend=backend, fullgraph=True)(
            torch.randn(3), odd(torch.randn(3))
        )


def test_constants_without_comparison(backend):
    class Plain:
        pass

    class Unhashable:
        def __eq__(self, other):
            return True

    for bad in (Plain, Unhashable):
        with pytest.raises(TypeError, match=r"__eq__|__hash__"):
            firesteel.register_constant(bad)
    for control in (firesteel.register_constant, firesteel.register_dataclass):
        with pytest.raises(TypeError, match="needs a class"):
            control(3)


def test_registering_again(backend):
    class Twice:
        def __eq__(self, other):
            return isinstance(other, Twice)

        def __hash__(self):
            return 1

    firesteel.register_constant(Twice)
    with pytest.raises(ValueError, match="already registered"):
        firesteel.register_constant(Twice)
    with pytest.raises(ValueError, match="already registered"):
        firesteel.register_pytree_node(Twice, lambda t: ([], None), lambda parts, context: Twice())


# ---- allow_in_graph


@pytest.mark.parametrize("result", [3, "text", {"a": 1}, Unknown(1), None], ids=lambda value: type(value).__name__)
def test_allowed_functions_give_tensors(backend, result):
    @firesteel.allow_in_graph
    def gives(x):
        return result

    refused(lambda x: gives(x), firesteel.ControlError, "a tensor or a tuple of tensors", backend=backend)


def test_allowed_functions_take_no_objects(backend):
    @firesteel.allow_in_graph
    def takes(x, thing):
        return x + thing.value

    thing = Unknown(2)
    refused(lambda x: takes(x, thing), firesteel.ControlError, "an argument of", "object", backend=backend)
