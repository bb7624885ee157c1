"""Every node carries the user's line, whatever stands between that line and the operator."""

import contextlib
import functools
import inspect
import sys
import threading

import torch
import torch.nn.functional as F

import firesteel


def here():
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def lines_of(graph, op=None):
    return [node.source.line for node in graph.nodes if op is None or node.op == op]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x):
        x = self.fc(x)
        return F.softmax(x, dim=-1)


def test_line_file_and_function():
    def f(x):
        y = x + 1
        return y * 2

    first = inspect.getsourcelines(f)[1]
    graph = firesteel.trace(f, torch.ones(2))
    assert [tuple(node.source) for node in graph.nodes] == [(__file__, first + 1, "f"), (__file__, first + 2, "f")]
    assert graph.nodes[0].source.function == "f"
    assert f"# test_sources.py:{first + 1} f" in str(graph)


def test_lines_below_modules_and_functional():
    first = inspect.getsourcelines(Block.forward)[1]
    graph = firesteel.trace(Block(), torch.ones(2, 3))
    assert set(lines_of(graph)) == {first + 1, first + 2}
    assert {node.source.function for node in graph.nodes} == {"forward"}
    assert {node.source.file for node in graph.nodes} == {__file__}


def test_the_innermost_line_of_nested_calls():
    def inner(x):
        return x.sin()

    def outer(x):
        return inner(x) + inner(x * 2)

    graph = firesteel.trace(outer, torch.ones(2))
    assert [node.source.function for node in graph.nodes] == ["inner", "outer", "inner", "outer"]
    assert set(lines_of(graph, "aten.sin")) == {inspect.getsourcelines(inner)[1] + 1}


def test_decorators_and_context_managers_of_the_library_are_no_users():
    @contextlib.contextmanager
    def nothing():
        yield

    def f(x):
        with nothing(), torch.no_grad():
            x = functools.reduce(lambda a, b: a + b, [x, x])
        return torch.no_grad()(lambda: x * 2)()

    first = inspect.getsourcelines(f)[1]
    assert lines_of(firesteel.trace(f, torch.ones(2))) == [first + 2, first + 3]


def test_backward_nodes_carry_the_line_of_their_forward():
    def f(x):
        y = x.sin()
        return y.exp().sum()

    first = inspect.getsourcelines(f)[1]
    graph = firesteel.trace(f, torch.ones(3, requires_grad=True), grad=True)
    backward = [node for node in graph.joint.nodes if node.phase == "backward"]
    assert {node.source.line for node in backward if node.op == "aten.cos"} == {first + 1}


def test_without_user_code_inside_the_line_is_that_of_the_trace():
    line = here() + 1
    graph = firesteel.trace(torch.nn.ReLU(), torch.ones(2))
    assert lines_of(graph) == [line]


def test_code_without_a_file():
    namespace = {"torch": torch}
    exec(compile("def f(x):\n    return x + 1\n", "<made up>", "exec"), namespace)
    (node,) = firesteel.trace(namespace["f"], torch.ones(2)).nodes
    assert tuple(node.source) == ("<made up>", 2, "f")


def test_code_objects_that_come_and_go():
    """Lines are remembered by code object: a new one at a reused address must not inherit the old one's."""

    def f(x):
        for i in range(50):
            namespace = {}
            exec(compile("\n" * i + "def g(x): return x + 1\n", f"<piece {i}>", "exec"), namespace)
            x = namespace["g"](x)
        return x

    graph = firesteel.trace(f, torch.ones(1))
    assert [(node.source.file, node.source.line) for node in graph.nodes] == [
        (f"<piece {i}>", i + 1) for i in range(50)
    ]


def test_a_thread_without_python_frames_above_the_call():
    result = []
    thread = threading.Thread(target=functools.partial(firesteel.trace, torch.sin, torch.ones(2)))
    thread.start()
    thread.join()
    worker = threading.Thread(target=lambda: result.append(firesteel.trace(torch.sin, torch.ones(2))))
    worker.start()
    worker.join()
    assert result[0].nodes[0].op == "aten.sin"


def test_errors_quote_wide_characters_in_place():
    def f(x):
        größe = {"ä✓": x.sum()}
        return x * größe["ä✓"].item()

    try:
        firesteel.trace(f, torch.ones(2))
    except firesteel.DataDependentError as error:
        _, quoted, carets, *_ = str(error).split("\n")
    assert quoted.endswith('return x * größe["ä✓"].item()')
    assert carets == " " * quoted.index('größe["') + "^" * len('größe["ä✓"].item()')


def test_errors_show_the_calls_between():
    def innermost(x):
        return x.item()

    def middle(x):
        return innermost(x)

    def f(x):
        return middle(x)

    try:
        firesteel.trace(f, torch.ones(1))
    except firesteel.DataDependentError as error:
        text = str(error)
    first = {g: inspect.getsourcelines(g)[1] + 1 for g in (f, middle)}
    expected = f"inside: f (test_sources.py:{first[f]}) → middle (test_sources.py:{first[middle]})"
    assert expected in text
