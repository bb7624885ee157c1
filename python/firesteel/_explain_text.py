"""An Explanation in words: as plain text, in colour for a terminal, and as HTML for a notebook."""

import html as markup
import os

from . import _C
from ._wording import milliseconds, plural, remedy_without_fullgraph, short_bytes, short_time

_SHOWN_GUARDS = 8  # of each graph
_SHOWN_COSTS = 12
_COLOURS = {"head": "bold", "graph": "green", "break": "red", "recompile": "yellow", "eager": "red", "cost": "cyan"}


def plain(explanation):
    return "\n\n".join(text for _, text in _sections(explanation))


def coloured(explanation):
    """What rich prints: the same text, its sections coloured by what they tell of."""
    from rich.text import Text

    whole = Text()
    for kind, text in _sections(explanation):
        head, _, rest = text.partition("\n")
        whole.append(head, _COLOURS[kind]).append("\n" + rest if rest else "").append("\n\n")
    whole.rstrip()
    return whole


def html(explanation):
    """A piece of HTML without scripts; graphs and guards are folded away."""
    rows = [_html_section(kind, text) for kind, text in _sections(explanation)]
    return f'<div style="font-family:monospace;line-height:1.35">{"".join(rows)}</div>'


_HTML_COLOURS = {
    "head": "inherit",
    "graph": "#1a7f37",
    "break": "#cf222e",
    "recompile": "#9a6700",
    "eager": "#cf222e",
    "cost": "#0969da",
}


def _html_section(kind, text):
    head, _, rest = text.partition("\n")
    title = f'<b style="color:{_HTML_COLOURS[kind]}">{markup.escape(head)}</b>'
    if not rest:
        return f"<div>{title}</div>"
    body = f'<pre style="margin:0 0 .8em 1em;white-space:pre-wrap">{markup.escape(rest)}</pre>'
    opened = "" if kind == "graph" else " open"
    return f'<details{opened}><summary style="cursor:pointer">{title}</summary>{body}</details>'


def _sections(explanation):
    """(kind, text) of each section; the first line of a text is its head."""
    yield "head", _headline(explanation)
    for number, graph in enumerate(explanation.graphs, 1):
        yield "graph", _graph_text(number, graph)
    if explanation.costs:
        yield "cost", _cost_text(explanation.costs)
    for report in explanation.breaks:
        yield "break", _break_text(report)
    if explanation.recompiles:
        yield "recompile", "\n".join(_recompile_text(report) for report in explanation.recompiles)
    for reason, times in explanation.fallbacks.items():
        yield "eager", _fallback_text(reason, times)


def _headline(explanation):
    spent = ", ".join(f"{what} {milliseconds(seconds)}" for what, seconds in explanation.timings.items())
    return f"{explanation.name}: {explanation.counts()}\n{spent}; your code ran {plural(explanation.calls, 'time')}"


def _graph_text(number, graph):
    head = f"graph {number}: `{graph.function}` from {_short(graph.file)}:{graph.line}, "
    head += f"{plural(graph.node_count, 'operation')}, captured in {milliseconds(graph.capture_seconds)}"
    guards = sorted(graph.guards, key=_is_about_code)[:_SHOWN_GUARDS]
    if len(graph.guards) > len(guards):
        guards.append(f"… and {len(graph.guards) - len(guards)} more, see .guards")
    text = _indented(graph.text.rstrip())
    if guards:
        text += f"\n  guards:\n{_indented(chr(10).join(guards), 4)}"
    if graph.kernels:
        text += f"\n  kernels:\n{_indented(chr(10).join(map(_kernel_text, graph.kernels)), 4)}"
    return f"{head}\n{text}"


def _kernel_text(kernel):
    ops = ", ".join(op.removeprefix("aten.") for op in kernel.ops)
    lines = ", ".join(f"{_short(file)}:{line}" for file, line in kernel.places)
    return f"{kernel.phase}: {ops}" + (f" ({lines})" if lines else "") + f", {kernel.state}"


def _cost_text(costs):
    whole = sum(cost.seconds for cost in costs)
    kernels = sum(cost.is_kernel for cost in costs)
    counts = f"{plural(kernels, 'kernel')} and {plural(len(costs) - kernels, 'operator')} of ATen"
    lines = [f"costs: {short_time(whole)} in {counts}"]
    for cost in costs[:_SHOWN_COSTS]:
        ops = ", ".join(op.removeprefix("aten.") for op in cost.ops)
        places = ", ".join(f"{_short(file)}:{line}" for file, line in cost.places)
        spent = (
            f"{cost.seconds / whole if whole else 0:6.1%}  {short_time(cost.seconds):>8} in {plural(cost.runs, 'run')}"
        )
        memory = f"reads {short_bytes(cost.bytes_read // cost.runs)}, makes {short_bytes(cost.bytes_made // cost.runs)}"
        what = f"{cost.phase} {'kernel ' if cost.is_kernel else ''}{ops}" + (f" ({places})" if places else "")
        lines.append(f"  {spent}, {memory} a run: {what}")
    if len(costs) > _SHOWN_COSTS:
        rest = sum(cost.seconds for cost in costs[_SHOWN_COSTS:])
        lines.append(f"  … and {len(costs) - _SHOWN_COSTS} more with {short_time(rest)}, see .costs")
    return "\n".join(lines)


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


def _recompile_text(report):
    ends = " (compiled too often: it runs eagerly from now on)" if report.is_last else ""
    advice = f"\n  try: {report.remedy}" if report.remedy else ""
    return f"captured again: `{report.function}`: {report.guard}{ends}{advice}"


def _fallback_text(reason, times):
    _, why, remedy = _C._break_reasons()[reason]
    remedy = remedy_without_fullgraph(remedy)
    return f"ran eagerly {plural(times, 'time')} [{reason}]: {why}" + (f"\n  try: {remedy}" if remedy else "")


def _indented(text, width=2):
    return "\n".join(" " * width + line for line in text.splitlines())


def _short(path):
    return os.path.basename(path)
