"""explain(): runs a function compiled, once, and tells what became of it."""

import collections
import dataclasses
import os
import time

from . import _C
from ._compile import Options, compile_with
from ._compiled_module import is_compiled_module

_SHOWN_GUARDS = 8  # of each graph, in print


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

    @property
    def node_count(self):
        return len(self.ops)


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


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What became of a function; prints as plain text."""

    name: str
    calls: int  # how often explain() has called the function so far
    graphs: list[GraphReport]
    breaks: list[BreakReport]
    recompiles: list[RecompileReport]
    fallbacks: dict[str, int]  # by reason: how often a frame ran eagerly to its end
    timings: dict[str, float]  # seconds: capture, backend, call (the whole last call)
    result: object = None  # of the last call

    @property
    def guards(self):
        return [guard for graph in self.graphs for guard in graph.guards]

    @property
    def ops(self):
        """How often each operation stands in the graphs."""
        return dict(collections.Counter(op for graph in self.graphs for op in graph.ops))

    @property
    def op_count(self):
        return sum(graph.node_count for graph in self.graphs)

    def __str__(self):
        sections = [self._headline(), *map(self._graph_text, self.graphs), *map(_break_text, self.breaks)]
        if self.recompiles:
            sections.append("\n".join(f"captured again: `{it.function}`: {it.guard}" for it in self.recompiles))
        sections.extend(_fallback_text(reason, times) for reason, times in self.fallbacks.items())
        return "\n\n".join(sections)

    def __repr__(self):
        return f"<firesteel.Explanation of {self.name}: {self._counts()}>"

    def _counts(self):
        counts = [(len(self.graphs), "graph"), (self.op_count, "operation"), (len(self.breaks), "graph break"),
                  (len(self.guards), "guard"), (len(self.recompiles), "recompile")]  # fmt: skip
        return ", ".join(_plural(number, noun) for number, noun in counts)

    def _headline(self):
        spent = ", ".join(f"{what} {seconds * 1e3:.1f} ms" for what, seconds in self.timings.items())
        return f"{self.name}: {self._counts()}\n{spent}; your code ran {_plural(self.calls, 'time')}"

    def _graph_text(self, graph):
        number = next(i for i, other in enumerate(self.graphs, 1) if other is graph)
        head = f"graph {number}: `{graph.function}` from {_short(graph.file)}:{graph.line}, "
        head += f"{_plural(graph.node_count, 'operation')}, captured in {graph.capture_seconds * 1e3:.1f} ms"
        guards = sorted(graph.guards, key=_is_about_code)[:_SHOWN_GUARDS]
        if len(graph.guards) > len(guards):
            guards.append(f"… and {len(graph.guards) - len(guards)} more, see .guards")
        text = _indented(graph.text.rstrip()) + (f"\n  guards:\n{_indented(chr(10).join(guards), 4)}" if guards else "")
        return f"{head}\n{text}"


class Explainer:
    """Calls a function compiled. Each call runs it exactly once and gives an Explanation of all calls so far."""

    def __init__(self, function, options):
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
        timings = {
            "capture": sum(entry["seconds"] for entry in entries),
            "backend": sum(entry["backend_seconds"] for entry in entries),
            "call": spent,
        }
        return Explanation(
            name=self._name,
            calls=self._calls,
            graphs=[_graph_report(entry) for entry in entries if entry["runs"]],
            breaks=_distinct(_break_report(entry["break"]) for entry in entries if entry["break"]),
            recompiles=[RecompileReport(*row) for row in _C._recompiles(self._region)],
            fallbacks={reason: times for reason, times in self._fallbacks.items() if times},
            timings=timings,
            result=result,
        )


def explain(fn, **options):
    """`explain(fn)(*args)`: compiles and runs fn exactly once, side effects and all, and tells what became of it.

    Gives an Explanation: .graphs, .breaks, .guards, .recompiles, .ops, .timings and .result; print it to read it. Takes
    compile()'s options. A function compiled before is compiled anew for this and stays as it is. Called again, the same
    explain() object runs the function once more and tells of recompiles too.
    """
    return Explainer(fn, Options(**options, notes_recompiles=True))


def _graph_report(entry):
    ops = [node.op for node in _C.parse_graph(entry["graph"]).nodes]
    return GraphReport(
        function=entry["function"],
        file=entry["file"],
        line=entry["line"],
        text=entry["graph"],
        aten=entry["aten"],
        ops=ops,
        guards=entry["guards"],
        capture_seconds=entry["seconds"],
        backend_seconds=entry["backend_seconds"],
    )


def _break_report(found):
    # Here there was no fullgraph=True that could be dropped.
    return BreakReport(**{**found, "remedy": found["remedy"].removesuffix(", or drop fullgraph=True")})


def _distinct(reports):
    return list(dict.fromkeys(reports))


def _is_about_code(guard):
    """Guards on values come first: they are what fails from call to call."""
    return not guard.startswith(("Tensor", "Constant", "Type", "Length", "Keys", "Items", "Same"))


def _break_text(report):
    where = f"graph break at {_short(report.file)}:{report.line}" if report.file else "graph break"
    lines = [where, report.place, f"  reason: {report.message} [{report.reason}]: {report.why}"]
    if report.inside:
        lines.append(f"  inside: {report.inside}")
    if report.remedy:
        lines.append(f"  try: {report.remedy}")
    return "\n".join(line for line in lines if line)


def _fallback_text(reason, times):
    _, why, remedy = _C._break_reasons()[reason]
    return f"ran eagerly {_plural(times, 'time')} [{reason}]: {why}" + (f"\n  try: {remedy}" if remedy else "")


def _indented(text, width=2):
    return "\n".join(" " * width + line for line in text.splitlines())


def _plural(number, noun):
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _short(path):
    return os.path.basename(path)
