"""In a notebook, run by a real kernel: explain shows itself, logs and progress are lines of the cell."""

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: make setup")
nbformat = pytest.importorskip("nbformat")

SETUP = """
import warnings
import torch, firesteel

def f(x):
    y = x.sin()
    print(end="")
    return y * 2

x = torch.ones(3)
"""
CELLS = {
    "setup": SETUP,
    "explain": "firesteel.explain(f)(x)",
    "profile": "firesteel.explain(lambda x: torch.relu(x) * 2 + 1, profile=True)(torch.ones(64, 64))",
    "logs": "with firesteel.logs('breaks'):\n    firesteel.compile(f)(x)",
    "progress": """
patience = firesteel._C._set_progress_patience(0.0)
firesteel.compile(lambda x: (x.sin() + 1).cos(), backend="aot_eager")(x)
firesteel._progress.show("compiling kernels", 3, 12, 3.0, 4.0)
firesteel._progress.show("", 0, 0, 0.0, 13.0)
firesteel._C._set_progress_patience(patience)
None
""",
    "report": """
kept = firesteel.compile(f)
kept(x)
path = firesteel.report("out.html")
print(path, "y = x.sin()" in open(path, encoding="utf-8").read())
""",
    "error": """
try:
    firesteel.compile(f, fullgraph=True)(x)
except firesteel.GraphBreakError as error:
    print(error)
""",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell shows."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    folder = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return {name: cell["outputs"] for name, cell in zip(CELLS, book.cells, strict=True)}


def text_of(outputs, stream):
    return "".join(it["text"] for it in outputs if it["output_type"] == "stream" and it["name"] == stream)


def test_nothing_is_said_unasked(outputs):
    assert outputs["setup"] == []


def test_explain_shows_itself(outputs):
    (shown,) = outputs["explain"]
    page = shown["data"]["text/html"]
    assert "<details" in page
    assert "graph break at" in page
    assert "print(end=&quot;&quot;)" in page  # the line of the cell
    assert "take the print out" in page
    assert "<script" not in page
    assert shown["data"]["text/plain"].startswith("<firesteel.Explanation of f: 2 graphs")


def test_costs_are_shown_where_they_were_measured(outputs):
    (shown,) = outputs["profile"]
    assert "costs: " in shown["data"]["text/html"]


def test_logs_are_lines_of_the_cell(outputs):
    lines = text_of(outputs["logs"], "stderr").splitlines()
    assert len(lines) == 1
    assert "graph break in `f` [FS-C-FUNCTION]" in lines[0]


def test_progress_is_a_line_of_the_cell(outputs):
    said = text_of(outputs["progress"], "stderr")
    assert said.startswith("firesteel: capturing, 0 s so far\n")
    assert "firesteel: compiling kernels, 3 of 12, 4 s so far, about 9 s left\n" in said
    assert "\x1b" not in said  # a notebook is no terminal


def test_a_report_holds_the_cells_source(outputs):
    assert text_of(outputs["report"], "stdout").endswith("out.html True\n")


def test_errors_show_the_line_of_the_cell(outputs):
    said = text_of(outputs["error"], "stdout")
    assert 'print(end="")' in said
    assert "try: " in said
