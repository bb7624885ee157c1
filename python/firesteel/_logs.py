"""logs(): one line an event, the user's file and line first, carried by Python's logging."""

import logging
import os
import sys

from . import _C, _events
from ._cures import break_cure, cure
from ._wording import milliseconds, plural, remedy_without_fullgraph, short_path, shown_name, shown_place

# What may be asked for, and what it tells.
KINDS = {
    "breaks": "where a graph ended before the function did, why, and what to do; and what runs eagerly",
    "recompiles": "what was captured again, and the guard that made it necessary",
    "guards": "every guard of every graph",
    "graphs": "what was captured: operations, inputs, outputs",
    "kernels": "what runs in compiled kernels, and where their code came from",
    "timings": "how long captures took, stage by stage",
}
VARIABLE = "FIRESTEEL_LOGS"

_on = ()
_told = set()  # breaks and eager runs: each place once
_names = {}  # of pieces, by number


class Logs:
    """What logs() gives: the logs before it come back at the end of a `with` block."""

    def __init__(self, names, before):
        self.names = names
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _switch(self._before)

    def __repr__(self):
        return f"<firesteel logs: {', '.join(self.names) or 'none'}>"


def logs(*names):
    """Switches logs on: `logs("breaks", "recompiles")`, `logs("all")`; `logs()` switches all off.

    The names are those of FIRESTEEL_LOGS: breaks, recompiles, guards, graphs, kernels, timings. Each is a logger of
    Python's logging, "firesteel.breaks" and so on, at level INFO; where the program has set up no logging, lines go to
    stderr. As a context manager it holds for the block alone.
    """
    before = _on
    chosen = _checked([part for name in names for part in _parts(name)], "logs()")
    _switch(chosen)
    return Logs(chosen, before)


def from_environment():
    """What FIRESTEEL_LOGS asks for, when the package is loaded."""
    asked = os.environ.get(VARIABLE, "")
    if asked.strip():
        _switch(_checked(_parts(asked), VARIABLE))


def _parts(name):
    if not isinstance(name, str):
        raise TypeError(f"logs() takes names, not {name!r}; those there are: {', '.join(KINDS)}, all")
    return [part.strip() for part in name.split(",") if part.strip()]


def _checked(names, who):
    unknown = [name for name in names if name not in KINDS and name != "all"]
    if unknown:
        raise ValueError(f"{who} knows no log {unknown[0]!r}; those there are: {', '.join(KINDS)}, all")
    return tuple(KINDS) if "all" in names else tuple(kind for kind in KINDS if kind in names)


def _switch(names):
    global _on
    _on = tuple(names)
    for kind in KINDS:
        logging.getLogger(f"firesteel.{kind}").setLevel(logging.INFO if kind in _on else logging.NOTSET)
    parent = logging.getLogger("firesteel")
    if _on:
        _told.clear()
        if _plain not in parent.handlers:
            parent.addHandler(_plain)
        _events.add(_listen)
    else:
        _names.clear()
        parent.removeHandler(_plain)
        _events.remove(_listen)


class _PlainHandler(logging.Handler):
    """Writes to stderr where the program has said nothing about logging."""

    def emit(self, record):
        if not logging.getLogger().handlers:
            print(self.format(record), file=sys.stderr, flush=True)


_plain = _PlainHandler()


def _listen(kind, facts):
    for name, line in lines(kind, facts):
        if name in _on:
            logging.getLogger(f"firesteel.{name}").info("%s", line)


def lines(kind, facts):
    """The lines of one event, each with the log it belongs to."""
    return _WRITERS[kind](facts)


def _at(facts):
    return f"{short_path(facts['file'])}:{facts['line']}"


def _once(*place):
    fresh = place not in _told
    _told.add(place)
    return fresh


