"""torch._dynamo.utils.counters, filled from Firesteel's captures: what tests and tools read."""

from torch._dynamo.utils import counters

from .. import _C


def follow():
    _C._set_capture_listener(_captured)


def _captured(function, file, graph, line, reason_id, reason, place, depth, runs_eagerly):
    counters["frames"]["total"] += 1
    if reason and depth <= 1:
        counters["graph_break"][reason] += 1
    if runs_eagerly:
        return
    counters["frames"]["ok"] += 1
    nodes = len(_C.parse_graph(graph).nodes) if graph else 0
    if nodes:
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += nodes
