"""record_trace(): compilations and runs as a Chrome trace, for Perfetto, on the clock of torch.profiler's."""

import atexit
import gzip
import json
import os
import sys
import threading
import time

from . import _C, _events, _files

VARIABLE = "FIRESTEEL_TRACE"

# torch.profiler counts from the last of these (a quarter of a year) on: so do we, and numbers stay exact.
_QUARTER = 7889238 * 10**9  # nanoseconds
# Tracks have numbers of their own, above every thread's: where clocks differ by a hair nothing looks wrongly nested.
_RUNS, _CAPTURES, _KERNELS = 1 << 30, 5 << 28, 3 << 29

_active = []  # the recordings that are on
_lock = threading.Lock()
_at_exit = {}  # recording -> the process that shall write it


class Recording:
    """What record_trace() gives: records from now on; stop(), or the end of its `with` block, writes the file."""

    def __init__(self, path):
        self.path = path
        self._captures = {}  # by number: (facts, thread)
        self._notes = []  # (text, time, thread, facts)
        self._runs = []
        self._left_out = 0
        self._began = time.perf_counter()
        # From the steady clock to that of the wall.
        self._offset = time.time_ns() - time.perf_counter_ns()
        self._base = time.time_ns() // _QUARTER * _QUARTER
        with _lock:
            _active.append(self)
            _C._start_run_log()
        _events.add(self._listen)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    def __repr__(self):
        return f"<firesteel trace into {self.path}, {'on' if self in _active else 'written'}>"

    def stop(self):
        """Ends the recording and writes the file; gives its path. A second time it does nothing."""
        with _lock:
            if self not in _active:
                return self.path
            _hand_out_runs()
            _active.remove(self)
            if _active:
                _C._start_run_log()
        _events.remove(self._listen)
        write(self.path, self._trace())
        return self.path

    def _listen(self, kind, facts):
        thread = threading.get_native_id()
        if kind == "capture":
            self._captures[facts["number"]] = facts, thread
            if facts["break"]:
                self._note(f"graph break [{facts['break']['reason']}]", thread, {**facts, **facts["break"]})
        elif kind == "recompile":
            self._note("recompile", thread, facts)
        elif kind == "fallback":
            self._note(f"runs eagerly [{facts['reason']}]", thread, facts)
        else:
            self._note(facts["type"].rsplit(".", 1)[-1], thread, facts)

    def _note(self, text, thread, facts):
        kept = {key: facts[key] for key in ("function", "message", "guard", "remedy") if facts.get(key)}
        kept["file"], kept["line"] = facts["file"], facts["line"]
        self._notes.append((text, time.perf_counter(), thread, kept))

    # --- the events

    def _trace(self):
        for entries, _ in _C._regions():  # what is alive knows more of its kernels by now
            for entry in entries:
                if entry["number"] in self._captures:
                    self._captures[entry["number"]] = entry, self._captures[entry["number"]][1]
        runs = [run for run in self._runs if run[2] >= self._began]
        events = [*self._capture_events(), *self._kernel_events(), *self._note_events(), *self._run_events(runs)]
        events.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
        trace = {
            "traceEvents": [*_track_names(events), *events],
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": self._base,
        }
        if self._left_out:
            trace["firesteelRunsLeftOut"] = self._left_out
        return trace

    def _time(self, seconds):
        """Microseconds of the trace, of the steady clock's seconds."""
        # Whole nanoseconds: since 1970 they are too many for a float.
        return (int(seconds * 1e9) + self._offset - self._base) / 1e3

    def _slice(self, name, kind, track, began, seconds, **args):
        return {"ph": "X", "name": name, "cat": f"firesteel {kind}", "pid": os.getpid(), "tid": track,
                "ts": self._time(began), "dur": round(seconds * 1e6, 3), "args": args}  # fmt: skip

    def _capture_events(self):
        for facts, thread in self._captures.values():
            track = _CAPTURES + thread
            operations = len(_C.parse_graph(facts["graph"]).nodes) if facts["graph"] else 0
            name = f"capture {facts['function']} ({_place(facts['file'], facts['line'])})"
            yield self._slice(
                name, "capture", track, facts["began"], facts["seconds"], file=facts["file"], line=facts["line"],
                graph=facts["number"], ends=facts["kind"], operations=operations, guards=len(facts["guards"]),
                backend_seconds=facts["backend_seconds"],
            )  # fmt: skip
            at = facts["stages_began"]
            end = facts["began"] + facts["seconds"]
            for stage, seconds in facts["stages"].items():
                if at and seconds:
                    yield self._slice(stage, "stage", track, at, min(seconds, max(end - at, 0)), of=name)
                    at += seconds

    def _kernel_events(self):
        """Code is made for one kernel at a time; equal kernels share it."""
        seen = set()
        for facts, _ in self._captures.values():
            for part in facts["parts"]:
                nodes = None
                for kernel in part["kernels"]:
                    if not kernel["began"] or kernel["began"] < self._began or kernel["began"] in seen:
                        continue
                    seen.add(kernel["began"])
                    nodes = nodes or _C.parse_graph(part["text"]).nodes
                    ops = [nodes[i].op for i in kernel["nodes"]]
                    file, line = next((part["lines"][i] for i in reversed(kernel["nodes"]) if part["lines"][i]),
                                      (facts["file"], facts["line"]))  # fmt: skip
                    name = f"compile kernel {', '.join(op.split('.')[1] for op in ops)} ({_place(file, line)})"
                    yield self._slice(
                        name, "kernel", _KERNELS, kernel["began"], kernel["seconds"], file=file, line=line, ops=ops,
                        phase=part["phase"], from_disk=kernel["from_disk"], loops=kernel["text"],
                    )  # fmt: skip

    def _note_events(self):
        for text, at, thread, facts in self._notes:
            yield {"ph": "i", "s": "t", "name": f"{text} ({_place(facts['file'], facts['line'])})",
                   "cat": "firesteel note", "pid": os.getpid(), "tid": _CAPTURES + thread, "ts": self._time(at),
                   "args": facts}  # fmt: skip

    def _run_events(self, runs):
        for name, thread, began, seconds in runs:
            yield self._slice(name.removeprefix("firesteel "), "run", _RUNS + thread, began, seconds)


