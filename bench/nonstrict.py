"""What a nonstrict call adds to a call of a compiled function, over the same code inlined; by turns, in one run."""

import argparse
import time

import torch

import firesteel

BACKENDS = ("eager", "aot_eager", "firesteel")


def body(x, scale):
    return (x * scale).sin() + x


opaque = firesteel.nonstrict_trace(body)


def inlined(x):
    return body(x.cos(), 2.0) * 3


def through_nonstrict(x):
    return opaque(x.cos(), 2.0) * 3


def seconds(function, x, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function(x)
    return (time.perf_counter() - start) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="calls a round")
    parser.add_argument("--rounds", type=int, default=60, help="rounds; the minimum counts")
    options = parser.parse_args()
    x = torch.randn(64)
    for backend in BACKENDS:
        versions = [firesteel.compile(f, backend=backend, fullgraph=True) for f in (inlined, through_nonstrict)]
        best = [float("inf")] * len(versions)
        for version in versions:
            seconds(version, x, 3)
        for _ in range(options.rounds):
            for i, version in enumerate(versions):
                best[i] = min(best[i], seconds(version, x, options.calls))
        print(
            f"{backend:10} inlined {best[0] * 1e6:6.2f} µs, nonstrict {best[1] * 1e6:6.2f} µs: "
            f"{(best[1] - best[0]) * 1e6:+.2f} µs"
        )


if __name__ == "__main__":
    main()
