"""disable, disallow_in_graph, allow_in_graph, graph_break and set_stance: a plain PyTorch script.

Run it on Firesteel: python -m firesteel examples/dropin/fine_grained.py
"""

import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter

x = torch.ones(4)


def graphs(function, *args):
    counter = CompileCounter()
    torch._dynamo.reset()
    torch.compile(function, backend=counter)(*args)
    return counter.frame_count


@torch.compiler.disable
def log(x):
    assert not torch.compiler.is_compiling()


def with_log(x):
    y = x.sin()
    log(y)
    return y.cos()


print("disable: graphs", graphs(with_log, x))


def with_sub(x):
    return torch.add(torch.sub(torch.add(x, 1), 1), 1)


torch._dynamo.disallow_in_graph(torch.sub)
print("disallow_in_graph: graphs", graphs(with_sub, x))
torch._dynamo.allow_in_graph(torch.sub)
print("allowed again: graphs", graphs(with_sub, x))


@torch._dynamo.allow_in_graph
def opaque(x):
    return x * 2


print("allow_in_graph: graphs", graphs(lambda x: opaque(x) + 1, x))


def with_break(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


print("graph_break: graphs", graphs(with_break, x))
try:
    torch.compile(with_break, backend="eager", fullgraph=True)(x)
except torch._dynamo.exc.Unsupported:
    print("fullgraph=True refuses it")

compiled = torch.compile(lambda x: x + int(torch.compiler.is_compiling()), backend="eager")
with torch.compiler.set_stance("force_eager"):
    print("force_eager:", compiled(x).tolist())
print("default:", compiled(x).tolist())
