"""disable, disallow_in_graph, graph_break, error_on_graph_break and skip_frame: where they break, and what goes on."""

import functools

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def check(function, *args, backend, captured=None, breaks=None):
    """Two calls equal to eager's; gives what the counters say of them."""
    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(*args), function(*args))
    counts = firesteel.counters()
    assert not counts["fallbacks"], counts
    if captured is not None:
        assert counts["captured"] == captured, counts
    if breaks is not None:
        assert counts["breaks"] == breaks, counts
    return compiled


def refused(function, *texts, backend, args=None):
    with pytest.raises(firesteel.GraphBreakError) as caught:
        firesteel.compile(function, backend=backend, fullgraph=True)(*(args or (torch.randn(3),)))
    for text in texts:
        assert text in str(caught.value), str(caught.value)


def asked():
    return firesteel.is_compiling(), firesteel.is_dynamo_compiling(), firesteel.is_exporting()


# ---- disable


def test_disabled_calls_run_eagerly_and_capture_goes_on(backend):
    seen = []

    @firesteel.disable
    def aside(x):
        seen.append(asked())
        below(x)
        return x.cos()

    def below(x):
        seen.append(asked())

    def f(x):
        before = asked()
        y = aside(x.sin()) * 2
        return y, before

    compiled = firesteel.compile(f, backend=backend)
    firesteel.reset_counters()
    x = torch.randn(3)
    for _ in range(2):
        y, before = compiled(x)
        torch.testing.assert_close(y, x.sin().cos() * 2)
        assert before == (True, True, False)
    assert set(seen) == {(False, False, False)}
    counts = firesteel.counters()
    assert counts["captured"] == 2
    assert counts["breaks"] == {"FS-DISABLED": 2}
    assert not counts["fallbacks"]


def test_forms_of_disable(backend):
    def double(x):
        """Twice."""
        return x * 2

    forms = [
        firesteel.disable(double),
        firesteel.disable()(double),
        firesteel.disable(reason="why")(double),
        firesteel.disable(double, reason="why"),
        firesteel.disable(double, False),
    ]
    for form in forms:
        assert form.__name__ == "double"
        assert form.__doc__ == "Twice."
        assert form.__wrapped__ is double
        assert torch.equal(form(torch.ones(3)), torch.full((3,), 2.0))
        check(lambda x, form=form: form(x + 1) + 1, torch.randn(3), backend=backend)
    assert not hasattr(double, "__wrapped__")
    assert double.__dict__ == {}


def test_the_reason_is_in_the_error(backend):
    aside = firesteel.disable(lambda x: x, reason="logs to a file")
    refused(
        lambda x: aside(x), "[FS-DISABLED]", "logs to a file", "aside(x)", "test_breaking_controls.py", backend=backend
    )


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    @firesteel.disable
    def aside(self, x):
        assert asked() == (False, False, False)
        return self.inner(x)

    @firesteel.disable
    @staticmethod
    def fixed(x):
        assert asked() == (False, False, False)
        return x * 2

    def forward(self, x):
        return self.aside(x.sin()) + self.fixed(x)


def test_methods(backend):
    layer = Layer()
    firesteel.reset_counters()
    compiled = firesteel.compile(layer, backend=backend)
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(x), layer(x))
    assert firesteel.counters()["breaks"] == {"FS-DISABLED": 2}
    bound = firesteel.disable(layer.aside)
    check(lambda x: bound(x) + 1, x, backend=backend, breaks={"FS-DISABLED": 2})


def test_modules_and_their_hooks(backend):
    seen = []
    inner = torch.nn.Linear(3, 3)
    inner.register_forward_hook(lambda *_: seen.append(asked()))
    aside = firesteel.disable(inner)
    assert isinstance(aside, torch.nn.Linear)
    assert list(aside.state_dict()) == ["weight", "bias"]
    x = torch.randn(2, 3)

    def f(x):
        return aside(x.sin()) + 1

    check(f, x, backend=backend, breaks={"FS-DISABLED": 2})
    assert set(seen) == {(False, False, False)}


