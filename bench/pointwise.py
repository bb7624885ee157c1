"""Time per call of fused pointwise functions: Firesteel's native kernels, eager, and torch.compile (Inductor).

All three get the same inputs, forward only, under no_grad. Results are compared first, one untimed run of each; then
the three alternate and the minimum of each counts. The last columns say how long each took to its first result (a
second compilation of the same kernel may be shared) and how many operators ran in kernels and by ATen.
"""

import torch
from sides import Ratios, best, options_of, timed
from torch.nn import functional as F

import firesteel

SHAPES = {
    "8": (8,),
    "1003": (1003,),
    "128x768": (128, 768),
    "2048x3072": (2048, 3072),
    "2047x1021": (2047, 1021),
}


def chain(x, y):
    return (x.sin() + y.cos()) * x


def gelu_bias(x, y):
    return F.gelu(x + y[..., :1])


def swiglu(x, y):
    return F.silu(x) * y


def activations(x, y):
    return torch.sigmoid(x) * torch.tanh(y) + torch.relu(x - y).clamp(max=2.0)


def normalize(x, y):
    return ((x - y) * torch.rsqrt(y * y + 1e-5) * 1.5 + 0.5).exp()


def bf16_residual(x, y):
    return F.gelu(x.to(torch.bfloat16), approximate="tanh") * 0.7 + y.to(torch.bfloat16)


FUNCTIONS = [chain, gelu_bias, swiglu, activations, normalize, bf16_residual]


def main():
    options = options_of(__doc__, seconds=2.0)
    print(f"{'function':14} {'shape':10} {'native µs':>10} {'eager':>8} {'inductor':>9} | "
          f"{'first ms':>8} {'inductor':>9} | native/ATen ops")  # fmt: skip
    ratios = Ratios()
    with torch.no_grad():
        for function in FUNCTIONS:
            if options.only not in function.__name__:
                continue
            for name, shape in SHAPES.items():
                times, firsts, counts = measure(function, shape, options)
                print(f"{function.__name__:14} {name:10} {ratios.add(times)} | "
                      f"{firsts[0] * 1e3:8.1f} {firsts[1] * 1e3:9.0f} | "
                      f"{counts['native_ops']}/{counts['aten_ops']}", flush=True)  # fmt: skip
    ratios.print_means()


def measure(function, shape, options):
    """Times of a call, times to the first result, and how operators ran."""
    x, y = torch.randn(shape), torch.randn(shape)
    wanted = function(x, y)
    traced, first = timed(lambda: firesteel.trace(function, x, y, native=True))
    firesteel.reset_native_counters()
    torch.testing.assert_close(traced(x, y), wanted)
    counts = firesteel.native_counters()
    calls, first_inductor = [lambda: traced(x, y), lambda: function(x, y)], float("nan")
    if not options.no_inductor:
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=False)
        got, first_inductor = timed(lambda: compiled(x, y))
        loose = 0.03 if got.dtype is torch.bfloat16 else 1e-4  # it does not round in between
        torch.testing.assert_close(got, wanted, rtol=loose, atol=loose)
        calls.append(lambda: compiled(x, y))
    return best(calls, options.seconds), (first, first_inductor), counts


if __name__ == "__main__":
    main()
