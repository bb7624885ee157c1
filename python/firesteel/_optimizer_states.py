"""Makes the state of an optimizer before its first step is captured: tensors that are there are inputs of the graph."""

import torch


def initialize(args, kwargs):
    """Does what `_init_group` would do to the state of a group of its own; True where that was anything."""
    optimizer, group, *lists = args
    if not isinstance(optimizer, torch.optim.Optimizer) or not any(group is known for known in optimizer.param_groups):
        return False
    if any(type(given) is not list or given for given in [*lists, *(kwargs or {}).values()]):
        return False
    before = _sizes(optimizer, group)
    with torch.no_grad():
        optimizer._init_group(group, *([] for _ in lists), **{name: [] for name in kwargs or ()})
    return _sizes(optimizer, group) != before


def _sizes(optimizer, group):
    return [len(optimizer.state[param]) if param in optimizer.state else -1 for param in group["params"]]