def test_classes(backend):
    @firesteel.disable(reason="made eagerly")
    class Point:
        def __init__(self, x):
            assert asked() == (False, False, False)
            self.x = x

        def __call__(self, y):
            assert asked() == (False, False, False)
            return self.x + y

        def plain(self, y):
            return self.x * y

    def f(x):
        point = Point(x + 1)
        return point(x) * 2 + point.plain(x)

    assert isinstance(Point, type)
    check(f, torch.randn(3), backend=backend, breaks={"FS-DISABLED": 4})
    refused(f, "made eagerly", backend=backend)


def test_a_compiled_function_inside_a_disabled_one_compiles(backend):
    inner = firesteel.compile(lambda x: x.sin() + 1, backend=backend)
    aside = firesteel.disable(lambda x: inner(x) * 2)
    firesteel.reset_counters()
    compiled = firesteel.compile(lambda x: aside(x + 1) - 1, backend=backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), ((x + 1).sin() + 1) * 2 - 1)
    assert firesteel.counters()["captured"] == 3


def test_not_recursive(backend):
    seen = {}

    def callee(x):
        seen["callee"] = asked()
        return x.sin() * 2

    @firesteel.disable(recursive=False)
    def aside(x):
        seen["aside"] = firesteel.is_compiling(), firesteel.is_dynamo_compiling()
        return callee(x) + 1

    firesteel.reset_counters()
    compiled = firesteel.compile(lambda x: aside(x.cos()) - 1, backend=backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x.cos().sin() * 2 + 1 - 1)
    counts = firesteel.counters()
    assert seen == {"aside": (False, False), "callee": (True, True, False)}
    assert counts["captured"] == 3, counts
    assert counts["breaks"] == {"FS-DISABLED": 1}
    assert torch.equal(aside(x), callee(x) + 1)


def test_compile_of_a_disabled_function_compiles_it(backend):
    for recursive in (True, False):
        aside = firesteel.disable(asked, recursive)
        assert firesteel.compile(aside, backend=backend, fullgraph=True)() == (True, True, False)
        assert aside() == (False, False, False)
    module = firesteel.disable(torch.nn.Identity())
    module._orig_mod.forward = lambda x: asked()
    assert firesteel.compile(module, backend=backend)(torch.zeros(1)) == (True, True, False)


def test_disable_of_a_compiled_function_runs_it_eagerly(backend):
    compiled = firesteel.compile(lambda x: asked(), backend=backend)
    assert compiled(torch.ones(1)) == (True, True, False)
    assert firesteel.disable(compiled)(torch.ones(1)) == (False, False, False)


def test_pytorch_s_own_disable_counts(backend):
    aside = torch.compiler.disable(lambda x: (asked(), x.cos()), reason="of PyTorch's")

    def f(x):
        answers, y = aside(x.sin())
        return (y * 2, *answers)

    check(f, torch.randn(3), backend=backend, breaks={"FS-DISABLED": 2})
    refused(f, "of PyTorch's", backend=backend)


@pytest.mark.parametrize("bad", [3, "text", [len]])
def test_disable_of_what_is_no_function(backend, bad):
    with pytest.raises(TypeError, match="disable\\(\\) needs"):
        firesteel.disable(bad)
    with pytest.raises(TypeError, match="recursive"):
        firesteel.disable(len, "yes")
    with pytest.raises(TypeError, match="reason"):
        firesteel.disable(len, reason=3)


# ---- disallow_in_graph


@pytest.fixture
def disallowed():
    """Disallows, and allows again at the end."""
    said = []

    def disallow(op):
        said.append(op)
        return firesteel.disallow_in_graph(op)

    yield disallow
    for op in said:
        firesteel.allow_in_graph(op)


