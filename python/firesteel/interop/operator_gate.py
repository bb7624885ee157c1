"""only_allow_pt2_compliant_ops of torch._dynamo.config: operators of libraries are asked for a tag."""

import torch
from torch._library.utils import is_builtin


def why_not(op, args, kwargs):
    """Why an operator of torch.ops may not stand in a graph; None where it may."""
    if isinstance(op, torch._ops.OpOverloadPacket):
        overloads = [getattr(op, name) for name in op.overloads()]
        if all(map(_is_fit, overloads)):
            return None
        if len(overloads) > 1:
            try:
                name = torch._C._jit_resolve_packet(op._qualified_op_name, *args, **(kwargs or {}))
            except RuntimeError as error:
                return f"`torch.ops.{op}`, of which no overload takes what it is given: {error}"
            overloads = [getattr(op, name or "default")]
        op = overloads[0]
    return None if _is_fit(op) else f"`torch.ops.{op}`, which has no torch.Tag.pt2_compliant_tag"


def _is_fit(overload):
    return is_builtin(overload) or torch.Tag.pt2_compliant_tag in overload.tags
