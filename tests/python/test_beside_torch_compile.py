"""PyTorch's own compiler in the same process, used before: it changes nn.Module, and nothing changes here."""

import subprocess
import sys

PROGRAM = """
import torch
from torch import nn
import firesteel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers[:2]:  # makes a ModuleList
            x = layer(x).relu()
        return nn.Dropout(0.5).eval()(x)


model, x = Net(), torch.randn(2, 4)
before = nn.Module.__init__
torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x))
assert nn.Module.__init__ is not before, "torch.compile leaves nn.Module alone: this test has no subject"
compiled = firesteel.compile(model, fullgraph=True)
firesteel.reset_counters()
for _ in range(2):
    x = torch.randn(2, 4, requires_grad=True)
    found, expected = compiled(x), model(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), x))
counted = firesteel.counters()
assert (counted["captured"], counted["hits"], counted["fallbacks"]) == (1, 2, {}), counted
torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x))
"""


def test_modules_are_followed_after_torch_compile():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