@pytest.mark.parametrize(
    ("op", "function"),
    [
        (torch.cos, lambda x: torch.cos(x.sin()) + 1),
        (torch.Tensor.cos, lambda x: x.sin().cos() + 1),
        (torch.nn.functional.gelu, lambda x: torch.nn.functional.gelu(x.sin()) + 1),
        (torch.ops.aten.cos.default, lambda x: torch.ops.aten.cos.default(x.sin()) + 1),
        (torch.ops.aten.cos, lambda x: torch.ops.aten.cos(x.sin()) + 1),
        (torch.ops.aten.cos, lambda x: torch.ops.aten.cos.default(x.sin()) + 1),
        ([torch.exp, torch.cos], lambda x: torch.cos(x.sin()) + 1),
    ],
    ids=lambda value: getattr(value, "__name__", "list"),
)
def test_disallowed_operators_break(backend, disallowed, op, function):
    assert disallowed(op) == op
    check(function, torch.randn(3), backend=backend, captured=2, breaks={"FS-DISALLOWED": 2})
    refused(function, "[FS-DISALLOWED]", backend=backend)
    firesteel.allow_in_graph(op)
    check(function, torch.randn(3), backend=backend, captured=1, breaks={})


def test_it_holds_for_code_compiled_before(backend, disallowed):
    compiled = check(lambda x: torch.cos(x.sin()) + 1, torch.randn(3), backend=backend, captured=1)
    x = torch.randn(3)
    for round_number in range(12):  # more often than code may be compiled for other reasons
        disallowed(torch.cos)
        firesteel.reset_counters()
        torch.testing.assert_close(compiled(x), x.sin().cos() + 1)
        assert firesteel.counters()["breaks"] == {"FS-DISALLOWED": 1}, round_number
        firesteel.allow_in_graph(torch.cos)
        firesteel.reset_counters()
        compiled(x)
        assert not firesteel.counters()["breaks"], round_number
        assert not firesteel.counters()["fallbacks"], round_number


def test_an_operator_below_another_has_no_effect_and_warns(backend, disallowed):
    firesteel.reset()
    disallowed(torch.ops.aten.addmm.default)
    layer = torch.nn.Linear(3, 3)
    x = torch.randn(2, 3)
    compiled = firesteel.compile(lambda x: layer(x), backend=backend, fullgraph=True)
    if backend == "eager":
        torch.testing.assert_close(compiled(x), layer(x))
        return
    with pytest.warns(UserWarning, match="disallow_in_graph\\(aten::addmm\\) has no effect here"):
        torch.testing.assert_close(compiled(x), layer(x))


def test_disallow_is_for_operators(backend):
    def mine(x):
        return x + 1

    with pytest.raises(firesteel.ControlError, match=r"`.*mine` is none\n  try: disable\(\)"):
        firesteel.disallow_in_graph(mine)
    with pytest.raises(TypeError, match="needs a function"):
        firesteel.disallow_in_graph(3)
    firesteel.allow_in_graph(mine)
    assert firesteel.disallow_in_graph(mine) is mine
    check(lambda x: mine(x.sin()) + 1, torch.randn(3), backend=backend, breaks={"FS-DISALLOWED": 2})


# ---- graph_break


def in_for(x):
    for i in range(4):
        x = x + i
        firesteel.graph_break()
        x = x * 2
    return x


def in_while(x):
    n = 0
    while n < 3:
        x = x.sin()
        firesteel.graph_break("in a loop")
        n += 1
    return x


def in_with(x):
    with torch.no_grad():
        x = x.sin()
        firesteel.graph_break()
        x = x + float(torch.is_grad_enabled())
    return x * 2 + float(torch.is_grad_enabled())


def in_try(x):
    try:
        x = x.sin()
        firesteel.graph_break()
        x = x + 1
        raise ValueError("inside")
    except ValueError:
        firesteel.graph_break()
        x = x * 2
    finally:
        firesteel.graph_break()
        x = x - 1
    return x


def in_a_call(x):
    def inner(y):
        y = y.sin()
        firesteel.graph_break()
        return y.cos()

    return inner(x + 1) * 2


def in_a_comprehension(x):
    return sum([(firesteel.graph_break(), x * i)[1] for i in range(3)])


@pytest.mark.parametrize("function", [in_for, in_while, in_with, in_try, in_a_call, in_a_comprehension])
def test_graph_breaks_in_blocks(backend, function):
    check(function, torch.randn(3), backend=backend)
    assert firesteel.counters()["breaks"]["FS-GRAPH-BREAK"] >= 2
    assert firesteel.counters()["captured"] >= 2
    refused(function, "[FS-GRAPH-BREAK]", "graph_break(", backend=backend)


