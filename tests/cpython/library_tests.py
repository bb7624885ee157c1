"""CPython's own tests, plain and compiled: every test method once as it is, once through firesteel.compile.

`library_tests.py` runs all files; `library_tests.py test_dict -v` one, and tells what was captured of it. Doctests have
no method to compile: they run, and count as not compiled.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import functools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from differences import DIFFERENCES, UNSTEADY

HERE = Path(__file__).parent
QUICK = ["test_dict", "test_augassign", "test_scope", "test_with", "test_generators"]
DOCTESTS = ["test_unpack_ex", "test_setcomps", "test_genexps", "test_extcall"]
if sys.version_info < (3, 12):
    DOCTESTS.append("test_listcomps")
FILES = [
    "test_grammar", "test_dict", "test_list", "test_set", "test_tuple", "test_generators", "test_exceptions",
    "test_with", "test_class", "test_descr", "test_functools", "test_itertools", "test_unpack", "test_unpack_ex",
    "test_fstring", "test_patma", "test_scope", "test_super", "test_property", "test_dataclasses", "test_enum",
    "test_collections", "test_deque", "test_userdict", "test_userlist", "test_bool", "test_int", "test_float",
    "test_slice", "test_range", "test_iter", "test_enumerate", "test_listcomps", "test_setcomps", "test_dictcomps",
    "test_genexps", "test_keywordonlyarg", "test_positional_only_arg", "test_decorators", "test_augassign",
    "test_compare", "test_contains", "test_raise", "test_contextlib", "test_operator", "test_math", "test_string",
    "test_builtin", "test_named_expressions", "test_exception_group", "test_except_star",
    "test_exception_variations", "test_format", "test_heapq", "test_bisect", "test_copy", "test_abc", "test_types",
    "test_weakref", "test_coroutines", "test_extcall", "test_call", "test_opcodes", "test_dynamic", "test_global",
    "test_funcattrs", "test_index", "test_complex", "test_frame", "test_traceback", "test_sys_settrace",
    "test_inspect", "test_code", "test_gc",
]  # fmt: skip
RESTARTS = 5  # a file in which more tests than this crash or hang is given up
ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclasses.dataclass
class Run:
    """What became of one file's tests: their outcomes by name, and the counters of each."""

    outcomes: dict = dataclasses.field(default_factory=dict)
    counters: dict = dataclasses.field(default_factory=dict)
    trouble: str = ""  # why the file as a whole could not be run


def limit_work(seconds):
    """Called in a new process. Work is limited rather than time: what else a machine does is not the test's fault."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def run_file(file, *, compiled, runs=2, seconds=300):
    """Runs a file in a process of its own; what is left after a crash or a hang runs in a new one."""
    run, only = Run(), None
    for _ in range(RESTARTS):
        with tempfile.TemporaryDirectory() as folder:
            lines, names = Path(folder, "lines"), Path(folder, "names")
            command = [sys.executable, "-X", "faulthandler", HERE / "one_file.py", file, lines, f"--runs={runs}"]
            command += ["--compiled"] * compiled
            if only is not None:
                names.write_text("\n".join(only))
                command.append(f"--only={names}")
            environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
            try:
                ended = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    timeout=4 * seconds,
                    env=environment,
                    cwd=folder,
                    preexec_fn=functools.partial(limit_work, seconds),
                )
                too_long = ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
                how, said = ("hang", "") if too_long else (f"exit status {ended.returncode}", ended.stderr)
            except subprocess.TimeoutExpired:
                how, said = "hang", ""
            events = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        kinds = collections.defaultdict(list)
        for event in events:
            kinds[event["event"]].append(event)
        for event in kinds["end"]:
            run.outcomes[event["test"]] = [ADDRESS.sub("0x…", text) for text in event["outcome"]]
            run.counters[event["test"]] = event["counters"]
        if kinds["done"]:
            return run
        unfinished = [event["test"] for event in kinds["start"] if event["test"] not in run.outcomes]
        if not unfinished:
            run.trouble = f"{how}\n{said[-2000:]}"
            return run
        run.outcomes[unfinished[0]] = [f"{how}\n{said[:2000]}"]
        started = {event["test"].rpartition(" #")[0] for event in kinds["start"]}
        only = [name for name in kinds["cases"][0]["tests"] if name not in started]
    run.trouble = f"{how}, again and again"
    return run


def differences(plain, compiled):
    """Tests whose outcomes differ: {name: (plain, compiled)}."""
    found = {}
    for name in plain.outcomes.keys() | compiled.outcomes.keys():
        pair = plain.outcomes.get(name), compiled.outcomes.get(name)
        if pair[0] != pair[1] and name.rpartition(" #")[0] not in UNSTEADY:
            found[name] = pair
    if plain.trouble or compiled.trouble:
        found["the file"] = (plain.trouble, compiled.trouble)
    return found


def unexplained(found):
    return {name: pair for name, pair in found.items() if name.rpartition(" #")[0] not in DIFFERENCES}


def add_counters(total, more):
    for key, value in more.items():
        if isinstance(value, dict):
            add_counters(total.setdefault(key, {}), value)
        elif isinstance(value, (int, float)):
            total[key] = total.get(key, 0) + value
    return total


KINDS = {
    "whole": "one compiled piece from the first instruction to the return",
    "in pieces": "compiled pieces, with instructions in between that run eagerly",
    "interpreted": "only instructions that run eagerly, and what lies between them is too little to compile",
    "in part": "some of it in one of these ways, the rest left to CPython",
    "left to CPython": "nothing was captured",
}


def kind_of(counters):
    """How a compiled test ran, once it was compiled; None where it called no compiled code."""
    hits, breaks = counters.get("hits", 0), sum(counters.get("breaks", {}).values())
    if sum(counters.get("fallbacks", {}).values()):
        return "in part" if hits or breaks else "left to CPython"
    if hits:
        return "in pieces" if breaks else "whole"
    return "interpreted" if breaks else None


def share_captured(run):
    """How many tests ran in which way the last time they ran: that is when the guards of the first run are met."""
    last = {}
    for name, counters in run.counters.items():
        test, _, number = name.rpartition(" #")
        if int(number or 0) >= last.get(test, (0, None))[0]:
            last[test] = int(number or 0), counters
    return collections.Counter(filter(None, (kind_of(counters) for _, counters in last.values())))


PAGE = """# CPython's own tests, compiled

