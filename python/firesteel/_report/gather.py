"""Collects what a report tells: from compiled functions that are alive, and from what was recorded of others."""

import collections
import os
import platform
import re
import sys
import time

import torch

from .. import _C, _events
from .._cures import break_cure, cure
from .._version import __version__
from .._wording import remedy_without_fullgraph, shown_name
from . import costs, graphs, sources

# Breaks that the program itself asks for.
ASKED_FOR = ("FS-DISABLED", "FS-GRAPH-BREAK", "FS-SKIP-FRAME", "FS-CONTROL", "FS-DISALLOWED")


class Recorder:
    """Keeps every event, so that a report can tell of functions that are gone."""

    def __init__(self):
        self.captures = {}  # by number
        self.recompiles = []
        self.fallbacks = collections.Counter()  # by (function, file, line, reason)
        self.errors = []

    def start(self):
        _events.add(self._listen)

    def stop(self):
        _events.remove(self._listen)

    def is_empty(self):
        return not (self.captures or self.recompiles or self.fallbacks or self.errors)

    def _listen(self, kind, facts):
        if kind == "capture":
            self.captures[facts["number"]] = facts
        elif kind == "recompile":
            self.recompiles.append(facts)
        elif kind == "error":
            self.errors.append(facts)
        else:
            self.fallbacks[facts["function"], facts["file"], facts["line"], facts["reason"]] += 1


def facts(recorder=None):
    """All that a report shows, as plain data."""
    captures = dict(recorder.captures) if recorder else {}
    recompiles = list(recorder.recompiles) if recorder else []
    for entries, notes in _C._regions():
        captures.update((entry["number"], entry) for entry in entries)  # what is alive knows more by now
        recompiles.extend(note for note in notes if note not in recompiles)
    entries = [captures[number] for number in sorted(captures)]
    tables = graphs.Tables()
    found = {
        "about": _about(),
        "pieces": [graphs.piece(entry, tables) for entry in entries],
        "breaks": _breaks(entries, tables),
        "recompiles": [_recompile(note, captures, tables) for note in recompiles],
        "eager": _eager(entries, recorder, tables),
        "errors": [_error(it, tables) for it in recorder.errors] if recorder else [],
        "costs": costs.rows(entries, tables),
        "before": costs.before(entries),
        "counters": {**_C.counters(), "native": _C.native_counters()},
    }
    found["files"] = sources.files(tables.paths, found)
    found["modules"] = tables.modules
    found["ops"] = tables.ops
    found["types"] = tables.types
    found["kernels"] = tables.kernels
    return found


def _about():
    return {
        "firesteel": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "command": " ".join(map(str, sys.orig_argv[:40])),
        "folder": os.getcwd(),
        "written": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _breaks(entries, tables):
    """One a place: with the functions whose captures it ended."""
    found = {}
    for entry in entries:
        broken = entry["break"]
        if not broken:
            continue
        place = (broken["file"], broken["line"]) if broken["file"] else (entry["file"], entry["line"])
        row = found.setdefault((broken["reason"], broken["message"], *place), {
            "reason": broken["reason"],
            "message": broken["message"],
            "why": broken["why"],
            "remedy": break_cure(broken["reason"], broken["message"], broken["remedy"]),
            "place": broken["place"],
            "inside": broken["inside"],
            "file": tables.file(place[0]),
            "line": place[1],
            "asked": broken["reason"] in ASKED_FOR,
            "pieces": [],
            "eager": False,
        })  # fmt: skip
        row["pieces"].append(entry["number"])
        row["eager"] = row["eager"] or entry["eager"]
    return list(found.values())


def _recompile(note, captures, tables):
    entry = captures.get(note["before"])
    return {
        "function": shown_name(entry) if entry else note["function"],
        "file": tables.file(note["file"]),
        "line": note["line"],
        "before": note["before"],
        "guard": note["guard"],
        "remedy": cure(note["guard"]),
        "last": note["is_last"],
    }


def _eager(entries, recorder, tables):
    """Functions that ran eagerly as a whole for a reason that no capture tells of."""
    known = {(entry["function"], entry["reason"]) for entry in entries if entry["eager"]}
    rows = []
    for (function, file, line, reason), times in (recorder.fallbacks if recorder else {}).items():
        if (function, reason) in known:
            continue
        what, why, remedy = _C._break_reasons()[reason]
        rows.append({
            "function": function,
            "file": tables.file(file),
            "line": line,
            "reason": reason,
            "message": what.replace("{}", function),
            "why": why,
            "remedy": remedy_without_fullgraph(remedy),
            "times": times,
        })  # fmt: skip
    return rows


def _error(told, tables):
    """An error of Firesteel's that ended a call; its text names the line and what to do."""
    first, *rest = told["message"].splitlines()
    found = re.search(r"^  (\S.*):(\d+)  ", told["message"], re.MULTILINE)
    file, line = (found[1], int(found[2])) if found else (told["file"], told["line"])
    # An error names paths from the current folder on: the same file as others name it.
    same = (path for path in (told["file"], *tables.paths) if os.path.abspath(path) == os.path.abspath(file))
    file = next(same, os.path.abspath(file) if os.path.exists(file) else file)
    remedy = next((text.strip().removeprefix("try: ") for text in rest if text.strip().startswith("try: ")), "")
    return {
        "function": told["function"],
        "file": tables.file(file),
        "line": line,
        "type": told["type"],
        "message": first,
        "text": told["message"],
        "remedy": remedy,
    }
