"""Pieces as plain data: nodes as short rows, with texts that come again kept once."""

import re

from .. import _C
from .._wording import shown_name

_LONGEST_ARGS = 240
_MODULE = re.compile(r"\._modules\['([^']*)'\]")


class Tables:
    """Texts that many rows share, by number."""

    def __init__(self):
        self.paths, self.modules, self.ops, self.types, self.kernels = [], [], [], [], []
        self._known = {}

    def _index(self, table, value):
        known = self._known.setdefault(id(table), {})
        if value not in known:
            known[value] = len(table)
            table.append(value)
        return known[value]

    def file(self, path):
        return self._index(self.paths, path)

    def module(self, source):
        return self._index(self.modules, module_path(source))

    def op(self, name):
        return self._index(self.ops, name)

    def type(self, text):
        return self._index(self.types, text)

    def kernel(self, text):
        return self._index(self.kernels, text)

    def place(self, line):
        return [self.file(line[0]), line[1]] if line else None


def module_path(source):
    """`encoder.layer.0` for the way that guards take to a module: `self._modules['encoder']._modules['layer']…`."""
    names = _MODULE.findall(source)
    return ".".join(names)


def piece(entry, tables):
    """One captured piece of code."""
    graph = _C.parse_graph(entry["graph"]) if entry["graph"] else None
    modules = [tables.module(text) for text in entry["modules"]]
    opaque = set(entry["opaque"])
    rows = _rows(graph, entry["lines"], tables)
    for index, row in enumerate(rows):
        row.append(modules[index] if index < len(modules) else tables.module(""))
        row.append(int(index in opaque))
    return {
        "n": entry["number"],
        "function": shown_name(entry),
        "file": tables.file(entry["file"]),
        "line": entry["line"],
        "kind": entry["kind"],
        "runs": entry["runs"],
        "inputs": _inputs(graph),
        "outputs": _outputs(graph),
        "nodes": rows,
        "parts": [_part(part, tables) for part in entry["parts"]],
        "guards": entry["guards"],
        "began": entry["began"],
        "seconds": entry["seconds"],
        "stages": entry["stages"],
        "backend": entry["backend_seconds"],
    }


def _part(part, tables):
    """The ATen graph as it runs; its rows end with the torch-level node each comes from."""
    graph = _C.parse_graph(part["text"])
    rows = _rows(graph, part["lines"], tables)
    for row, call in zip(rows, part["calls"], strict=True):
        row.append(call)
    return {
        "phase": part["phase"],
        "tier": part["tier"],
        "inputs": _inputs(graph),
        "outputs": _outputs(graph),
        "nodes": rows,
        "kernels": [
            [tables.kernel(it["text"]), it["nodes"], it["made"], it["from_disk"], it["began"], it["seconds"]]
            for it in part["kernels"]
        ],
    }


def _rows(graph, lines, tables):
    """[name, op, arguments, type, what it reads, place] of each node; a node is read by its number, an input as -1."""
    if graph is None:
        return []
    nodes = graph.nodes
    maker = {name: index for index, node in enumerate(nodes) for name in node.names}
    rows = []
    for index, node in enumerate(nodes):
        reads = list(dict.fromkeys(maker[name] for name in node.inputs if name in maker))
        args = node.args if len(node.args) <= _LONGEST_ARGS else node.args[:_LONGEST_ARGS] + "…"
        outputs = node.outputs
        kind = ", ".join(value.type for value in outputs[:3]) + (", …" if len(outputs) > 3 else "")
        place = tables.place(lines[index]) if index < len(lines) else None
        rows.append([node.name if outputs else "", tables.op(node.op), args, tables.type(kind), reads, place])
    return rows


def _inputs(graph):
    return [[value.name, value.type, value.role] for value in graph.inputs] if graph else []


def _outputs(graph):
    """Numbers of the nodes whose results are given back."""
    if graph is None:
        return []
    maker = {name: index for index, node in enumerate(graph.nodes) for name in node.names}
    names = [value.name for value in graph.outputs if hasattr(value, "name")]
    return list(dict.fromkeys(maker[name] for name in names if name in maker))
