"""explain(): runs a function compiled, once, and tells what became of it."""

import collections
import contextlib
import dataclasses
import os
import sys
import time

from . import _C, _explain_text
from ._compile import Options, compile_with
from ._compiled_module import is_compiled_module
from ._costs import CostReport, by_time, costs_of, profile
from ._cures import break_cure, cure
from ._wording import plural, shown_name, shown_place


@dataclasses.dataclass(frozen=True)
class GraphReport:
    """One piece of code that became a graph."""

    function: str
    file: str
    line: int
    text: str
    aten: str  # the ATen graph underneath, where the backend has one
    ops: list[str]
    guards: list[str]
    capture_seconds: float
    backend_seconds: float  # spent in a backend that is a function
    kernels: list["KernelReport"] = dataclasses.field(default_factory=list)

    @property
    def node_count(self):
        return len(self.ops)


@dataclasses.dataclass(frozen=True)
class KernelReport:
    """Operators of a graph that run as one compiled kernel."""

    phase: str  # forward or backward
    ops: list[str]
    places: list[tuple[str, int]]  # the user's files and lines they come from
    text: str  # its loops
    state: str  # "native", "waiting" until its code is there, "failed" where it could not be made
    from_disk: bool
    seconds: float  # to make its code
    cost: CostReport | None = None  # of its runs, where somebody profiled


@dataclasses.dataclass(frozen=True)
class BreakReport:
    """One place where a graph ended before the function did."""

    reason: str  # the id: FS-C-FUNCTION
    message: str
    why: str
    remedy: str
    file: str
    line: int
    place: str  # the user's line, underlined
    inside: str  # the calls that led there


