"""Time per call of fused pointwise functions: Firesteel's native kernels, eager, and torch.compile (Inductor).

All three get the same inputs, forward only, under no_grad. Results are compared first, one untimed run of each; then
the three alternate and the minimum of each counts. The last columns say how long each took to its first result (a
second compilation of the same kernel may be shared) and how many operators ran in kernels and by ATen.
"""

import argparse
import time

import torch
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


def timed(function, *args):
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start


def best(functions, args, seconds):
    """The minimum time of each, by turns."""
    repeats = max(1, int(2e-4 / max(timed(functions[0], *args)[1], 1e-7)))  # a batch lasts some 0.2 ms
    times = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, function in enumerate(functions):
            start = time.perf_counter()
            for _ in range(repeats):
                function(*args)
            times[i] = min(times[i], (time.perf_counter() - start) / repeats)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each function and shape")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for all sides")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'function':14} {'shape':10} {'native µs':>10} {'eager':>8} {'inductor':>9} | "
          f"{'first ms':>8} {'inductor':>9} | native/ATen ops")  # fmt: skip
    ratios = {"eager": [], "inductor": []}
    with torch.no_grad():
        for function in FUNCTIONS:
            for name, shape in SHAPES.items():
                x, y = torch.randn(shape), torch.randn(shape)
                wanted = function(x, y)
                traced, first = timed(lambda f, x, y: firesteel.trace(f, x, y, native=True), function, x, y)
                firesteel.reset_native_counters()
                got = traced(x, y)
                counts = firesteel.native_counters()
                torch.testing.assert_close(got, wanted)
                runners, first_inductor = [traced, function], float("nan")
                if not options.no_inductor:
                    torch._dynamo.reset()
                    compiled = torch.compile(function, dynamic=False)
                    got, first_inductor = timed(compiled, x, y)
                    loose = 0.03 if got.dtype is torch.bfloat16 else 1e-4  # it does not round in between
                    torch.testing.assert_close(got, wanted, rtol=loose, atol=loose)
                    runners.append(compiled)
                times = best(runners, (x, y), options.seconds)
                for side, taken in zip(ratios, times[1:], strict=False):
                    ratios[side].append(taken / times[0])
                shown = [f"{taken / times[0]:.2f}x" for taken in times[1:]] + ["-"]
                print(f"{function.__name__:14} {name:10} {times[0] * 1e6:10.1f} {shown[0]:>8} {shown[1]:>9} | "
                      f"{first * 1e3:8.1f} {first_inductor * 1e3:9.0f} | "
                      f"{counts['native_ops']}/{counts['aten_ops']}", flush=True)  # fmt: skip
    for side, values in ratios.items():
        if values:
            mean = torch.tensor(values).log().mean().exp().item()
            print(f"against {side}: geometric mean {mean:.2f}x, least {min(values):.2f}x")


if __name__ == "__main__":
    main()
