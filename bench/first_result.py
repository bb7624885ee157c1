"""Time to the first result, each in a process of its own with empty caches: Firesteel and torch.compile.

The clock starts after `import torch` and the model's construction; one warm eager run of the same inputs is subtracted.
Columns: `first` is Firesteel as it is, ATen running while native code is compiled; `native` waits for all native code;
`cached` does so with the machine code of the run before on disk; the last two are torch.compile (Inductor), with empty
caches and with those that its own run before has filled.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
import zoo

SIDES = {
    "first": {"wait": False},
    "native": {"wait": True},
    "cached": {"wait": True},
}
# What each is compared with: torch.compile with empty caches, or with what its own run before has left there.
AGAINST = {"first": "inductor", "native": "inductor", "cached": "inductor-cached"}


def measure(name, train, side):
    """In the child: seconds to the first result less a warm eager run; how operators ran."""
    model, inputs = zoo.build(name, train)
    for _ in range(2):
        start = time.perf_counter()
        expected = zoo.step(model, inputs, train)
        eager = time.perf_counter() - start
    model.zero_grad()
    if side in AGAINST.values():
        start = time.perf_counter()
        found = zoo.step(torch.compile(model), inputs, train)
    else:
        start = time.perf_counter()
        import firesteel

        found = zoo.step(firesteel.compile(model, **SIDES[side]), inputs, train)
    seconds = time.perf_counter() - start - eager
    zoo.assert_as_right(found, expected, name, train, "firesteel" if side in SIDES else side)
    counts = {}
    if side in SIDES:
        ran = firesteel.native_counters()
        counts = {"native": ran["native_ops"], "aten": ran["aten_ops"], "kernels": ran["kernels_compiled"]}
    return {"seconds": seconds, **counts}


def in_own_process(name, train, side, threads, folder):
    own = {"FIRESTEEL_CACHE_DIR": f"{folder}/firesteel-{name}-{train}", "OMP_NUM_THREADS": str(threads)}
    own["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor-{name}-{train}"
    own["FIRESTEEL_CACHE"] = "0" if side == "first" else "1"
    command = [sys.executable, __file__, "--child", name, str(int(train)), side]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} {side}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(zoo.ROWS)}; pointwise, bert-base, resnet-50 by default")
    parser.add_argument("--threads", type=int, default=2, help="(2)")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts (2)")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, train, side = options.child
        print(json.dumps(measure(name, train == "1", side)))
        return
    print(
        f"{'':12} {'':9} {'first':>9} {'native':>9} {'cached':>9} {'Inductor':>11} {'cached':>11}   "
        "ratios            native/ATen ops"
    )
    for name in options.rows or ["pointwise", "bert-base", "resnet-50"]:
        for train in (False, True):
            row(name, train, options)


def row(name, train, options):
    with tempfile.TemporaryDirectory() as folder:
        best = {}
        for turn in range(options.rounds):
            for side in (*SIDES, "inductor", "inductor-cached"):
                there = f"{folder}/{turn}"
                found = in_own_process(name, train, side, options.threads, there)
                best[side] = min(best.get(side, found), found, key=lambda one: one["seconds"])
    seconds = {side: found["seconds"] for side, found in best.items()}
    ratios = " ".join(f"1/{seconds[AGAINST[side]] / seconds[side]:<5.0f}" for side in SIDES)
    ran = best["native"]
    print(
        f"{name:12} {'training' if train else 'inference':9} "
        + " ".join(f"{seconds[side] * 1e3:6.0f} ms" for side in SIDES)
        + " ".join(f" {seconds[side] * 1e3:7.0f} ms" for side in ("inductor", "inductor-cached"))
        + f"   {ratios} {ran['native']}/{ran['aten']}",
        flush=True,
    )


if __name__ == "__main__":
    main()