def _capture_lines(facts):
    file, line = shown_place(facts)
    facts = {**facts, "function": shown_name(facts), "file": file, "line": line}
    _names[facts["number"]] = facts["function"]
    if facts["break"]:
        yield from _break_lines(facts, facts["break"])
    if not facts["runs"]:
        return
    what = f"graph {facts['number']} of `{facts['function']}`"
    yield "graphs", f"{_at(facts)}: {what}: {_graph_text(facts)}"
    if "guards" in _on:
        for guard in facts["guards"]:
            yield "guards", f"{_at(facts)}: guard of {what}: {guard}"
    if "kernels" in _on:
        yield from _kernel_lines(facts, what)
    stages = ", ".join(f"{name} {milliseconds(seconds)}" for name, seconds in facts["stages"].items() if seconds)
    yield "timings", f"{_at(facts)}: {what} took {milliseconds(facts['seconds'])}" + (f": {stages}" if stages else "")


def _break_lines(facts, found):
    place = found if found["file"] else facts
    if not _once(found["reason"], place["file"], place["line"]):
        return
    if facts["eager"]:
        _once(found["reason"], facts["function"])  # its eager runs are no news
    ends = "runs eagerly" if facts["eager"] else "graph break"
    advice = break_cure(found["reason"], found["message"], found["remedy"])
    text = f"{_at(place)}: {ends} in `{facts['function']}` [{found['reason']}]: {found['message']}"
    yield "breaks", text + (f"; try: {advice}" if advice else "")


def _graph_text(facts):
    graph = _C.parse_graph(facts["graph"])
    ops = [node.op.rsplit(".", 1)[-1] for node in graph.nodes]
    shown = ", ".join(ops[:6]) + (", …" if len(ops) > 6 else "")
    sides = f"{plural(len(graph.inputs), 'input')}, {plural(len(graph.outputs), 'output')}"
    return f"{plural(len(ops), 'operation')} ({shown}), {sides}, {plural(len(facts['guards']), 'guard')}"


def _kernel_lines(facts, what):
    for part in facts["parts"]:
        if not part["kernels"]:
            continue
        nodes = _C.parse_graph(part["text"]).nodes
        for number, kernel in enumerate(part["kernels"], 1):
            ops = ", ".join(nodes[i].op.removeprefix("aten.") for i in kernel["nodes"])
            where = next((part["lines"][i] for i in kernel["nodes"] if part["lines"][i]), None)
            at = f"{short_path(where[0])}:{where[1]}" if where else _at(facts)
            loops = kernel["text"].split("(", 1)[0].strip()
            yield "kernels", f"{at}: kernel {number} of {what}, {part['phase']}: {ops} as {loops}, {made_text(kernel)}"


def made_text(kernel):
    """Where a kernel's code came from."""
    if kernel["made"] is None:
        return "being compiled"
    if not kernel["made"]:
        return "could not be compiled: ATen runs it"
    return f"{'taken from disk' if kernel['from_disk'] else 'compiled'} in {milliseconds(kernel['seconds'])}"


def _recompile_lines(facts):
    what = "is compiled no more and runs eagerly" if facts["is_last"] else "is captured again"
    advice = cure(facts["guard"])
    name = _names.get(facts["before"], facts["function"])
    text = f"{_at(facts)}: `{name}` {what}: {facts['guard']}"
    yield "recompiles", text + (f"; try: {advice}" if advice else "")


def _fallback_lines(facts):
    if _once(facts["reason"], facts["function"]):
        _, why, advice = _C._break_reasons()[facts["reason"]]
        text = f"{_at(facts)}: `{facts['function']}` runs eagerly [{facts['reason']}]: {why}"
        advice = remedy_without_fullgraph(advice)
        yield "breaks", text + (f"; try: {advice}" if advice else "")


def _error_lines(facts):
    yield (
        "breaks",
        f"{_at(facts)}: `{facts['function']}` ended with {facts['type']}: {facts['message'].splitlines()[0]}",
    )


_WRITERS = {"capture": _capture_lines, "recompile": _recompile_lines, "fallback": _fallback_lines,
            "error": _error_lines}  # fmt: skip
