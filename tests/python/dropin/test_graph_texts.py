"""Graphs that backends get are written as PyTorch writes them: names and order of inputs, nodes, blocks, symbols."""

import json
import pathlib

from processes import printed_by

PROGRAMS = str(pathlib.Path(__file__).with_name("graph_texts.py"))


def test_graphs_are_written_as_pytorch_writes_them(tmp_path):
    theirs = json.loads(printed_by(PROGRAMS, cwd=tmp_path))
    ours = json.loads(printed_by("-m", "firesteel", PROGRAMS, cwd=tmp_path))
    assert len(ours) == len(theirs) > 20
    for (name, their_texts), (_, our_texts) in zip(theirs, ours, strict=True):
        assert our_texts == their_texts, name
