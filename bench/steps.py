"""Time of an inference or a training step of models: eager, Firesteel's native code and torch.compile, by turns.

Results are compared first; native code is in place before anything is timed. The minimum of each counts. `ops` says how
many operators ran in native kernels and how many by ATen.
"""

import argparse
import time

import torch
import zoo

import firesteel


def timed(call, inputs, train):
    start = time.perf_counter()
    zoo.step(call, inputs, train)
    return time.perf_counter() - start


def compare(name, train, options):
    model, inputs = zoo.build(name, train)
    sides = {"eager": model, "firesteel": firesteel.compile(model, wait=True)}
    if not options.without_torch:
        sides["inductor"] = torch.compile(model)
    expected = zoo.step(model, inputs, train)
    for side, call in sides.items():
        zoo.assert_as_right(zoo.step(call, inputs, train), expected, name, train, side)
    firesteel.reset_native_counters()
    zoo.step(sides["firesteel"], inputs, train)
    ran = firesteel.native_counters()
    best = dict.fromkeys(sides, float("inf"))
    end, rounds = time.perf_counter() + options.seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        for side, call in sides.items():
            best[side] = min(best[side], timed(call, inputs, train))
        rounds += 1
    ours = best["firesteel"]
    times = " ".join(f"{seconds * 1e3:9.2f} ms" for seconds in best.values())
    ratios = " ".join(f"{seconds / ours:9.2f}" for side, seconds in best.items() if side != "firesteel")
    print(f"{name:12} {'training' if train else 'inference':9} {times}   {ratios}   "
          f"{ran['native_ops']}/{ran['aten_ops']} in {ran['kernels_run']} kernels", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(zoo.ROWS)}; all of them by default")
    parser.add_argument("--threads", type=int, default=2, help="(2)")
    parser.add_argument("--seconds", type=float, default=5, help="a row is timed for (5)")
    parser.add_argument("--without-torch", action="store_true", help="eager and Firesteel alone")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'':12} {'':9} {'eager':>12} {'Firesteel':>12} {'Inductor':>12}   eager/ours Inductor/ours   ops")
    for name in options.rows or zoo.ROWS:
        for train in (False, True):
            compare(name, train, options)


if __name__ == "__main__":
    main()
