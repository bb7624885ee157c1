"""Peak memory of one warm training step of models: eager, Firesteel's native code and torch.compile.

Every side of every row runs in a process of its own: some steps, then idle memory goes back to the system, and one more
step is measured: the highest resident size during it, less what was resident before it. That counts saved values,
gradients and everything in between, and neither weights nor code. The least of several such steps counts. Models and
shapes stand in zoo.py.
"""

import argparse
import ctypes
import gc
import json
import subprocess
import sys

import torch
import zoo

SIDES = ("eager", "firesteel", "inductor")
ROWS = ["mlp", "gpt2", "bert-base", "llama", "vit-base", "t5-small", "resnet-50"]
WARM_STEPS, MEASURED_STEPS = 3, 4


def resident(field):
    """VmRSS: now; VmHWM: the most since mark() was called. In bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def mark():
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")


def compiled(model, side):
    if side == "firesteel":
        import firesteel

        return firesteel.compile(model, wait=True)
    return torch.compile(model) if side == "inductor" else model


def let_go(model, side):
    """Gradients, garbage, and memory that allocators keep for later."""
    model.zero_grad(set_to_none=True)
    gc.collect()
    if side == "firesteel":
        from firesteel import _C

        _C._empty_pool()
    ctypes.CDLL(None).malloc_trim(0)


def measure(name, side):
    model, inputs = zoo.build(name, train=True)
    call = compiled(model, side)
    for _ in range(WARM_STEPS):
        zoo.step(call, inputs, train=True)
    peaks = []
    for _ in range(MEASURED_STEPS):
        let_go(model, side)
        before = resident("VmRSS")
        mark()
        zoo.step(call, inputs, train=True)
        peaks.append(resident("VmHWM") - before)
    return min(peaks)


def in_process(name, side, threads):
    command = [sys.executable, __file__, "--one", name, side, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(zoo.ROWS)}; by default {', '.join(ROWS)}")
    parser.add_argument("--threads", type=int, default=2, help="(2)")
    parser.add_argument("--without-torch", action="store_true", help="eager and Firesteel alone")
    parser.add_argument("--one", nargs=2, metavar=("ROW", "SIDE"), help="this one, in this process")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    sides = SIDES[:2] if options.without_torch else SIDES
    print(f"torch {torch.__version__}, MB above what is resident before a step")
    print(f"{'':12}" + "".join(f"{side:>12}" for side in sides))
    for name in options.rows or ROWS:
        peaks = [in_process(name, side, options.threads) for side in sides]
        print(
            f"{name:12}" + "".join(f"{peak / 1e6:12.1f}" if peak else f"{'failed':>12}" for peak in peaks), flush=True
        )


if __name__ == "__main__":
    main()
