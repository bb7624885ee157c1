"""What open sizes cost, in one run: time a call with a size left open against one that is fixed, in ATen and kernels.
How many compilations sizes take: many_sizes.py.

The kernels: on 2,048 rows of 768 the rows are open; where it says so, what a row holds is open as well.
The shapes: `x + 1` on (8, 8) and fifty Linear layers of 32 on (8, 32), the first size open.
"""

import argparse
import time

import torch
from torch import nn

import firesteel


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(50))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def microseconds(function, x, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        function(x)
    return (time.perf_counter() - begin) / calls * 1e6


def cost_of_calls(rounds):
    cases = {"x + 1": (lambda x: x + 1, (8, 8), 2000), "50 layers": (Layers().eval(), (8, 32), 100)}
    for name, (function, shape, calls) in cases.items():
        x, other = torch.randn(shape), torch.randn(shape[0] + 1, *shape[1:])
        fixed = firesteel.compile(function, backend="aot_eager", dynamic=False)
        opened = firesteel.compile(function, backend="aot_eager", isolate_recompiles=True)
        best = {"eager": 1e9, "fixed": 1e9, "open": 1e9}
        with torch.no_grad():
            fixed(x)
            opened(other)
            opened(torch.randn(shape[0] + 2, *shape[1:]))  # from here on the size is open
            for _ in range(rounds):
                for way, called in (("eager", function), ("fixed", fixed), ("open", opened)):
                    best[way] = min(best[way], microseconds(called, x, calls))
        print(f"{name:10} eager {best['eager']:8.2f} µs   fixed {best['fixed']:8.2f} µs   open {best['open']:8.2f} µs")


WIDE = 768


def kernel_cases():
    weight, bias = torch.randn(WIDE), torch.randn(WIDE)
    mask = torch.randn(512, 512) > 1

    def rows(n):
        return torch.randn(n, WIDE), torch.randn(n, WIDE)

    def scores(n):
        return torch.randn(8, n, n), mask[:n, :n].contiguous()

    def layer_norm(x, y):
        return torch.nn.functional.layer_norm(x + y, (WIDE,), weight, bias)

    def heads(n):
        return torch.randn(n // 16, 16, 12, 64), torch.randn(n // 16, 12, 16, 64)

    return {
        "pointwise": (lambda x, y: (x.sin() + y.cos()) * x, rows, 2048),
        "a few products": (lambda x, y: (x * y + 1) * x - y, rows, 2048),
        "gelu + bias": (lambda x, y: torch.nn.functional.gelu(x + bias) * y, rows, 2048),
        "layer norm + residual": (layer_norm, rows, 2048),
        "RMSNorm": (lambda x, y: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight, rows, 2048),
        "softmax + mask (row open)": (lambda x, m: (x * 0.125).masked_fill(m, -1e9).softmax(-1), scores, 512),
        "sum of all": (lambda x, y: (x * y).sum(), rows, 2048),
        "sum down columns": (lambda x, y: (x * y).sum(0), rows, 2048),
        "sum along rows": (lambda x, y: (x * y).sum(1), rows, 2048),
        "transposed": (lambda x, y: x.transpose(1, 2) * 2 + y, heads, 2048),
        "cat": (lambda x, y: torch.cat([x, y * 2], 1) * 3, rows, 2048),
    }


def cost_of_kernels(rounds):
    """Kernels for one size against those for all sizes, on the same tensors."""
    product = 1.0
    cases = kernel_cases()
    for name, (function, make, n) in cases.items():
        fixed = firesteel.compile(function, dynamic=False, wait=True, isolate_recompiles=True)
        opened = firesteel.compile(function, wait=True, isolate_recompiles=True)
        inputs = make(n)
        fixed(*inputs)
        for other in (n // 4, n // 2):
            opened(*make(other))  # the second leaves the size open
        firesteel.reset_native_counters()
        opened(*inputs)
        counts = firesteel.native_counters()
        best = {"fixed": 1e9, "open": 1e9}
        for _ in range(rounds):
            for way, called in (("fixed", fixed), ("open", opened)):
                best[way] = min(best[way], microseconds(lambda pair, f=called: f(*pair), inputs, 10))
        ratio = best["open"] / best["fixed"]
        product *= ratio
        print(
            f"{name:26} one size {best['fixed']:8.1f} µs   all sizes {best['open']:8.1f} µs   {ratio:.2f} times"
            f"   ({counts['open_kernels']} kernels, {counts['aten_ops']} operators in ATen)"
        )
    print(f"geometric mean: {product ** (1 / len(cases)):.3f} times")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cost_of_calls(options.rounds)
    cost_of_kernels(options.rounds)
