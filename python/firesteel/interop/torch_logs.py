"""TORCH_LOGS and torch._logging.set_logs(): what a program asks of PyTorch's compiler, Firesteel tells in its place."""

import functools
import logging

from torch._logging import _internal

from .. import _events
from . import dropin

# Ours -> the module of PyTorch's and the log of it that carries them, where that is switched on.
_CARRIERS = {
    "breaks": ("torch._dynamo.symbolic_convert", "graph_breaks"),
    "recompiles": ("torch._dynamo.guards", "recompiles"),
    "guards": ("torch._dynamo.guards", "guards"),
    "graphs": ("torch._dynamo.output_graph", "graph_code"),
}


def follow():
    """Listens where one of these logs is on now."""
    if any(_logger(kind).isEnabledFor(logging.DEBUG) for kind in _CARRIERS):
        _events.add(_tell)
    else:
        leave()


def leave():
    _events.remove(_tell)


def init_logs(*args, **kwargs):
    """torch._logging._internal._init_logs, which every switch of a log comes to."""
    dropin.original(_internal._init_logs)(*args, **kwargs)
    follow()


@functools.cache
def _logger(kind):
    return _internal.getArtifactLogger(*_CARRIERS[kind])


def _tell(kind, facts):
    for name, line in _lines(kind, facts):
        _logger(name).debug("%s", line)


def _lines(kind, facts):
    if kind == "capture" and facts["runs"]:
        yield "graphs", f"TRACED GRAPH of {facts['function']} ({facts['file']}:{facts['line']})\n{facts['graph']}"
        guards = "\n".join(facts["guards"])
        yield "guards", f"GUARDS of {facts['function']} ({facts['file']}:{facts['line']})\n{guards}"
    if kind == "recompile":
        where = f"{facts['file']}:{facts['line']}"
        reason = f"    - {facts['guard']}"
        yield (
            "recompiles",
            (
                f"Recompiling function {facts['function']} in {where}\n"
                f"    triggered by the following guard failure(s):\n{reason}"
            ),
        )
    if kind == "capture" and facts["break"]:
        found = facts["break"]
        place = found if found["file"] else facts
        yield (
            "breaks",
            (f"Graph break in user code at {place['file']}:{place['line']}\nGraph Break Reason: {found['message']}"),
        )
