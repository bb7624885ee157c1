"""install() and `python -m firesteel`: programs written for torch.compile run on Firesteel, each in a process."""

import subprocess
import sys
import textwrap

import pytest
from processes import ROOT, printed_by


def run(code, *, command=("-m", "firesteel"), env=None, tmp_path, args=()):
    """The program's output; its asserts are the test."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(code))
    return printed_by(*command, script, *args, cwd=tmp_path, env=env)


BY_FIRESTEEL = """
    import torch
    def by_firesteel(compiled):
        return type(compiled).__module__.startswith("firesteel") or hasattr(type(compiled), "_orig_mod")
"""


def test_a_script_is_routed_without_loading_dynamo(tmp_path):
    (tmp_path / "helper_beside_the_script.py").write_text("")
    out = run(
        BY_FIRESTEEL
        + """
    import sys
    assert __name__ == "__main__" and sys.argv[1:] == ["a", "--b"], sys.argv
    import helper_beside_the_script
    f = torch.compile(lambda x: x.sin() + 1)
    x = torch.ones(3)
    assert by_firesteel(f)
    assert torch.allclose(f(x), x.sin() + 1)
    module = torch.nn.Linear(3, 3)
    module.compile()
    assert by_firesteel(module._compiled_call_impl)
    module(x).sum().backward()
    assert by_firesteel(torch.compile(module))
    assert by_firesteel(torch.compile()(lambda x: x))
    assert "torch._dynamo" not in sys.modules
    print("done")
    """,
        tmp_path=tmp_path,
        args=("a", "--b"),
    )
    assert out == "done\n"


def test_names_imported_before_are_routed_too(tmp_path):
    run(
        BY_FIRESTEEL
        + """
    from torch import compile
    from torch.compiler import disable, is_compiling
    import torch._dynamo
    from torch._dynamo import graph_break, nonstrict_trace, allow_in_graph
    import firesteel
    firesteel.install()
    firesteel.install()
    assert by_firesteel(compile(lambda x: x))

    @disable
    def aside(x):
        assert not is_compiling()
        return x + 1

    @nonstrict_trace
    def opaque(x):
        graph_break()
        return x * 2

    def f(x):
        assert is_compiling()
        y = opaque(x)
        graph_break()
        return aside(y)

    x = torch.ones(2)
    firesteel.reset_counters()
    assert torch.equal(compile(f, backend="eager")(x), torch.full((2,), 3.0))
    assert firesteel.counters()["breaks"] == {"FS-GRAPH-BREAK": 1, "FS-DISABLED": 1}, firesteel.counters()
    firesteel.uninstall()
    firesteel.uninstall()
    assert firesteel._C._follow_inner_breaks(True) is True  # as before
    plain = compile(lambda x: x + 1, backend="eager")
    assert not by_firesteel(plain)
    assert torch.equal(plain(x), x + 1)
    """,
        command=(),
        tmp_path=tmp_path,
    )


def test_the_names_of_dynamo(tmp_path):
    run(
        BY_FIRESTEEL
        + """
    import torch._dynamo
    from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs
    x = torch.randn(3)

    counter = CompileCounter()
    @torch.compile(backend=counter)
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2
    torch.testing.assert_close(f(x), (x + 1) * 2)
    assert (counter.frame_count, counter.op_count) == (2, 2)
    counts = torch._dynamo.utils.counters
    assert counts["stats"]["unique_graphs"] == 2 and counts["stats"]["calls_captured"] == 2
    assert sum(counts["graph_break"].values()) == 1

    older = torch._dynamo.optimize("eager")(lambda x: x + 1)
    assert by_firesteel(older) and torch.equal(older(x), x + 1)
    strict = torch._dynamo.optimize("eager", nopython=True)(lambda x: torch._dynamo.graph_break())
    try:
        strict(x)
    except torch._dynamo.exc.Unsupported as error:
        assert "graph_break() is called" in str(error)
    else:
        raise AssertionError("no error")

    found = torch._dynamo.explain(lambda x: (x + 1, torch._dynamo.graph_break(), x * 2))(x)
    assert (found.graph_count, found.op_count, found.graph_break_count) == (2, 2, 1)
    assert len(found.break_reasons) == 1

    recorded = EagerAndRecordGraphs()
    torch.compile(lambda x: x.sin(), backend=recorded)(x)
    assert len(recorded.graphs) == 1

    module = torch.nn.Linear(3, 3)
    assert isinstance(torch.compile(module), torch._dynamo.OptimizedModule)
    assert isinstance(torch.compile(module), torch.nn.Linear)

    torch._dynamo.disallow_in_graph(torch.cos)
    counter.clear()
    torch.compile(lambda x: torch.cos(x.sin()) + 1, backend=counter)(x)
    assert counter.frame_count == 2
    torch._dynamo.allow_in_graph(torch.cos)
    try:
        torch._dynamo.disallow_in_graph(lambda x: x)
    except (torch._dynamo.exc.Unsupported, RuntimeError):
        pass
    for misuse in (torch._dynamo.disable, torch._dynamo.allow_in_graph, torch._dynamo.nonstrict_trace):
        try:
            misuse(3)
        except AssertionError:
            continue
        raise AssertionError("no error")

    try:
        torch.compile(lambda x: x, backend="typo")
    except torch._dynamo.exc.InvalidBackend:
        pass
    limited = torch.compile(lambda x, n: x + n, backend="eager", fullgraph=True, recompile_limit=1)
    limited(x, "a" == "b")
    try:
        limited(x.double(), 1)
    except torch._dynamo.exc.FailOnRecompileLimitHit:
        pass
    else:
        raise AssertionError("no error")

    counter.clear()
    @torch.compile(backend=counter)
    class Adder(torch.nn.Module):
        def forward(self, x):
            return x + 1
    assert torch.equal(Adder()(x), x + 1) and counter.frame_count == 1
    assert torch._dynamo.dont_skip_tracing(len) is len
    with torch._dynamo.dont_skip_tracing():
        pass
    assert torch.compile(torch._dynamo.disable(lambda: torch.compiler.is_compiling()), fullgraph=True)()
    try:
        torch.compile(lambda x: torch.compiler.set_stance("force_eager"), backend="eager")(x)
    except AssertionError:
        pass
    else:
        raise AssertionError("no error")

    with torch._dynamo.set_stance("force_eager"):
        assert torch.equal(torch.compile(lambda x: x + float(torch.compiler.is_compiling()))(x), x)
    torch._dynamo.reset()
    assert "eager" in torch._dynamo.list_backends(None) and "inductor" in torch.compiler.list_backends()
    """,
        tmp_path=tmp_path,
    )


def test_errors_raised_before_dynamo_is_loaded(tmp_path):
    run(
        """
    import sys
    import torch

    @torch.compiler.allow_in_graph
    def opaque(x):
        return 3

    compiled = torch.compile(lambda x: opaque(x), backend="eager")
    assert "torch._dynamo" not in sys.modules
    try:
        compiled(torch.ones(2))
    except torch._dynamo.exc.Unsupported as error:
        assert "a tensor or a tuple of tensors" in str(error) and "program.py" in str(error), error
    else:
        raise AssertionError("no error")
    """,
        tmp_path=tmp_path,
    )


def test_backends_of_pytorch_and_of_the_user(tmp_path):
    run(
        BY_FIRESTEEL
        + """
    import torch._dynamo
    x = torch.randn(8)
    calls = []

    @torch._dynamo.register_backend
    def mine(graph_module, example_inputs):
        calls.append(graph_module)
        return graph_module.forward

    def f(x):
        return x.sin() + 1

    for backend in ("eager", "aot_eager", "inductor", "mine", "aot_eager_decomp_partition", mine):
        compiled = torch.compile(f, backend=backend)
        assert by_firesteel(compiled), backend
        torch.testing.assert_close(compiled(x), f(x))
    assert len(calls) == 1  # by its name and as itself it is one backend
    assert torch._dynamo.lookup_backend("mine") is mine
    torch.compile(f, mode="max-autotune")(x)
    torch.compile(f, options={"max_autotune": True})(x)
    if hasattr(torch.compiler, "set_default_backend"):  # not in every version of PyTorch
        torch.compiler.set_default_backend("mine")
        torch.compile(lambda x: x.cos())(x)
        assert len(calls) == 2 and torch.compiler.get_default_backend() == "mine"
    """,
        tmp_path=tmp_path,
    )


def test_modules_are_run_as_python_runs_them(tmp_path):
    (tmp_path / "test_inside.py").write_text(
        textwrap.dedent(BY_FIRESTEEL)
        + textwrap.dedent("""
    def test_it():
        assert by_firesteel(torch.compile(lambda x: x))
    """)
    )
    printed = printed_by(*("-m", "firesteel", "-m", "pytest", "-q", "-p", "no:logging", "test_inside.py"), cwd=tmp_path)
    assert "1 passed" in printed


@pytest.mark.parametrize(("set_to", "wanted"), [("1", True), ("0", False)])
def test_startup_acts_where_it_is_asked_to(tmp_path, set_to, wanted):
    (tmp_path / "_firesteel_startup.py").write_text((ROOT / "python/firesteel/interop/startup.py").read_text())
    run(
        f"""
    import os, sys
    sys.path.insert(0, {str(tmp_path)!r})
    os.environ.get("FIRESTEEL") == "1" and __import__("_firesteel_startup").wait()
    assert "torch" not in sys.modules
    import torch
    assert ("firesteel" in sys.modules) == {wanted}
    assert type(torch.compile(lambda x: x)).__module__.startswith("firesteel") == {wanted}
    """,
        command=(),
        env={"FIRESTEEL": set_to},
        tmp_path=tmp_path,
    )


@pytest.mark.parametrize("arguments", [["-m"], ["missing.py"]])
def test_bad_command_lines(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "firesteel", *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 2
    assert "needs a module" in done.stderr or "there is no script missing.py" in done.stderr
