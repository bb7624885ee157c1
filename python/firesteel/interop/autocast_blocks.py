"""Blocks of autocast in an fx graph: the many switches of a block become the two calls that PyTorch writes there."""

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast

_ENTER = (
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.autocast_increment_nesting,
    torch.set_autocast_cache_enabled,
)
_EXIT = (
    torch.autocast_decrement_nesting,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
)


def join_switches(graph):
    """Joins the switches of blocks that begin and end in the graph; others stay as they are."""
    nodes = [node for node in graph.nodes if node.op != "placeholder"]
    open_blocks, at = [], 0
    while at < len(nodes):
        if entered := _run_of(nodes, at, _ENTER):
            open_blocks.append(entered)
            at += len(entered)
        elif left := _run_of(nodes, at, _EXIT):
            if open_blocks:
                _join(graph, open_blocks.pop(), left)
            at += len(left)
        else:
            at += 1


def _run_of(nodes, at, targets):
    """The nodes from one on that call these functions in this order; the cache may be cleared in between."""
    found = []
    for target in targets:
        while found and at < len(nodes) and nodes[at].target is torch.clear_autocast_cache:
            found.append(nodes[at])
            at += 1
        if at == len(nodes) or nodes[at].target is not target:
            return []
        found.append(nodes[at])
        at += 1
    return found


def _join(graph, entered, left):
    (device, enabled), (_, dtype), _, (cache,) = (node.args for node in entered)
    with graph.inserting_before(entered[0]):
        block = graph.call_function(_enter_autocast, (device, dtype, enabled, cache))
    with graph.inserting_before(left[0]):
        end = graph.call_function(_exit_autocast, (block,))
    block.stack_trace, end.stack_trace = entered[0].stack_trace, left[0].stack_trace
    for node in (*entered, *left):
        graph.erase_node(node)
