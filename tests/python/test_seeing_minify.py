"""`firesteel minify`: a mistake planted in one operation is found, cut out, and shown by a program of its own."""

import os
import subprocess
import sys

import pytest
import torch

import firesteel
from firesteel import __main__ as command_line
from firesteel._minify import cut, judge, look, reduce, repro

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, x):
        h = F.gelu(self.first(x)) * 2 + 1
        h = h - h.mean(-1, keepdim=True)
        y = self.second(h)
        z = (torch.tanh(y) * 3 + y.sigmoid()) / 2
        s = torch.sin(self.norm(z))
        return F.softmax(s, -1).sum(0)

def wave(x, table, index):
    return (torch.tanh(x) + table[index]).relu()

if __name__ == "__main__":
    torch.manual_seed(0)
    net = Net()
    step = torch.compile(net)
    step(torch.randn(8, 16)).pow(2).sum().backward()
    print("went well")
"""
TANH = PROGRAM.splitlines().index("        z = (torch.tanh(y) * 3 + y.sigmoid()) / 2") + 1
SIN = TANH + 1


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "träin.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def python(*arguments, folder, **variables):
    # Kernels with a mistake must not be kept.
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True,
                          timeout=500, env={**os.environ, "FIRESTEEL_CACHE": "0", **variables})  # fmt: skip


def graph_of(path):
    """The graph of a repro."""
    space = {}
    exec(compile(path.read_text(encoding="utf-8").split("\nINPUTS")[0], path, "exec"), {"__file__": str(path)}, space)
    return firesteel.parse_graph(space["GRAPH"])


# --- whole programs


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(("operation", "op", "line", "phase"), [("tanh", "aten.tanh", TANH, "forward"),
                                                                ("cos", "aten.cos", SIN, "backward")])  # fmt: skip
def test_one_wrong_operation_of_a_model_is_cut_out(script, tmp_path, operation, op, line, phase):
    done = python("-m", "firesteel", "minify", "-o", "small.py", script, folder=tmp_path, FIRESTEEL_SPOIL=operation)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"tier: native code, {phase} of graph 1 of `Net` (träin.py:" in done.stdout
    assert "wrote small.py: " in done.stdout
    graph = graph_of(tmp_path / "small.py")
    assert op in [node.op for node in graph.nodes]
    assert len(graph.nodes) <= 3
    text = (tmp_path / "small.py").read_text(encoding="utf-8")
    assert f"# träin.py:{line} " in text
    assert "random(0, " in text
    # It fails in the same way as long as the mistake is there.
    again = python("small.py", folder=tmp_path, FIRESTEEL_SPOIL=operation)
    assert again.returncode == 1, again.stderr
    assert "largest distance" in again.stdout
    healed = python("small.py", folder=tmp_path)
    assert healed.returncode == 0, healed.stderr
    assert healed.stdout.endswith("agrees\n")


@pytest.mark.usefixtures("native")
def test_one_function_with_indices(script, tmp_path):
    arguments = "torch.randn(5, 4), torch.randn(50, 4), torch.tensor([49, 0, 3, 7, 48])"
    done = python("-m", "firesteel", "minify", f"{script}:wave", "--args", arguments, folder=tmp_path,
                  FIRESTEEL_SPOIL="tanh")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "found: graph 1 of `wave`" in done.stdout
    assert 1 <= len(graph_of(tmp_path / "repro.py").nodes) <= 3
    assert python("repro.py", folder=tmp_path, FIRESTEEL_SPOIL="tanh").returncode == 1


@pytest.mark.usefixtures("native")
def test_one_operator_cannot_be_cut_and_that_is_said(tmp_path):
    (tmp_path / "one.py").write_text("import torch\n\n\ndef f(x):\n    return torch.tanh(x)\n")
    done = python("-m", "firesteel", "minify", "one.py:f", "--args", "torch.randn(64, 64)", folder=tmp_path,
                  FIRESTEEL_SPOIL="tanh", FIRESTEEL_SMALLEST_KERNEL="1")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "operators: 1, none of which can be taken away (" in done.stdout
    assert "wrote repro.py: 1 operator, 1 input" in done.stdout


def test_what_does_not_fail_gives_nothing(script, tmp_path):
    done = python("-m", "firesteel", "minify", script, folder=tmp_path)
    assert done.returncode == 1
    assert "went well" in done.stdout
    assert "every compiled call agrees with eager: nothing to minify" in done.stdout
    assert not (tmp_path / "repro.py").exists()


def test_a_programs_own_error_is_named_as_such(tmp_path):
    (tmp_path / "fails.py").write_text(
        "import torch\n@torch.compile\ndef f(x):\n    return x.nothing\nf(torch.ones(3))\n"
    )
    done = python("-m", "firesteel", "minify", "fails.py", folder=tmp_path)
    assert done.returncode == 1
    assert "found: AttributeError" in done.stdout
    assert "fails in eager too" in done.stdout


def test_a_failing_backend_of_the_programs_own_is_not_blamed_on_native_code(tmp_path):
    (tmp_path / "own.py").write_text(
        "import torch\ndef mine(graph, inputs):\n    raise ValueError('mine fails')\n"
        "@torch.compile(backend=mine)\ndef f(x):\n    return x.sin() * 2\nf(torch.ones(3))\n"
    )
    done = python("-m", "firesteel", "minify", "own.py", folder=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "found: BackendCompilerFailed: backend='mine' raised" in done.stdout
    assert "no graph fails in native code by itself; try: the default backend" in done.stdout


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "a script is needed"),
    (["-o", "nowhere/repro.py", "{script}"], "there is no folder for nowhere/repro.py"),
    (["nowhere.py"], "there is no script nowhere.py"),
    (["{script}:wave", "3"], "a function takes its arguments by --args"),
])  # fmt: skip
def test_mistakes_are_told(script, arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main(["minify", *(part.format(script=script) for part in arguments)])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


# --- its parts


def forward_case(function, *args):
    return cut.Case(str(firesteel.trace(function, *args).forward), list(args))


def chain(x, y):
    a = x.sin().cos().exp()
    b = (y * 2).tanh().sigmoid() + a
    c = b.split(2, -1)
    return a.sum(), c[0] * c[1], b.t()


def holds(op, kind="differs"):
    """A judge that any graph with this operator fails before."""

    def judged(case):
        case.graph.run(case.inputs)  # it must make sense
        found = [number for number, node in enumerate(case.graph.nodes) if node.op == op]
        return (kind, "", None) if found else None

    return judged


@pytest.mark.parametrize(
    "op", ["aten.sin", "aten.tanh", "aten.split_with_sizes", "aten.t", "aten.sum", "aten.add.Tensor"]
)
def test_any_operator_can_be_cut_out_alone(op):
    case = forward_case(chain, torch.randn(4, 4), torch.randn(4, 4))
    if op == "aten.split_with_sizes" and op not in [node.op for node in case.graph.nodes]:
        op = "aten.split.Tensor"
    counts = []
    reducer = reduce.Reducer(case, holds(op), counts.append)
    assert reducer.start()
    small = reducer.reduce()
    assert [node.op for node in small.graph.nodes] == [op]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
    assert reducer.tries < 40


def test_a_failure_of_another_kind_is_not_followed():
    case = forward_case(chain, torch.randn(4, 4), torch.randn(4, 4))

    def judged(case):
        ops = [node.op for node in case.graph.nodes]
        if "aten.tanh" in ops and "aten.sigmoid" in ops:
            return "RuntimeError", "", None
        return ("differs", "", 0) if "aten.tanh" in ops else None

    reducer = reduce.Reducer(case, judged)
    assert reducer.start()[0] == "RuntimeError"
    assert {"aten.tanh", "aten.sigmoid"} == {node.op for node in reducer.reduce().graph.nodes}


def test_a_graph_from_text_runs_as_it_stands():
    case = forward_case(chain, torch.randn(4, 4), torch.randn(4, 4))
    graph = case.graph
    for native in (False, True):
        for found, expected in zip(graph.run(case.inputs, native=native), chain(*case.inputs), strict=True):
            torch.testing.assert_close(found, expected)
    with pytest.raises(firesteel.InputMismatchError, match="takes 2 inputs and got 1"):
        graph.run(case.inputs[:1])
    with pytest.raises(firesteel.InputMismatchError, match=r"input 2 of the graph is f32\[4, 4\].* f64\[4, 4"):
        graph.run([case.inputs[0], case.inputs[1].double()])
    with pytest.raises(TypeError, match="takes a list of tensors"):
        graph.run([1, 2])


def test_the_judge_outlives_what_it_judges():
    case = forward_case(chain, torch.randn(4, 4), torch.randn(4, 4))
    with judge.Judge() as judged:
        assert judged(case) is None
        judged._process.kill()
        judged._process.join()
        assert judged(case) == ("crash", "Killed", None)
        assert judged(case) is None


def test_inputs_are_random_where_that_fails_too_and_kept_where_not(tmp_path):
    x, index = torch.rand(30, 4).t(), torch.tensor([[3, 1, 2]])
    case = cut.Case("graph repro(%x: f32[4, 30; 1, 4], %i: i64[1, 3]) {\n  %sin: f32[4, 30; 1, 4] = aten.sin(%x)\n"
                    "  return %sin\n}\n", [x, index])  # fmt: skip
    normal = repro.simplest_inputs(case, lambda case: ("differs", "", 0), "differs")
    assert [it.text() for it in normal] == ["random(0, (4, 30), (1, 4), torch.float32)",
                                            "random(1, (1, 3), (3, 1), torch.int64, 1, 3)"]  # fmt: skip
    assert normal[0].tensor().stride() == (1, 4)
    assert normal[0].tensor().equal(normal[0].tensor())
    ranged = repro.simplest_inputs(
        case, lambda case: ("differs", "", 0) if case.inputs[0].min() >= 0 else None, "differs"
    )
    assert [it.way for it in ranged] == ["range", "range"]
    assert ranged[0].tensor().max() <= x.max()
    kept = repro.simplest_inputs(case, lambda case: None, "differs")
    assert [it.text() for it in kept] == ["SAVED[0]", "given([3, 1, 2], (1, 3), (3, 1), torch.int64)"]
    assert kept[1].tensor().equal(index)
    paths = repro.write(str(tmp_path / "kept.py"), case, kept, "A title.", "Found.")
    assert [os.path.basename(path) for path in paths] == ["kept.py", "kept.pt"]
    assert python("kept.py", folder=tmp_path).stdout == "%sin: agrees\n"


@pytest.mark.parametrize(("expected", "found", "words"), [
    ((torch.ones(2), {"a": [1, "x"]}), (torch.ones(2), {"a": [1, "x"]}), None),
    ((torch.ones(2), {"a": [1, "x"]}), (torch.ones(2), {"a": [2, "x"]}), "the result[1]['a'][0] is 2, eager gives 1"),
    ([torch.ones(2)], [torch.zeros(2)], "the result[0]: largest distance 1"),
    (torch.ones(2), 1.0, "the result is of type float, eager gives Tensor"),
    ([1], [1, 2], "the result is [1, 2], eager gives [1]"),
])  # fmt: skip
def test_results_of_functions_are_compared_as_they_are_nested(expected, found, words):
    what = look.tree_difference(expected, found)
    assert (what is None) if words is None else words in what
