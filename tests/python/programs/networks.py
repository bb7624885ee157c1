"""Small networks of the kinds people train: each entry of NETWORKS makes a module and a maker of its inputs."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += self.shortcut(x)
        return self.relu(y)


class InvertedResidual(nn.Module):
    """MobileNet's block: expand, depthwise, squeeze and excite, project."""

    def __init__(self, width):
        super().__init__()
        hidden = 4 * width
        self.expand, self.project = nn.Conv2d(width, hidden, 1), nn.Conv2d(hidden, width, 1)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.norm = nn.BatchNorm2d(hidden)
        self.squeeze, self.excite = nn.Linear(hidden, 8), nn.Linear(8, hidden)

    def forward(self, x):
        y = F.hardswish(self.norm(self.depthwise(F.relu6(self.expand(x)))), inplace=True)
        scale = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1).flatten(1)))))
        return x + self.project(y * scale[:, :, None, None])


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down1, self.down2 = self.block(3, width), self.block(width, 2 * width)
        self.bottom = self.block(2 * width, 4 * width)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.Conv2d(2 * width, width, 1)
        self.merge2, self.merge1 = self.block(4 * width, 2 * width), self.block(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def block(inside, outside):
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU(inplace=True))

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        y = self.bottom(F.avg_pool2d(second, 2))
        y = self.merge2(torch.cat([self.up2(y), second], 1))
        y = F.interpolate(self.up1(y), scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.merge1(torch.cat([y, first], 1)))


class Decoder(nn.Module):
    """A language model with rotary positions, causal attention, gated feed-forward and tied embeddings."""

    def __init__(self, vocabulary=50, width=32, heads=4, layers=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.gate_up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.scale = nn.ParameterList(torch.ones(width) for _ in range(2 * layers))
        angles = torch.arange(64)[:, None] / 100 ** (torch.arange(width // heads // 2) / (width // heads // 2))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotate(self, x):
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    @staticmethod
    def norm(x, scale):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * scale

    def forward(self, tokens):
        x = self.embed(tokens)
        for i in range(len(self.qkv)):
            y = self.norm(x, self.scale[2 * i])
            q, k, v = self.qkv[i](y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
            x = x + self.out[i](y.transpose(1, 2).flatten(2))
            gate, up = self.gate_up[i](self.norm(x, self.scale[2 * i + 1])).chunk(2, -1)
            x = x + self.down[i](F.silu(gate) * up)
        return F.linear(x, self.embed.weight).log_softmax(-1)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.layers = kind(8, 12, batch_first=True, **options)
        self.head = nn.Linear(12 * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, tokens):
        states, _last = self.layers(self.embed(tokens))
        return self.head(states)


class Cells(nn.Module):
    """A recurrence written by hand, with a state that is written to in place."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        h, c = x.new_zeros(x.shape[0], 8), x.new_zeros(x.shape[0], 8)
        out = x.new_empty(x.shape[1], x.shape[0], 8)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            out[t] = h
            self.steps += 1
        return out.transpose(0, 1)


class Variational(nn.Module):
    """An autoencoder that draws its code at random."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(16, 8), nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16))

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
        return self.decode(code), divergence


class Mixture(nn.Module):
    """Experts weighed by a gate that keeps the best two."""

    def __init__(self, experts=4, width=12):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / math.sqrt(2 * width))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        gates = torch.zeros(*x.shape[:-1], len(self.up)).to(weights.dtype).scatter(-1, chosen, weights)
        hidden = F.gelu(torch.einsum("bw,ewh->beh", x, self.up), approximate="tanh")
        return torch.einsum("beh,ehw,be->bw", hidden, self.down, gates)


class GraphNet(nn.Module):
    """Messages along the edges of a graph, summed at their ends."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(8, 8), nn.GRUCell(8, 8)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 2, 4]]))

    def forward(self, x):
        for _ in range(3):
            messages = self.message(x)[self.edges[0]].relu()
            x = self.update(torch.zeros_like(messages[:5]).index_add(0, self.edges[1], messages), x)
        return x


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout2d(0.2),
        nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, 5),
    )  # fmt: skip


def residual():
    blocks = [Residual(8, 8, 1), Residual(8, 16, 2)]
    return nn.Sequential(nn.Conv2d(3, 8, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


def mobile():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), InvertedResidual(8), InvertedResidual(8), nn.Conv2d(8, 4, 1))


def mixer():
    """Convolution over time with weight norm, then a one-dimensional batch norm."""
    return nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 12, 3, padding=2, dilation=2)), nn.GLU(1), nn.BatchNorm1d(6),
        nn.ConvTranspose1d(6, 6, 3, 2), nn.InstanceNorm1d(6, affine=True), nn.PReLU(6), nn.AvgPool1d(2),
    )  # fmt: skip


def encoder(norm_first=False):
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, F.gelu, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def volumes():
    return nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ELU(), nn.MaxPool3d(2), nn.Conv3d(4, 2, 1)
    )


def image(*size):
    return lambda: torch.randn(*size)


def tokens(count, *size):
    return lambda: torch.randint(0, count, size)


NETWORKS = {
    "mlp": (mlp, image(5, 16)),
    "convolutional": (convolutional, image(2, 3, 12, 12)),
    "residual": (residual, image(2, 3, 12, 12)),
    "mobile": (mobile, image(2, 3, 13, 13)),
    "mixer": (mixer, image(2, 6, 10)),
    "volumes": (volumes, image(2, 1, 4, 6, 4)),
    "unet": (UNet, image(2, 3, 16, 16)),
    "encoder": (encoder, image(2, 7, 32)),
    "encoder_norm_first": (lambda: encoder(norm_first=True), image(2, 7, 32)),
    "decoder": (Decoder, tokens(50, 2, 9)),
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2, dropout=0.2), tokens(20, 3, 6)),
    "lstm_both_ways": (lambda: Recurrent(nn.LSTM, bidirectional=True), tokens(20, 3, 6)),
    "gru": (lambda: Recurrent(nn.GRU, num_layers=2), tokens(20, 3, 6)),
    "rnn": (lambda: Recurrent(nn.RNN), tokens(20, 3, 6)),
    "cells": (Cells, image(3, 5, 6)),
    "variational": (Variational, image(4, 16)),
    "mixture": (Mixture, image(6, 12)),
    "graph_net": (GraphNet, image(5, 8)),
}
