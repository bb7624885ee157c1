"""torch.sym_ite() on what is asked of sizes in a trace: torch's own method takes nodes of Python's alone."""

import torch

from . import _C

_theirs = torch.SymBool.__sym_ite__


def _node_of(value, like):
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value.node
    wrap = {bool: like.wrap_bool, int: like.wrap_int, float: like.wrap_float}.get(type(value))
    return wrap(value) if wrap else None


def _choose(self, then_value, else_value):
    if not isinstance(self.node, torch._C._SymNode):
        return _theirs(self, then_value, else_value)
    nodes = [_node_of(value, self.node) for value in (then_value, else_value)]
    if any(node is None for node in nodes):
        return then_value if self else else_value
    made = _C._choose_node(self.node, *nodes)
    return (torch.SymInt if made.is_int() else torch.SymFloat if made.is_float() else torch.SymBool)(made)


torch.SymBool.__sym_ite__ = _choose
