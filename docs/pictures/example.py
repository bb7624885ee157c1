"""A small training loop with problems in it: what the pictures of reading-a-report.md show."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, 4 * width)
        self.second = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = F.gelu(self.first(x))
        return self.norm(x + self.second(h))


class Model(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss(model, x, target):
    value = F.cross_entropy(model(x), target)
    print("loss", value.item())
    return value


def scaled(x):
    return x / x.abs().max().item()


torch.manual_seed(0)
model = Model()
model.compile()
training_loss, scale = torch.compile(loss), torch.compile(scaled)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    x, target = scale(torch.randn(64, 128)), torch.randint(10, (64,))
    training_loss(model, x, target).backward()
    optimizer.step()
    optimizer.zero_grad()
