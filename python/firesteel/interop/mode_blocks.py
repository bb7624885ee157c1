"""Blocks that change torch's modes in an fx graph: the switches of a block become the two calls that PyTorch writes."""

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from .. import _C

_ENTER_AUTOCAST = (
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.autocast_increment_nesting,
    torch.set_autocast_cache_enabled,
)
_EXIT_AUTOCAST = (
    torch.autocast_decrement_nesting,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
)


def _autocast_arguments(entered):
    (device, enabled), (_, dtype), _, (cache,) = (node.args for node in entered)
    return device, dtype, enabled, None if cache and torch.is_autocast_cache_enabled() else cache


def _inference_arguments(entered):
    return entered[0].args


# The calls that begin a block, those that end it, what stands for either, and what the beginning is given.
_BLOCKS = (
    (_ENTER_AUTOCAST, _EXIT_AUTOCAST, _enter_autocast, _exit_autocast, _autocast_arguments),
    (
        (_C._enter_inference_mode,),
        (_C._leave_inference_mode,),
        _enter_inference_mode,
        _exit_inference_mode,
        _inference_arguments,
    ),
)


def join_switches(graph):
    """Joins the switches of blocks that begin and end in the graph; others stay as they are."""
    for entering, leaving, enter, leave, arguments in _BLOCKS:
        nodes = [node for node in graph.nodes if node.op != "placeholder"]
        open_blocks, at = [], 0
        while at < len(nodes):
            if entered := _run_of(nodes, at, entering):
                open_blocks.append(entered)
                at += len(entered)
            elif left := _run_of(nodes, at, leaving):
                if open_blocks:
                    _join(graph, open_blocks.pop(), left, enter, leave, arguments)
                at += len(left)
            else:
                at += 1
    _number(graph)


def _run_of(nodes, at, targets):
    """The nodes from one on that call these functions in this order; autocast's cache may be cleared in between."""
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


def _join(graph, entered, left, enter, leave, arguments):
    with graph.inserting_before(entered[0]):
        block = graph.call_function(enter, arguments(entered))
    with graph.inserting_before(left[0]):
        graph.call_function(leave, (block,))
    for node in (*entered, *left):
        graph.erase_node(node)


def _number(graph):
    """Names the switches anew in their order: some were dropped, and blocks are joined from the inside out."""
    switches = (torch._C._set_grad_enabled, *(call for block in _BLOCKS for call in block[2:4]))
    named = {target: [node for node in graph.nodes if node.target is target] for target in switches}
    taken = {node.name for node in graph.nodes if node.target not in switches}
    for target, nodes in named.items():
        free = (name for name in _names(target.__name__) if name not in taken)
        for node in nodes:
            node.name = next(free)


def _names(stem):
    yield stem
    number = 0
    while True:
        number += 1
        yield f"{stem}_{number}"