Every test method of these files of the standard library's test suite, compiled with `backend="eager"` and run twice,
ends as it does without Firesteel. Written by `python tests/cpython/library_tests.py --page docs/python-tests.md`; the
differences with their reasons are those of `tests/cpython/differences.py`.

Columns: test methods that ran compiled, and how they ran the second time, when the guards of the first run are met.

{kinds}

| file | tests | {heads} | differ |
| --- | ---: | {rules} | ---: |
{rows}

## What differs, and why
{differences}
"""


def page(results):
    """The figures of all files as a page of the documentation."""
    rows, total = [], collections.Counter()
    for file, share, _, found in sorted(results):
        if not share:
            continue
        counts = [share[kind] for kind in KINDS]
        differ = len({name.rpartition(" #")[0] for name in found})
        total.update(share)
        rows.append(f"| `{file}` | {sum(counts)} | {' | '.join(map(str, counts))} | {differ or ''} |")
    counts, all_tests = [total[kind] for kind in KINDS], sum(total.values())
    shares = " | ".join(f"**{count} ({count / all_tests:.0%})**" for count in counts)
    rows.append(f"| **{len(rows)} files** | **{all_tests}** | {shares} | |")
    doctests = [f"`{file}`" for file, share, *_ in sorted(results) if not share]
    if doctests:
        rows.append(f"\nWithout a test method that could be compiled (doctests, coroutines): {', '.join(doctests)}.")
    return PAGE.format(
        kinds="\n".join(f"- *{kind}*: {what}" for kind, what in KINDS.items()),
        heads=" | ".join(KINDS),
        rules=" | ".join("---:" for _ in KINDS),
        rows="\n".join(rows),
        differences="\n".join(f"- `{name}`: {why}" for name, why in sorted({**DIFFERENCES, **UNSTEADY}.items())),
    )


def table(counters):
    flat = [(key, value) for key, value in counters.items() if not isinstance(value, dict)]
    nested = [(f"{key} {name}", count) for key, value in counters.items() if isinstance(value, dict)
              for name, count in sorted(value.items(), key=lambda row: -row[1])]  # fmt: skip
    return "\n".join(f"  {name:40} {count:>8}" for name, count in flat + nested)


def compare(file, runs, seconds):
    return file, *(run_file(file, compiled=compiled, runs=runs, seconds=seconds) for compiled in (False, True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=FILES, metavar="test_file")
    parser.add_argument("--runs", type=int, default=2, help="how often each test runs (2: the second meets the guards)")
    parser.add_argument("--seconds", type=int, default=300, help="of work for one file (300)")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time (1)")
    parser.add_argument("--page", type=Path, help="where to write the page of the documentation")
    parser.add_argument("-v", "--verbose", action="store_true", help="what was captured, file by file")
    arguments = parser.parse_args()

    total, share, tests, open_ends, results = {}, collections.Counter(), 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(compare, file, arguments.runs, arguments.seconds) for file in arguments.files]
        for job in concurrent.futures.as_completed(jobs):
            file, plain, compiled = job.result()
            found = differences(plain, compiled)
            new = unexplained(found)
            counted = {}
            for counters in compiled.counters.values():
                add_counters(counted, counters)
            add_counters(total, counted)
            share.update(share_captured(compiled))
            results.append((file, share_captured(compiled), len(compiled.outcomes), found))
            tests += len(compiled.outcomes)
            open_ends += len(new)
            explained = f", {len(found) - len(new)} explained" if len(found) > len(new) else ""
            trouble = f"  ({compiled.trouble.splitlines()[0]})" if compiled.trouble else ""
            called = sum(share_captured(compiled).values())
            tests_here = len(compiled.outcomes)
            summary = f"{tests_here:5} tests, {called:5} compiled, {len(new)} differ{explained}{trouble}"
            print(f"{file:28} {summary}", flush=True)
            for name, (before, after) in sorted(new.items()):
                print(f"    {name}\n        plain:    {before}\n        compiled: {after}", flush=True)
            if arguments.verbose:
                print(table(counted), flush=True)
    print(f"\n{tests} runs of tests, {open_ends} differ")
    if arguments.page:
        arguments.page.write_text(page(results))
    called = sum(share.values())
    for kind, count in share.items():
        print(f"  {kind:40} {count:>8}  {count / called:.1%}")
    print(table(total))
    return 1 if open_ends else 0


if __name__ == "__main__":
    sys.exit(main())
