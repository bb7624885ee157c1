"""firesteel.trace and the objects it gives: what can be traced, how a graph reads, and that replays equal eager."""

import functools
import gc
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
import torch.nn.functional as F

import firesteel


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def replays_like_eager(function, *examples, fresh):
    """Traces on `examples`, replays on other values and compares with eager."""
    graph = firesteel.trace(function, *examples)
    torch.testing.assert_close(graph(*fresh), function(*fresh))
    return graph


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.register_buffer("offset", torch.randn(3))

    def forward(self, x, factor=1.0):
        return self.fc(x) * factor + self.offset

    def twice(self, x):
        return self.forward(self.forward(x) @ self.fc.weight)


def double(x):
    return x * 2


MODEL = Scale()

CALLABLES = {
    "function": double,
    "lambda": lambda x: x.sin() + 1,
    "module": MODEL,
    "method": MODEL.twice,
    "partial": functools.partial(torch.mul, torch.arange(4.0)),
    "builtin": torch.sigmoid,
    "tensor method": torch.Tensor.cos,
    "class with __call__": type("Caller", (), {"__call__": lambda self, x: x - 3})(),
    "closure": (lambda weight: lambda x: x @ weight)(torch.randn(4, 5)),
}


@pytest.mark.parametrize("function", CALLABLES.values(), ids=CALLABLES)
def test_every_kind_of_callable_can_be_traced(function):
    replays_like_eager(function, torch.randn(2, 4), fresh=[torch.randn(2, 4)])


def test_arguments_and_results_nest():
    def f(pair, *, table, flag):
        first, second = pair
        assert flag == "on"
        return {"sum": first + second, "rest": (table["w"] * 2, [first, None, 7])}

    graph = firesteel.trace(f, (torch.ones(2), torch.ones(2)), table={"w": torch.ones(3)}, flag="on")
    a, b, w = torch.randn(2), torch.randn(2), torch.randn(3)
    result = graph((a, b), flag="on", table={"w": w})  # keywords come in any order
    torch.testing.assert_close(result["sum"], a + b)
    torch.testing.assert_close(result["rest"][0], w * 2)
    assert result["rest"][1][0] is a
    assert result["rest"][1][1:] == [None, 7]


def test_text_and_nodes():
    def f(x, w):
        return torch.relu(x @ w)

    graph = firesteel.trace(f, torch.ones(2, 3), torch.ones(3, 4))
    assert repr(graph) == "<firesteel.Graph f: 2 inputs, 2 nodes, 1 outputs>"
    assert "%mm: f32[2, 4] = aten.mm(%x, %w)" in str(graph)
    mm, relu = graph.nodes
    assert (mm.op, mm.name, mm.names, mm.inputs, mm.args) == ("aten.mm", "mm", ["mm"], ["x", "w"], "%x, %w")
    assert (mm.shape, mm.strides, mm.dtype, mm.device) == ((2, 4), (4, 1), torch.float32, torch.device("cpu"))
    assert mm.type == "f32[2, 4]"
    assert mm.phase == "forward"
    assert relu.inputs == ["mm"]
    assert repr(relu) == "%relu: f32[2, 4] = aten.relu(%mm)"
    assert [(value.name, value.role, value.shape) for value in graph.inputs] == [
        ("x", "argument", (2, 3)),
        ("w", "argument", (3, 4)),
    ]
    assert [value.name for value in graph.outputs] == ["relu"]
    assert graph.captured == []
    assert graph.backward is None


def test_several_outputs_of_one_node():
    graph = firesteel.trace(lambda x: torch.split(x, 2), torch.ones(5))
    (split,) = graph.nodes
    assert [output.shape for output in split.outputs] == [(2,), (2,), (1,)]
    assert len(set(split.names)) == 3


