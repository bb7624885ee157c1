"""What benchmarks of kernels share: three sides by turns, their ratios, and the options."""

import argparse
import time

import torch


def options_of(doc, seconds):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=seconds, help=f"time for each case and shape ({seconds})")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for all sides")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    return options


def timed(call):
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def best(calls, seconds):
    """The minimum time of each, by turns."""
    repeats = max(1, int(2e-4 / max(timed(calls[0])[1], 1e-7)))  # a batch lasts some 0.2 ms
    times = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            times[i] = min(times[i], (time.perf_counter() - start) / repeats)
    return times


class Ratios:
    """Times of native code, eager and Inductor, case by case; the last may be missing."""

    def __init__(self):
        self.of = {"eager": [], "inductor": []}

    def add(self, times):
        """How the others compare with the first, as text."""
        for side, taken in zip(self.of, times[1:], strict=False):
            self.of[side].append(taken / times[0])
        shown = [f"{taken / times[0]:.2f}x" for taken in times[1:]] + ["-"]
        return f"{times[0] * 1e6:10.1f} {shown[0]:>8} {shown[1]:>9}"

    def print_means(self):
        for side, values in self.of.items():
            if values:
                mean = torch.tensor(values).log().mean().exp().item()
                print(f"against {side}: geometric mean {mean:.2f}x, least {min(values):.2f}x")
