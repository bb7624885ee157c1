"""Firesteel behind PyTorch's own capture: torch.compile(f, backend=compile_graph)."""

import textwrap

from processes import printed_by

PROGRAM = """
    import torch
    import firesteel
    from firesteel.interop.backend import compile_graph

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))

    def f(x):
        y = model(x)
        torch._dynamo.graph_break()
        return y.sin() * 2 + y

    compiled = torch.compile(f, backend=compile_graph)
    assert not isinstance(compiled, firesteel.CompiledFunction)
    for rows in (3, 5, 7, 3):
        x = torch.randn(rows, 4)
        model.zero_grad()
        compiled(x).sum().backward()
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        f(x).sum().backward()
        for one, other in zip(got, model.parameters(), strict=True):
            torch.testing.assert_close(one, other.grad)
    counts = firesteel.counters()
    assert counts["captured"] >= 2 and not counts["fallbacks"], counts
"""


def test_graphs_of_pytorch_s_capture(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    printed_by(script)