def test_inputs_are_named_after_the_program():
    graph = firesteel.trace(MODEL, torch.ones(2, 4))
    assert [value.name for value in graph.inputs] == ["x", "fc.weight", "fc.bias", "offset"]
    assert [value.role for value in graph.inputs] == ["argument", "captured", "captured", "captured"]
    assert graph.captured[0] is MODEL.fc.weight
    assert graph.captured[2] is MODEL.offset

    nested = firesteel.trace(lambda batch: batch["ids"][0] + 1, {"ids": [torch.ones(2)]})
    assert [value.name for value in nested.inputs] == ["batch_ids_0"]


def test_captured_tensors_are_read_at_every_call():
    model = Scale()
    graph = firesteel.trace(model, torch.ones(2, 4))
    with torch.no_grad():
        model.fc.weight.mul_(3)
        model.offset.fill_(-1)
    x = torch.randn(2, 4)
    torch.testing.assert_close(graph(x), model(x))


def test_nodes_keep_their_graph_alive():
    nodes = firesteel.trace(lambda x: (x + 1) * 2, torch.ones(3)).nodes
    part = firesteel.trace(double, torch.ones(3, requires_grad=True), grad=True).backward
    gc.collect()
    assert [node.op for node in nodes] == ["aten.add.Tensor", "aten.mul.Tensor"]
    assert part.nodes[0].phase == "backward"


def test_text_reads_back():
    graph = firesteel.trace(MODEL, torch.ones(2, 4), grad=True)
    for shown in (graph, graph.joint, graph.forward, graph.backward):
        again = firesteel.parse_graph(str(shown))
        assert str(again) == str(shown)
        assert [node.op for node in again.nodes] == [node.op for node in shown.nodes]


def test_broken_text_is_a_graph_format_error():
    with pytest.raises(firesteel.GraphFormatError):
        firesteel.parse_graph("graph f(%x: f32[2]) {\n  %y: f32[2] = aten.no_such_op(%x)\n  return %y\n}")


def test_parts_and_texts_are_not_callable():
    graph = firesteel.trace(double, torch.ones(2))
    for part in (firesteel.parse_graph(str(graph)), graph.joint):
        with pytest.raises(TypeError, match="for reading"):
            part(torch.ones(2))


def test_gradients():
    def loss(x, w):
        return F.gelu(x @ w).square().mean()

    def leaf(*shape):
        return torch.randn(*shape, requires_grad=True)

    graph = firesteel.trace(loss, leaf(4, 5), leaf(5, 6), grad=True)
    assert {node.phase for node in graph.joint.nodes} == {"forward", "backward"}
    assert all(node.phase == "backward" for node in graph.backward.nodes)
    assert [value.role for value in graph.joint.inputs] == ["argument", "argument", "tangent"]
    assert "saved" in {value.role for value in graph.backward.inputs}

    x, w = leaf(4, 5), leaf(5, 6)
    result = graph(x, w)
    result.backward()
    gradients = torch.autograd.grad(loss(x, w), (x, w))
    torch.testing.assert_close(result, loss(x, w))
    torch.testing.assert_close((x.grad, w.grad), gradients)


def test_results_that_are_inputs_stay_themselves():
    graph = firesteel.trace(lambda x, y: (x, [y, x]), torch.ones(2), torch.ones(3))
    x, y = torch.randn(2), torch.randn(3)
    first, (second, third) = graph(x, y)
    assert first is x
    assert second is y
    assert third is x


def test_one_tensor_given_twice_is_one_tensor_inside():
    seen = []
    x = torch.ones(2)
    firesteel.trace(lambda a, b: seen.append(a is b) or a + b, x, x)
    assert seen == [True]


def test_classes_and_attributes_of_tensors_are_kept():
    class Tagged(torch.Tensor):
        pass

    tagged = torch.ones(2).as_subclass(Tagged)
    tagged.label = "left"

    def f(p, t):
        assert type(p) is torch.nn.Parameter
        assert type(t) is Tagged
        assert t.label == "left"
        return p + torch.Tensor(t)

    p = torch.nn.Parameter(torch.randn(2))
    torch.testing.assert_close(firesteel.trace(f, p, tagged)(p, tagged), p + torch.ones(2))


