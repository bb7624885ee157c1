"""Time to trace, against torch.fx's make_fx(tracing_mode="fake"), forward and backward.

Both sides get the same model, parameters and input. Firesteel: `firesteel.trace(model, x, grad=True)`, which gives the
joint graph, cuts it in two and lays it out for running. torch: make_fx over a function that calls the model with its
parameters as inputs (torch.func.functional_call) and takes torch.autograd.grad. One untimed run of each first; then the
two alternate, and the minimum of each counts. Shapes are fixed below.
"""

import argparse
import gc
import time

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import firesteel

LAYERS = 12
BATCH, LENGTH, WIDTH, HEADS = 2, 32, 64, 4


def encoder():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False), torch.randn(BATCH, LENGTH, WIDTH)


class Different(nn.Module):
    """Twelve stages, no two alike: attention, convolutions, norms, pooling, recurrences by hand, gates, embeddings."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.conv1 = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=4)
        self.conv2 = nn.Conv2d(1, 8, (3, 5), padding=(1, 2))
        self.back = nn.ConvTranspose2d(8, 1, 3, padding=1)
        self.batch_norm = nn.BatchNorm1d(WIDTH)
        self.group_norm = nn.GroupNorm(4, WIDTH)
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 96), nn.Linear(WIDTH, 96), nn.Linear(96, WIDTH)
        self.bilinear = nn.Bilinear(WIDTH, WIDTH, WIDTH)
        self.prelu = nn.PReLU()
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.batch_norm(self.conv1(x.transpose(1, 2))).transpose(1, 2)
        x = self.back(nn.functional.silu(self.conv2(x.unsqueeze(1)))).squeeze(1)
        x = self.group_norm(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))
        x = self.layer_norm(x)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        x = self.prelu(self.bilinear(x, x.roll(1, dims=1)))
        state = torch.zeros(x.shape[0], WIDTH)
        steps = []
        for t in range(4):
            state = self.cell(x[:, t], state)
            steps.append(state)
        x = torch.cat([torch.stack(steps, 1), x[:, 4:]], 1)
        x = nn.functional.max_pool1d(x.transpose(1, 2), 2).transpose(1, 2)
        x = nn.functional.interpolate(x.transpose(1, 2), scale_factor=2.0, mode="linear").transpose(1, 2)
        weights = torch.softmax(x.masked_fill(x > 3, float("-inf")), -1)
        x = torch.einsum("blw,bmw->blm", weights, x).cumsum(-1).tanh()
        return torch.where(x > 0, x, x.exp() - 1).flatten(1)


def different():
    return Different(), torch.randint(0, 100, (BATCH, LENGTH))


def firesteel_trace(model, x):
    return lambda: firesteel.trace(model, x, grad=True)


def fx_trace(model, x):
    state = dict(model.named_parameters())
    buffers = dict(model.named_buffers())

    def step(state, buffers, x):
        loss = torch.func.functional_call(model, (state, buffers), (x,))
        return loss, torch.autograd.grad(loss.sum(), list(state.values()), allow_unused=True)

    return lambda: make_fx(step, tracing_mode="fake")(state, buffers, x)


def timed(function):
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(name, build, rounds):
    torch.manual_seed(0)
    model, x = build()
    ours, theirs = firesteel_trace(model, x), fx_trace(model, x)
    nodes, their_nodes = len(ours().nodes), len(theirs().graph.nodes)
    firesteel.reset_trace_counters()
    ours()
    counters = firesteel.trace_counters()
    our_times, their_times = [], []
    for _ in range(rounds):
        our_times += [timed(ours) for _ in range(3)]
        their_times.append(timed(theirs))
    ratio = min(their_times) / min(our_times)
    print(
        f"{name:10} firesteel {min(our_times) * 1e3:8.1f} ms ({nodes} nodes)   "
        f"make_fx {min(their_times) * 1e3:8.1f} ms "
        f"({their_nodes} nodes)   {ratio:5.1f}x faster"
    )
    print(f"{'':10} shapes from: {counters}")
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often the two sides alternate (default 5)")
    rounds = parser.parse_args().rounds
    compare("encoder", encoder, rounds)
    compare("different", different, rounds)


if __name__ == "__main__":
    main()