@dataclasses.dataclass(frozen=True)
class RecompileReport:
    """A piece of code that was captured again, and the guard that made it necessary."""

    function: str
    guard: str
    file: str = ""
    line: int = 0
    is_last: bool = False  # the limit was reached: it runs eagerly from then on
    remedy: str = ""


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What became of a function; prints as plain text, shows itself in colour by show(), and in notebooks."""

    name: str
    calls: int  # how often explain() has called the function so far
    graphs: list[GraphReport]
    breaks: list[BreakReport]
    recompiles: list[RecompileReport]
    fallbacks: dict[str, int]  # by reason: how often a frame ran eagerly to its end
    # Seconds: capture (in all), of which passes, partition and code; backend; call (the whole last call).
    timings: dict[str, float]
    result: object = None  # of the last call
    # Where somebody profiled: each kernel, and each operator that runs by itself, the most expensive first.
    costs: list[CostReport] = dataclasses.field(default_factory=list)

    @property
    def guards(self):
        return [guard for graph in self.graphs for guard in graph.guards]

    @property
    def kernels(self):
        return [kernel for graph in self.graphs for kernel in graph.kernels]

    @property
    def ops(self):
        """How often each operation stands in the graphs."""
        return dict(collections.Counter(op for graph in self.graphs for op in graph.ops))

    @property
    def op_count(self):
        return sum(graph.node_count for graph in self.graphs)

    def counts(self):
        """`2 graphs, 4 operations, 1 graph break, …`"""
        counts = [
            (len(self.graphs), "graph"),
            (self.op_count, "operation"),
            (len(self.breaks), "graph break"),
            (len(self.guards), "guard"),
            (len(self.recompiles), "recompile"),
            (len(self.kernels), "kernel"),
        ]
        return ", ".join(plural(number, noun) for number, noun in counts)

    def show(self):
        """Prints it: in colour where stdout is a terminal and rich is installed, else as plain text."""
        console = _terminal()
        if console is None:
            print(self)
        else:
            console.print(self)

    def __str__(self):
        return _explain_text.plain(self)

    def __repr__(self):
        return f"<firesteel.Explanation of {self.name}: {self.counts()}>"

    def __rich__(self):
        return _explain_text.coloured(self)

    def _repr_html_(self):
        return _explain_text.html(self)


def _terminal():
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return None
    try:
        import rich.console
    except ImportError:
        return None
    return rich.console.Console()


class Explainer:
    """Calls a function compiled. Each call runs it exactly once and gives an Explanation of all calls so far."""

    def __init__(self, function, options, profiles=False):
        self._profile = profile if profiles else contextlib.nullcontext
        self._name = options.name or getattr(function, "__qualname__", None) or type(function).__qualname__
        compiled = compile_with(options, function)
        self._call = compiled
        self._region = compiled._compiled if is_compiled_module(compiled) else compiled
        self._calls = 0
        self._fallbacks = collections.Counter()

    def __call__(self, *args, **kwargs):
        before = _C.counters()["fallbacks"]
        begin = time.perf_counter()
        self._calls += 1
        try:
            with self._profile():
                result = self._call(*args, **kwargs)
        finally:
            spent = time.perf_counter() - begin
            self._fallbacks.update(_C.counters()["fallbacks"])
            self._fallbacks.subtract(before)
        return self._explanation(spent, result)

    def report(self):
        """What is known so far, also where the function raised."""
        return self._explanation(0.0, None)

    def _explanation(self, spent, result):
        entries = sorted(_C._entries(self._region), key=lambda entry: entry["number"])
        names = {entry["number"]: shown_name(entry) for entry in entries}
        timings = {
            "capture": sum(entry["seconds"] for entry in entries),
            **{stage: sum(entry["stages"][stage] for entry in entries) for stage in ("passes", "partition", "code")},
            "backend": sum(entry["backend_seconds"] for entry in entries),
            "call": spent,
        }
        costs = by_time(cost for entry in entries for cost in costs_of(entry))
        if costs:
            timings["kernels"] = sum(cost.seconds for cost in costs if cost.is_kernel)
            timings["operators"] = sum(cost.seconds for cost in costs if not cost.is_kernel)
        return Explanation(
            name=self._name,
            calls=self._calls,
            graphs=[graph_report(entry) for entry in entries if entry["runs"]],
            breaks=_distinct(break_report(entry["break"]) for entry in entries if entry["break"]),
            recompiles=[recompile_report(note, names) for note in _C._recompiles(self._region)],
            fallbacks={reason: times for reason, times in self._fallbacks.items() if times},
            timings=timings,
            result=result,
            costs=costs,
        )


def explain(fn, *, profile=False, **options):
    """`explain(fn)(*args)`: compiles and runs fn exactly once, side effects and all, and tells what became of it.

    Gives an Explanation: .graphs, .breaks, .guards, .recompiles, .ops, .kernels, .timings and .result; print it to read
    it. With profile=True the call waits for native code, and .costs tells time and memory of each kernel and operator.
    Takes compile()'s options. A function compiled before is compiled anew for this, by its own options and these, and
    stays as it is; graph breaks are told of rather than raised unless fullgraph=True is asked for here. Called again,
    the same explain() object runs the function once more and tells of recompiles too.
    """
    if profile:
        options.setdefault("wait", True)
    return Explainer(fn, Options(**_options_of(fn) | options, notes_recompiles=True), profile)


def _options_of(fn):
    """What a compiled function or module was compiled with, but for fullgraph."""
    options = getattr(fn, "_options", None) if is_compiled_module(fn) or isinstance(fn, _C.CompiledFunction) else None
    if not isinstance(options, Options):
        return {}
    own = ("fullgraph", "notes_recompiles")
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(Options) if field.name not in own}


def graph_report(entry):
    ops = [node.op for node in _C.parse_graph(entry["graph"]).nodes]
    file, line = shown_place(entry)
    return GraphReport(
        function=shown_name(entry),
        file=file,
        line=line,
        text=entry["graph"],
        aten=entry["aten"],
        ops=ops,
        guards=entry["guards"],
        capture_seconds=entry["seconds"],
        backend_seconds=entry["backend_seconds"],
        kernels=_kernel_reports(entry),
    )


def _kernel_reports(entry):
    costs = {(cost.phase, cost.kernel): cost for cost in costs_of(entry) if cost.is_kernel}
    reports = []
    for part in entry["parts"]:
        nodes = _C.parse_graph(part["text"]).nodes if part["kernels"] else []
        for number, kernel in enumerate(part["kernels"]):
            reports.append(KernelReport(
                phase=part["phase"],
                ops=[nodes[i].op for i in kernel["nodes"]],
                places=_distinct(part["lines"][i] for i in kernel["nodes"] if part["lines"][i]),
                text=kernel["text"],
                state="waiting" if kernel["made"] is None else "native" if kernel["made"] else "failed",
                from_disk=kernel["from_disk"],
                seconds=kernel["seconds"],
                cost=costs.get((part["phase"], number)),
            ))  # fmt: skip
    return reports


def break_report(found):
    # Here there was no fullgraph=True that could be dropped.
    return BreakReport(**{**found, "remedy": break_cure(found["reason"], found["message"], found["remedy"])})


def recompile_report(note, names):
    facts = {key: note[key] for key in ("guard", "file", "line", "is_last")}
    return RecompileReport(function=names.get(note["before"], note["function"]), **facts, remedy=cure(note["guard"]))


def _distinct(reports):
    return list(dict.fromkeys(reports))
