"""`firesteel doctor`: whether all is well on this machine, and what to do where it is not."""

import argparse
import difflib
import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

from . import cache

# Every variable that Firesteel reads, and what it does.
VARIABLES = {
    "FIRESTEEL": "1: programs run on Firesteel, where `firesteel enable` was called",
    "FIRESTEEL_LOGS": "logs to switch on: breaks,recompiles,guards,graphs,kernels,timings",
    "FIRESTEEL_REPORT": "a path: a report is written there when the program ends",
    "FIRESTEEL_PROFILE": "1: reports and explain() tell what each kernel and operator cost",
    "FIRESTEEL_TRACE": "a path: a Chrome trace of compilations and runs is written there when the program ends",
    "FIRESTEEL_CHECK": "1: every compiled call is compared with eager",
    "FIRESTEEL_PROGRESS": "0: nothing is told of compilations that take over two seconds",
    "FIRESTEEL_WAIT": "1: the first call waits for native code",
    "FIRESTEEL_CACHE": "0: no kernels on disk",
    "FIRESTEEL_CACHE_DIR": "where kernels are kept",
    "FIRESTEEL_CACHE_LIMIT": "how many bytes of them",
    "FIRESTEEL_POOL_LIMIT": "how many bytes of memory lie ready for results",
    "FIRESTEEL_CPU": "avx512, avx2 or sse: less than the machine has",
    "FIRESTEEL_ATTENTION": "aten: attention is left to it",
    "FIRESTEEL_MATMUL": "aten or onednn: who multiplies matrices",
    "FIRESTEEL_MEASURE": "0: libraries are chosen by a rule, not by measuring",
    "FIRESTEEL_SMALLEST_KERNEL": "1: every operator that can have a kernel gets one, alone as it may be",
    "FIRESTEEL_CHECK_SHAPES": "1: every result's layout is compared with the recorded one",
    "FIRESTEEL_SPOIL": "an operation of kernels (tanh): computed wrongly, for tests of what finds such mistakes",
    "FIRESTEEL_PASSES": "names (constant_folding,dead_code): of the passes over a graph these alone run",
    "FIRESTEEL_SPOIL_PASS": "a pass (dead_code) that takes sin for cos, for tests of what finds such mistakes",
    "FIRESTEEL_FULL": "1: Firesteel's own tests run their long sweeps",
}


class Findings:
    """Lines as they come: well, not well with a remedy, or just told."""

    def __init__(self):
        self.failed = False

    def well(self, text):
        print(f"  ok    {text}")

    def told(self, text):
        print(f"        {text}")

    def advice(self, text, remedy):
        print(f"  note  {text}\n        try: {remedy}")

    def bad(self, text, remedy):
        self.failed = True
        print(f"  BAD   {text}\n        try: {remedy}")


def cpu_features():
    """The instruction sets that matter, of what /proc/cpuinfo names."""
    try:
        flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return []
    words = set(flags.split())
    return [name for name in ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile") if name in words]


def _versions(findings):
    import torch

    import firesteel

    findings.well(f"firesteel {firesteel.__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    findings.told(f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} processors, "
                  f"torch uses {torch.get_num_threads()} threads")  # fmt: skip
    findings.told(f"instruction sets: {' '.join(cpu_features()) or 'unknown'}")


def _capture(findings):
    """A small program with a gradient, compiled and compared."""
    import torch

    import firesteel

    firesteel.reset_counters()
    firesteel.reset_native_counters()

    def program(x, y):
        return ((x * y).sin() + 1).sum()

    x, y = (torch.randn(64, 64, requires_grad=True) for _ in range(2))
    ours = torch.autograd.grad(firesteel.compile(program, wait=True)(x, y), (x, y))
    theirs = torch.autograd.grad(program(x, y), (x, y))
    if not all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True)):
        findings.bad("a small program gives another result than eager", "report it, with the output of this command")
    elif firesteel.counters()["captured"] != 1:
        reasons = ", ".join(firesteel.counters()["fallbacks"]) or "no reason"
        findings.bad(f"a small program could not be captured ({reasons})", "switch off debuggers and profilers")
    else:
        findings.well("capture: a small program and its gradient are one graph, and agree with eager")
    if firesteel.native_counters()["kernels_run"]:
        findings.well("native code: its kernels were compiled and run")
    else:
        findings.bad("native code: no kernel was run, ATen runs everything", "build Firesteel with LLVM 19 "
                     "(-DFIRESTEEL_LLVM=ON), or install the wheel")  # fmt: skip


def _cache(findings):
    path = cache.folder()
    if path is None:
        findings.advice("cache: off, kernels are compiled in every process", "unset FIRESTEEL_CACHE")
    elif wrong := cache.problem(path):
        findings.bad(f"cache: {path} is not used: {wrong}", "set FIRESTEEL_CACHE_DIR to a folder of your own")
    else:
        files = cache.entries(path)
        findings.well(f"cache: {len(files)} kernels in {path}")


def _extras(findings):
    for name, use in (("rich", "colours in explain().show()"), ("numpy", "tensors to and from arrays")):
        if importlib.util.find_spec(name):
            findings.well(f"{name} {importlib.metadata.version(name)}: {use}")
        else:
            findings.advice(f"{name} is not installed, and not needed: {use}", f"pip install {name}")


def _variables(findings):
    for name, value in sorted(os.environ.items()):
        if not name.startswith("FIRESTEEL"):
            continue
        if name in VARIABLES:
            findings.told(f"{name}={value}: {VARIABLES[name]}")
        else:
            near = difflib.get_close_matches(name, VARIABLES, 1)
            findings.advice(f"{name} is set, and means nothing", f"did you mean {near[0]}?" if near else "unset it")


def run(arguments):
    """firesteel doctor"""
    parser = argparse.ArgumentParser(
        prog="firesteel doctor",
        description="Looks whether Firesteel works here: versions, processor, capture, native code, cache, settings. "
        "Ends with 1 where something is wrong, and says how to mend it.",
        epilog="variables that Firesteel reads:\n" + "\n".join(f"  {n:24}{what}" for n, what in VARIABLES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(arguments)
    findings = Findings()
    for title, look in (("versions", _versions), ("compiler", _capture), ("cache", _cache), ("extras", _extras),
                        ("settings", _variables)):  # fmt: skip
        print(title)
        look(findings)
    print("something is wrong: see BAD above" if findings.failed else "all is well")
    return int(findings.failed)
