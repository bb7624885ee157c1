"""Which architectures are captured whole, and what stops the others.

Every row runs in a process of its own, forked after the imports: one that crashes or hangs costs its own line only.
"""

import argparse
import collections
import multiprocessing
import pathlib
import re

import torch
import transformers
from compare import DifferenceError, run_both
from zoo import FEW, ROWS

import firesteel

BACKENDS = ("eager", "aot_eager", "firesteel")
MODES = ("eval", "train", "grad")  # the last is for models whose training branches on data in eager code itself
NAMED = 6  # rows a line of the summary names
NOT_YET_HEAD = '''"""Rows not captured whole yet, each with the id of the reason.

Written by `python tests/models/survey.py --write`.
A key is the name of a row, `name:mode` or `name:mode:backend` where only these stop, or stop for another reason.
"""

NOT_YET = {
'''
Outcome = collections.namedtuple("Outcome", "row mode status message place")


def attempt(row, mode, backend):
    firesteel.reset_counters()
    try:
        run_both(row, backend, mode)
    except firesteel.GraphBreakError as error:
        return Outcome(row.name, mode, reason_of(error), *told(error))
    except DifferenceError as error:
        return Outcome(row.name, mode, "DIFFERENT", str(error).splitlines()[0], "")
    except Exception as error:
        return Outcome(row.name, mode, type(error).__name__, str(error).strip().partition("\n")[0], "")
    captured = firesteel.counters()["captured"]
    return Outcome(row.name, mode, "captured" if captured == 1 else f"captured {captured} frames", "", "")


def reason_of(error):
    """The id at the end of the reason's line: `[FS-WRITE]`."""
    found = re.search(r"\[(FS-[A-Z-]+)\]", str(error))
    return found[1] if found else "no reason id"


def told(error):
    """What the message says happened, and the user's line it shows."""
    lines = [line.strip() for line in str(error).splitlines()]
    message = next((line.removeprefix("reason: ") for line in lines if line.startswith("reason: ")), lines[0])
    place = next((line for line in lines if re.match(r"\S+\.py:\d+ ", line)), "")
    place = re.sub(r"^.*/site-packages/", "", place)
    return re.sub(r" \[FS-[A-Z-]+\].*", "", message), place


def in_own_process(row, mode, backend, seconds):
    row.model_class()  # imported here, once, and not by every child again
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: sender.send(attempt(row, mode, backend)))
    process.start()
    sender.close()
    try:
        if receiver.poll(seconds):
            outcome = receiver.recv()
        else:
            process.kill()
            outcome = Outcome(row.name, mode, "TIMEOUT", f"no end after {seconds} s", "")
    except EOFError:
        process.join()
        outcome = Outcome(row.name, mode, "CRASH", f"exit status {process.exitcode}", "")
    process.join()
    return outcome


def print_summary(outcomes):
    print(f"\n{sum(outcome.status == 'captured' for outcome in outcomes)} of {len(outcomes)} captured whole")
    by_status = collections.defaultdict(list)
    for outcome in outcomes:
        by_status[outcome.status].append(outcome)
    for status, group in sorted(by_status.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(group):4}  {status}")
        if status == "captured":
            continue
        by_place = collections.defaultdict(list)
        for outcome in group:
            by_place[outcome.place or outcome.message].append(outcome)
        for place, here in sorted(by_place.items(), key=lambda item: -len(item[1])):
            names = list(dict.fromkeys(outcome.row for outcome in here))
            print(f"      {len(here):4}  {place}\n            {here[0].message}")
            print(f"            {', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''}")


def write_not_yet(outcomes):
    """Lists what is not captured, by row, mode and backend; shorter where modes or backends agree."""
    reasons = collections.defaultdict(dict)
    for backend, outcome in outcomes:
        if not outcome.status.startswith("captured"):
            reasons[outcome.row][outcome.mode, backend] = outcome.status
    lines = [NOT_YET_HEAD]
    for name, found in reasons.items():
        every = len(MODES) * len(BACKENDS)
        if len(found) == every and len(set(found.values())) == 1:
            lines.append(f'    "{name}": "{found[MODES[0], BACKENDS[0]]}",\n')
            continue
        for mode in MODES:
            here = {backend: status for (of, backend), status in found.items() if of == mode}
            if len(here) == len(BACKENDS) and len(set(here.values())) == 1:
                lines.append(f'    "{name}:{mode}": "{here[BACKENDS[0]]}",\n')
            else:
                lines += [f'    "{name}:{mode}:{backend}": "{status}",\n' for backend, status in here.items()]
    page = pathlib.Path(__file__).with_name("not_yet.py")
    page.write_text("".join([*lines, "}\n"]))
    print(f"\nwrote {page.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="names of rows; all of them by default")
    parser.add_argument("--few", action="store_true", help="only the rows that stand for the rest")
    parser.add_argument("--backend", default="firesteel", help="the backend of firesteel.compile (firesteel)")
    parser.add_argument(
        "--mode", choices=MODES, help="only this mode: eval without gradients, train and grad with them"
    )
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds a row may take (60)")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--write", action="store_true", help="write what is not captured into not_yet.py")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if options.write and (options.rows or options.few or options.mode):
        parser.error("--write needs every row in all modes")
    names = options.rows or (FEW if options.few else ROWS)
    if options.list:
        print("\n".join(f"{name:25} {ROWS[name].kind}" for name in names))
        return
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    outcomes = []
    for backend in BACKENDS if options.write else [options.backend]:
        for name in names:
            for mode in [options.mode] if options.mode else MODES:
                outcome = in_own_process(ROWS[name], mode, backend, options.timeout)
                outcomes.append((backend, outcome))
                print(f"{name:24} {mode:6} {outcome.status:18} {outcome.message}", flush=True)
                if outcome.place:
                    print(f"{'':32}{outcome.place}", flush=True)
    print_summary([outcome for _, outcome in outcomes])
    if options.write:
        write_not_yet(outcomes)


if __name__ == "__main__":
    main()
