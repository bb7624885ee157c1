"""What tests and tools are told of captures: torch._dynamo.utils.counters, and the callbacks of torch._dynamo."""

import time

from torch._dynamo import utils
from torch._dynamo.callback import CallbackArgs, CallbackTrigger, callback_handler
from torch._dynamo.utils import counters

from .. import _C

_CAPTURE = CallbackArgs(CallbackTrigger.DYNAMO, "0/0")
_is_running = False  # a capture whose start has been told


def follow():
    _C._set_capture_listener(_captured)


def begin():
    """A capture begins: to be told once for each."""
    global _is_running
    _end()
    _is_running = bool(callback_handler.start_callbacks or callback_handler.end_callbacks)
    callback_handler.run_start_callbacks(_CAPTURE)


def _end():
    global _is_running
    if _is_running:
        _is_running = False
        callback_handler.run_end_callbacks(_CAPTURE)


def _captured(function, file, graph, line, reason_id, reason, place, depth, runs_eagerly, seconds):
    _end()
    nodes = len(_C.parse_graph(graph).nodes) if graph and not runs_eagerly else 0
    _note(function, file, line, nodes, reason, seconds)
    counters["frames"]["total"] += 1
    if reason and depth <= 1:
        counters["graph_break"][reason] += 1
    if runs_eagerly:
        return
    counters["frames"]["ok"] += 1
    if nodes:
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += nodes


def _note(function, file, line, nodes, reason, seconds):
    """Of what PyTorch measures, what has a meaning here."""
    metrics = utils.CompilationMetrics(
        co_name=function.rpartition(".")[2],
        co_filename=file,
        co_firstlineno=line,
        graph_op_count=nodes,
        entire_frame_compile_time_s=seconds,
        start_time=time.time() - seconds,
        restart_reasons={reason} if reason else set(),
        has_guarded_code=nodes > 0,
    )
    utils._compilation_metrics.append(metrics)