def test_its_message_and_its_eager_form(backend):
    assert firesteel.graph_break("anything") is None
    refused(lambda x: firesteel.graph_break("of my own"), "of my own", backend=backend)


# ---- error_on_graph_break


def test_a_stretch_where_breaks_are_errors(backend):
    def f(x, n):
        firesteel.graph_break()  # allowed here
        y = x + n
        with firesteel.error_on_graph_break(True):
            y = y.sin()
            if n > 1:
                firesteel.graph_break("strict")
        firesteel.graph_break()
        return y * 2

    compiled = firesteel.compile(f, backend=backend)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x, 1), f(x, 1))
    with pytest.raises(
        firesteel.GraphBreakError, match="error_on_graph_break\\(True\\) allows no graph break"
    ) as caught:
        compiled(x, 2)
    assert "strict" in str(caught.value)
    torch.testing.assert_close(compiled(x, 1), f(x, 1))


def test_allowed_again_inside(backend):
    def f(x):
        with firesteel.error_on_graph_break(True):
            x = x.sin()
            with firesteel.error_on_graph_break(False):
                firesteel.graph_break()
            return x.cos()

    check(f, torch.randn(3), backend=backend, breaks={"FS-GRAPH-BREAK": 2})
    refused(f, "fullgraph=True allows no graph break", backend=backend)


def test_around_a_call_and_as_a_decorator(backend):
    def breaks(x):
        firesteel.graph_break()
        return x + 1

    x = torch.randn(3)
    compiled = firesteel.compile(breaks, backend=backend)
    with firesteel.error_on_graph_break(True), pytest.raises(firesteel.GraphBreakError):
        compiled(x)
    torch.testing.assert_close(compiled(x), x + 1)
    strict = firesteel.error_on_graph_break(True)(breaks)
    assert strict.__name__ == "breaks"
    torch.testing.assert_close(strict(x), x + 1)  # nothing is compiled here
    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(lambda x: strict(x) * 2, backend=backend)(x)
    with pytest.raises(TypeError, match="True or False"):
        firesteel.error_on_graph_break(3)


# ---- fullgraph inside and outside


def test_fullgraph_holds_inside_another_compiled_function(backend):
    def breaks(x):
        firesteel.graph_break()
        return x + 1

    for inner, outer in ((True, False), (False, True)):
        within = firesteel.compile(breaks, backend=backend, fullgraph=inner)
        around = firesteel.compile(lambda x, within=within: within(x) * 2, backend=backend, fullgraph=outer)
        with pytest.raises(firesteel.GraphBreakError, match="fullgraph=True allows no graph break"):
            around(torch.ones(3))


def test_a_wrapper_around_what_pytorch_disabled_is_not_disabled(backend):
    disabled = torch.compiler.disable(lambda x: x.sin())

    @functools.wraps(disabled)
    def wrapper(x):
        return x.cos(), asked()

    x = torch.randn(3)
    assert firesteel.compile(wrapper, backend=backend, fullgraph=True)(x)[1] == (True, True, False)


# ---- skip_frame


def test_skipped_frames_run_eagerly_and_their_callees_compiled(backend):
    seen = {}

    def callee(x):
        seen["callee"] = asked()
        return x.sin() * 2

    def skipped(x):
        firesteel.skip_frame("not worth it")
        seen["skipped"] = firesteel.is_compiling(), firesteel.is_dynamo_compiling()
        return callee(x) + 1

    firesteel.reset_counters()
    compiled = firesteel.compile(skipped, backend=backend)
    x = torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), x.sin() * 2 + 1)
    assert seen == {"skipped": (False, False), "callee": (True, True, False)}
    assert firesteel.counters()["breaks"] == {"FS-SKIP-FRAME": 2}
    refused(skipped, "[FS-SKIP-FRAME]", "not worth it", backend=backend)

    @functools.wraps(skipped)
    def outer(x):
        return skipped(x.cos()) * 3

    seen.clear()
    torch.testing.assert_close(firesteel.compile(outer, backend=backend)(x), (x.cos().sin() * 2 + 1) * 3)
    assert seen["skipped"] == (False, False)
