"""A module handed to a nonstrict function, and trained: a plain PyTorch script.

Run it on Firesteel: python -m firesteel examples/dropin/module_training.py
"""

import torch
import torch._dynamo


@torch._dynamo.nonstrict_trace
def forward(module, x):
    torch._dynamo.graph_break()
    return module(x) + x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.head(forward(self.inner, x))


def train(compile):
    torch.manual_seed(0)
    model = Model()
    step = torch.compile(model, fullgraph=True, backend="aot_eager") if compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        x = torch.randn(16, 8)
        loss = (step(x).squeeze(-1) - x.sum(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


compiled, eager = train(True), train(False)
print("twenty losses equal eager's:", torch.allclose(compiled, eager, rtol=1e-4, atol=1e-5))
print("it learns:", bool(compiled[-1] < compiled[0]))
