"""The scripts of examples/dropin, written for PyTorch: on Firesteel they print what they print on PyTorch."""

import os

import pytest
from processes import ROOT, printed_by

SCRIPTS = sorted((ROOT / "examples/dropin").glob("*.py"))
PRINTED = {
    "fine_grained": """\
disable: graphs 2
disallow_in_graph: graphs 2
allowed again: graphs 1
allow_in_graph: graphs 1
graph_break: graphs 2
fullgraph=True refuses it
force_eager: [1.0, 1.0, 1.0, 1.0]
default: [2.0, 2.0, 2.0, 2.0]
""",
    "module_training": """\
twenty losses equal eager's: True
it learns: True
""",
    "nonstrict_trace": """\
equal to eager: True gradient: (3, 4)
equal to eager: True gradient: (3, 4)
""",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_on_firesteel(script):
    assert printed_by("-m", "firesteel", str(script)) == PRINTED[script.stem]


@pytest.mark.skipif(not os.environ.get("FIRESTEEL_FULL"), reason="long: only with FIRESTEEL_FULL=1")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_on_pytorch(script):
    assert printed_by(str(script)) == PRINTED[script.stem]