def test_input_mutation_is_replayed():
    def f(x):
        x.add_(1)
        return x * 2

    example = torch.zeros(3)
    graph = firesteel.trace(f, example)
    assert torch.equal(example, torch.zeros(3)), "tracing changes nothing"
    x, y = torch.arange(3.0), torch.arange(3.0)
    torch.testing.assert_close(graph(x), f(y))
    torch.testing.assert_close(x, y)


def test_is_compiling_and_is_traced():
    seen = []

    def f(x):
        seen.append((firesteel.is_compiling(), firesteel.is_traced(x), firesteel.is_traced(x + 1)))
        return x + 1

    assert not firesteel.is_compiling()
    x = torch.ones(1)
    graph = firesteel.trace(f, x)
    assert seen == [(True, True, True)]
    assert not firesteel.is_compiling()
    assert not firesteel.is_traced(x)
    assert not firesteel.is_traced(graph(x))
    assert not firesteel.is_traced("text")


def test_counters():
    firesteel.reset_trace_counters()
    firesteel.trace(lambda x: (x + 1).relu(), torch.ones(2))
    counters = firesteel.trace_counters()
    assert counters["recorded"] == 2
    assert counters["rule"] + counters["cpp_meta"] + counters["python_meta"] + counters["zero_run"] == 2
    firesteel.reset_trace_counters()
    assert firesteel.trace_counters()["recorded"] == 0


def test_trace_inside_trace():
    inner = []
    real = torch.ones(2)

    def f(x):
        inner.append(firesteel.trace(double, real))
        return x + 1

    outer = firesteel.trace(f, torch.ones(3))
    assert [node.op for node in outer.nodes] == ["aten.add.Tensor"]
    assert [node.op for node in inner[0].nodes] == ["aten.mul.Tensor"]
    torch.testing.assert_close(inner[0](torch.tensor([1.0, 2.0])), torch.tensor([2.0, 4.0]))


def test_a_graph_called_inside_a_trace_is_recorded():
    inner = firesteel.trace(lambda x: x.sin() + 1, torch.ones(3))
    outer = replays_like_eager(lambda x: inner(x * 2), torch.ones(3), fresh=[torch.randn(3)])
    assert [node.op for node in outer.nodes] == ["aten.mul.Tensor", "aten.sin", "aten.add.Tensor"]


def test_threads_trace_and_call_at_once():
    errors = []

    def work(seed):
        try:
            for step in range(10):
                x = torch.full((4,), float(seed + step))
                graph = firesteel.trace(lambda x: x * seed + 1, x)
                assert torch.equal(graph(x), x * seed + 1)
                assert len(graph.nodes) == 2
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_python_custom_ops_and_functions_run_when_called():
    calls = []

    @torch.library.custom_op("firesteel_api_test::scale", mutates_args=())
    def scale(x: torch.Tensor, by: float) -> torch.Tensor:
        calls.append(by)
        return x * by

    scale.register_fake(lambda x, by: torch.empty_like(x))
    graph = firesteel.trace(lambda x: scale(x, 3.0) + 1, torch.ones(2))
    assert calls == []
    x = torch.randn(2)
    torch.testing.assert_close(graph(x), x * 3 + 1)
    assert calls == [3.0]


def test_warnings_of_torch_reach_python():
    def f(x):
        return torch.empty(0).resize_(0) + torch.nn.functional.l1_loss(x, torch.ones(1, 3))

    with pytest.warns(UserWarning, match="target size"):
        firesteel.trace(f, torch.ones(2, 3))


def test_import_is_cheap_and_clean():
    """Nothing of PyTorch's own compiler comes with the package: what `import torch` has not loaded stays out."""
    script = textwrap.dedent(
        """
        import sys, torch
        before = set(sys.modules)
        import firesteel
        firesteel.trace(lambda x: x + 1, torch.ones(2))
        new = {name for name in set(sys.modules) - before}
        bad = [n for n in new if n.startswith(("torch._dynamo", "torch._functorch", "torch._inductor", "torch.fx"))]
        assert not bad, bad
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