def record_trace(path):
    """Records compilations and runs of compiled code into a Chrome trace: `with record_trace("out.json"): …`.

    The file opens in Perfetto (ui.perfetto.dev) and chrome://tracing: one track of captures with their stages, breaks
    and recompiles, one of kernels being compiled, and one a thread of compiled pieces as they run, with their kernels
    and operators inside, each with the user's file and line. A path that ends in .gz is compressed; `%p` in it is the
    process's number. The clock is that of torch.profiler's traces: merge_traces() puts the two into one file.
    """
    return Recording(_files.path_of(path, "record_trace()"))


def record(path):
    """Records from now on, and writes the trace when the program ends."""
    if not _at_exit:
        atexit.register(_write_at_exit)
    _at_exit[record_trace(path)] = os.getpid()


def from_environment():
    """What FIRESTEEL_TRACE asks for, when the package is loaded."""
    path = os.environ.get(VARIABLE, "").strip()
    if path:
        record(path)


def _write_at_exit():
    for recording, process in _at_exit.items():
        if process != os.getpid():
            continue
        try:
            print(f"firesteel: the trace is in {recording.stop()}", file=sys.stderr)
        except Exception as error:  # the program itself went well
            print(f"firesteel: the trace could not be written to {recording.path}: {error}", file=sys.stderr)


def _hand_out_runs():
    runs, left_out = _C._stop_run_log()
    for recording in _active:
        recording._runs += runs
        recording._left_out += left_out


def _place(file, line):
    return f"{os.path.basename(file)}:{line}"


def _track_names(events):
    tracks = {event["tid"] for event in events}
    captures = [track for track in tracks if _CAPTURES <= track < _KERNELS]
    for order, track in enumerate(sorted(tracks, key=lambda track: (track < _CAPTURES, track))):
        if track >= _KERNELS:
            name = "firesteel: kernels being compiled"
        elif track >= _CAPTURES:
            name = "firesteel: captures" + (f", thread {track - _CAPTURES}" if len(captures) > 1 else "")
        else:
            name = f"firesteel: runs, thread {track - _RUNS}"
        for key, value in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": order})):
            yield {"ph": "M", "name": key, "pid": os.getpid(), "tid": track, "ts": 0, "args": value}


# --- files


def merge_traces(first, second, out):
    """One Chrome trace of two, of whatever they came: record_trace(), torch.profiler's export_chrome_trace().

    Their times are put on one clock by their `baseTimeNanoseconds`. Paths that end in .gz are compressed files. Gives
    the path of what was written.
    """
    out = _files.path_of(out, "merge_traces()")
    merged, other = read(first), read(second)
    bases = [trace.get("baseTimeNanoseconds") for trace in (merged, other)]
    shift = (bases[1] - bases[0]) / 1e3 if None not in bases else 0
    moved = [{**event, "ts": event["ts"] + shift} if shift and "ts" in event else event
             for event in other["traceEvents"]]  # fmt: skip
    write(out, {**other, **merged, "traceEvents": [*merged["traceEvents"], *moved]})
    return out


def read(path):
    """A trace as a dict with its "traceEvents"; a bare list of events is one too."""
    path = _files.path_of(path, "merge_traces()")
    with open(path, "rb") as file:
        data = file.read()
    try:
        trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except ValueError as error:
        raise ValueError(f"{path} is no Chrome trace: {error}") from None
    if isinstance(trace, list):
        trace = {"traceEvents": trace}
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise ValueError(f"{path} is no Chrome trace: it has no list of traceEvents")
    return trace


def write(path, trace):
    data = json.dumps(trace, separators=(",", ":")).encode("utf-8", errors="replace")
    _files.write_bytes(path, gzip.compress(data) if path.endswith(".gz") else data)
