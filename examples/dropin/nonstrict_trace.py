"""nonstrict_trace as a decorator and inline, with modules and registered classes: a plain PyTorch script.

Run it on Firesteel: python -m firesteel examples/dropin/nonstrict_trace.py
"""

import torch
import torch._dynamo
from torch.utils import _pytree as pytree


class Batch:
    def __init__(self, tokens, mask):
        self.tokens, self.mask = tokens, mask


pytree.register_pytree_node(
    Batch,
    lambda batch: ((batch.tokens, batch.mask), None),
    lambda parts, _: Batch(*parts),
    serialized_type_name="example.Batch",
)


@torch._dynamo.nonstrict_trace
def masked_mean(batch, keep):
    torch._dynamo.graph_break()  # would break if it were looked at
    values = batch.tokens * batch.mask
    return values.sum(-1) / keep


def scaled(x, factor):
    torch._dynamo.graph_break()
    return x * factor


def model(tokens, mask):
    mean = masked_mean(Batch(tokens.sin(), mask), 2)
    return torch._dynamo.nonstrict_trace(scaled)(mean, 3.0).cos()


torch.manual_seed(0)
compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
for _ in range(2):
    tokens = torch.randn(3, 4, requires_grad=True)
    mask = (torch.rand(3, 4) > 0.5).float()
    result = compiled(tokens, mask)
    result.sum().backward()
    expected = model(tokens.detach(), mask)
    print("equal to eager:", torch.allclose(result, expected), "gradient:", tuple(tokens.grad.shape))
