"""`firesteel bench script.py:function`: how long a function takes in eager and compiled, measured side by side."""

import argparse
import statistics
import time

from .._wording import plural
from . import explain

_LEAST_SAMPLE = 1e-3  # seconds: shorter calls are repeated until they fill it
_LEAST_SAMPLES = 7


def run(arguments):
    """firesteel bench"""
    parser = argparse.ArgumentParser(
        prog="firesteel bench",
        usage="firesteel bench script.py:function [--args 'ARGUMENTS'] [--backward] [--backend NAME …] [--seconds N]",
        description='Loads a script (what stands under `if __name__ == "__main__":` is not run) and calls one of its '
        "functions or modules many times with the same arguments: eagerly and compiled in turn, so that whatever else "
        "the machine does meets both alike. Results are compared first.",
        epilog="the table:\n  fastest   the least time of a call: what the machine can do; ratios are of these\n"
        "  median    of all samples: far above the fastest where the machine is busy\n"
        "  first     the first call, which compiles\n\nexamples:\n"
        "  firesteel bench model.py:forward --args 'torch.randn(8, 16)'\n"
        "  firesteel bench model.py:net --args 'example()' --backward\n"
        "  firesteel bench model.py:f --args 'x()' --backend aot_eager --backend firesteel --seconds 10",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", help="script.py:name, where name may have dots")
    parser.add_argument(
        "--args", default="", help="the arguments of the call, as Python; it may use torch and the script's names"
    )
    parser.add_argument("--backend", action="append", metavar="NAME", help="as of firesteel.compile; may be repeated")
    parser.add_argument("--backward", action="store_true", help="with the gradients of the results' sum")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="N", help="how long to measure (3)")
    options = parser.parse_args(arguments)
    try:
        function, args, kwargs = explain.load(options.target, options.args, "firesteel_bench")
    except LookupError as error:
        parser.error(error.args[0])
    import firesteel

    backends = options.backend or [firesteel.get_default_backend()]
    rows = [Row("eager", function, args, kwargs, options.backward)]
    for backend in backends:
        try:
            compiled = firesteel.compile(function, backend=backend, wait=True)
        except ValueError as error:
            parser.error(str(error))
        rows.append(Row(backend, compiled, args, kwargs, options.backward))
    return _bench(rows, options.seconds)


class Row:
    """One way to call the function, and how long it took."""

    def __init__(self, name, function, args, kwargs, backward):
        self.name = name
        self._function, self._args, self._kwargs, self._backward = function, args, kwargs, backward
        self.samples = []
        self.times = 1  # calls a sample

    def call(self):
        import torch

        result = self._function(*self._args, **self._kwargs)
        if self._backward:
            tensors = [it for it in _tensors(result) if it.requires_grad]
            if not tensors:
                raise SystemExit("firesteel bench: --backward needs a result that requires a gradient")
            torch.autograd.backward([it.sum() for it in tensors])
        return result

    def first(self):
        begin = time.perf_counter()
        result = self.call()
        self.first_seconds = time.perf_counter() - begin
        return result

    def sample(self):
        begin = time.perf_counter()
        for _ in range(self.times):
            self.call()
        spent = time.perf_counter() - begin
        self.samples.append(spent / self.times)
        return spent


def _tensors(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [found for it in value for found in _tensors(it)] if isinstance(value, (list, tuple)) else []


def _bench(rows, seconds):
    import firesteel

    from .._minify.look import tree_difference

    firesteel.reset_counters()
    expected = rows[0].first()
    differences = [(row.name, tree_difference(expected, row.first())) for row in rows[1:]]
    counters = firesteel.counters()
    for row in rows:
        while row.sample() < _LEAST_SAMPLE and row.times < 1 << 20:
            row.times *= 2
        row.samples.clear()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rows[0].samples) < _LEAST_SAMPLES:
        for row in rows:
            row.sample()
    print(table(rows))
    for name, what in differences:
        if what:
            print(f"{name} and eager differ: {what}")
    breaks = sum(counters["breaks"].values())
    print(f"{plural(counters['captured'], 'capture')}, {plural(breaks, 'graph break')}, "
          f"{plural(sum(counters['fallbacks'].values()), 'eager run')} in the first calls")  # fmt: skip
    return 0


def table(rows):
    """Names, times, and how much faster than the first row each is."""
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}  {'fastest':>10}  {'median':>10}  {'first':>10}"]
    base = min(rows[0].samples)
    for row in rows:
        best = min(row.samples)
        ratio = "" if row is rows[0] else f"  {base / best:.2f}× eager's speed"
        cells = "  ".join(f"{_time(it):>10}" for it in (best, statistics.median(row.samples), row.first_seconds))
        lines.append(f"{row.name:{width}}  {cells}{ratio}")
    return "\n".join(lines)


def _time(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.2f} {unit}"
    return ""
