"""`firesteel minify`: finds the compiled call of a program that fails, and the few operators that make it fail."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .._wording import plural, short_path
from . import explain, programs

# What a program that was started to look for failures is told by its environment.
_SETTINGS = {"FIRESTEEL_CHECK": "1", "FIRESTEEL_WAIT": "1"}
_MOST_SECONDS = 120  # that a smaller program may take


def run(arguments):
    """firesteel minify"""
    parser = argparse.ArgumentParser(
        prog="firesteel minify",
        usage="firesteel minify [-o FILE] script.py [args…] | -m module [args…] | script.py:function --args '…'",
        description="Finds a compiled call whose results differ from eager's, or that fails where eager does not; then "
        "which tier of the compiler is to blame (capture, the ATen graph, native code), then which operators, or for "
        "capture and the ATen graph which pass and which statements; and writes these few as a program of its own that "
        "shows the failure: `python repro.py`.",
        epilog="THE PROGRAM IS RUN, with all that it does besides computing: once with every compiled call compared "
        "with eager (as FIRESTEEL_CHECK=1 does), and where it raises an error up to four times more, each with less "
        "of the compiler. Where capture or the ATen graph is to blame, ever smaller versions of the script are run "
        "too.\n\n"
        "examples:\n  firesteel minify train.py --epochs 1\n"
        "  firesteel minify -o small.py model.py:forward --args 'torch.randn(8, 16)'\n\n"
        "ends with: 0 where a repro was written; 1 where nothing fails; 2 for a mistake on this line; 3 where the\n"
        "failure was found and its tier named, but it is not of a kind that a repro can hold.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", default="repro.py", metavar="FILE", help="where to write it (repro.py)")
    options, program = programs.split(parser, arguments)
    if not Path(options.output).resolve().parent.is_dir():
        parser.error(f"there is no folder for {options.output}")
    text = ""
    if program and explain.is_target(program[0]):
        if program[1:2] == ["--args"]:
            text, program = " ".join(program[2:3]), [program[0], *program[3:]]
        if len(program) > 1:
            parser.error(f"{program[1]}: a function takes its arguments by --args '…'")
    else:
        program = programs.checked_program(parser, program)
    with tempfile.TemporaryDirectory(prefix="firesteel-minify-") as folder:
        return Search(options.output, program, text, folder).run()


class Search:
    """One search: what it does is told as it goes."""

    def __init__(self, output, program, text, folder):
        self.output, self.program, self.text, self.folder = output, program, text, Path(folder)
        self.name = short_path(program[1] if program[0] == "-m" else program[0])

    def run(self):
        found = self._look("native")
        if found["kind"] is None:
            return self._nothing(found["text"])
        if found["piece"]:
            self._tell(f"found: {_place(found['piece'])}: {_first_line(found['text'])}")
            return self._reduce([found["piece"]], found)
        self._tell(f"found: {found['kind']}: {_first_line(found['text'])}")
        return self._find_tier(found)

    def _tell(self, text):
        print(f"firesteel minify: {text}", flush=True)

    def _look(self, tier, keeps_all=False):
        """Runs the program on a tier; gives what look.py has written."""
        from .._minify.look import TIERS

        self._tell(f"running {self.name} on {TIERS[tier]}" + (", every compiled call compared with eager"
                                                              if tier != "off" else ""))  # fmt: skip
        path = self.folder / f"{tier}.pt"
        arguments = [path, tier, int(keeps_all), self.text, *self.program]
        done = subprocess.run([sys.executable, "-m", "firesteel._minify.look", *map(str, arguments)],
                              env={**os.environ, **_SETTINGS})  # fmt: skip
        if not path.exists():
            return {"kind": "crash", "text": f"the process ended with {done.returncode}", "piece": None, "pieces": []}
        import torch

        return torch.load(path)

    def _nothing(self, how):
        self._tell("every compiled call agrees with eager" + (f"; {how}" if how else "") + ": nothing to minify")
        return 1

    def _find_tier(self, found):
        """For an error that no comparison met: which tier is the first to raise it."""
        for tier in ("off", "eager", "aot_eager"):
            lower = self._look(tier, keeps_all=tier == "aot_eager")
            if lower["kind"] is None:
                continue
            if tier == "off":
                self._tell("the program fails in eager too: it is its own failure")
                return 1
            return self._named_only(tier, lower)
        return self._reduce(lower["pieces"], found)

    def _named_only(self, tier, found):
        what = {"eager": "capture", "aot_eager": "the ATen graph"}[tier]
        at = f" in {_place(found['piece'])}" if found["piece"] else ""
        self._tell(f"tier: {what}{at} ({found['kind']}: {_first_line(found['text'])})")
        return self._reduce_program(tier, found)

    def _reduce_program(self, tier, found):
        """Native code is not to blame, and a graph of ATen operators would not show it: the program is cut itself."""
        from .._minify.statements import ProgramReducer
        from .._minify.trials import Trials

        is_function = explain.is_target(self.program[0])
        path = self.program[0].rpartition(":")[0] if is_function else self.program[0]
        if path == "-m":
            return self._give_up("a module's program is not cut")
        with Trials(self.folder, path, self.program, self.text if is_function else None, _SETTINGS,
                    _MOST_SECONDS) as trials:  # fmt: skip
            counts = []
            reducer = ProgramReducer(
                Path(path).read_text(encoding="utf-8"),
                lambda source: trials(source, tier) == found["kind"] and trials(source, "off") is None,
                counts.append,
            )
            statements = reducer.count
            if not reducer.start():
                return self._give_up("it does not fail when it runs from another folder, or not each time")
            guilty = self._find_pass(trials, reducer.source, found) if tier == "aot_eager" else ""
            source = reducer.reduce()
        self._tell_steps("statements", statements, counts, reducer.tries)
        return self._write_program(source, tier, found, path, guilty)

    def _find_pass(self, trials, source, found):
        """The first pass over the ATen graph that it takes to fail; empty where it fails without any."""
        from .. import _C

        passes = _C._passes()
        fails = (count for count in range(len(passes) + 1)
                 if trials(source, "aot_eager", passes[:count]) == found["kind"])  # fmt: skip
        count = next(fails, None)
        if count is not None:
            self._tell(f"pass: {passes[count - 1]}" if count else "pass: none, the graph fails as it was recorded")
        return passes[count - 1] if count else ""

    def _tell_steps(self, what, count, counts, tries):
        steps = " → ".join(map(str, [count, *counts])) if counts else f"{count}, none of which can be taken away"
        self._tell(f"{what}: {steps} ({plural(tries, 'try').replace('trys', 'tries')})")

    def _give_up(self, why):
        run = f"firesteel report {self.name}"
        if explain.is_target(self.program[0]):
            run = f"firesteel explain {self.name} --args '{self.text}' --report out.html"
        self._tell(f"no repro was written: {why}; try: {run}, and report it with that file")
        return 3

    def _write_program(self, source, tier, found, path, guilty):
        from .._minify import script_repro

        output = os.path.abspath(self.output)
        function = self.program[0].rpartition(":")[2] if explain.is_target(self.program[0]) else ""
        what = f"{found['kind']}: {_first_line(found['text'])}" + (f" (pass {guilty})" if guilty else "")
        script_repro.write(output, source, what, os.path.basename(path), tier, _SETTINGS, function, self.text)
        done = subprocess.run([sys.executable, output], capture_output=True, text=True)
        if done.returncode == 0:
            self._tell(f"{short_path(output)} was written, but does not fail by itself")
            return 3
        self._tell(f"wrote {short_path(output)}; try: python {short_path(output)}")
        return 0

    def _reduce(self, pieces, found):
        from .._minify.cut import Case
        from .._minify.judge import Judge
        from .._minify.reduce import Reducer

        with Judge() as judge:
            for piece in pieces:
                for part, (text, inputs) in enumerate(piece["parts"]):
                    counts = []
                    reducer = Reducer(Case(text, inputs), judge, counts.append)
                    failure = reducer.start()
                    if failure:
                        self._tell(f"tier: native code, {('forward', 'backward')[part]} of {_place(piece)}: "
                                   f"{failure[0]}, {failure[1]}")  # fmt: skip
                        case = reducer.reduce()
                        self._tell_steps("operators", len(Case(text, inputs).graph.nodes), counts, reducer.tries)
                        return self._write(case, judge, reducer.kind, piece, part)
        # Native code computes what ATen does of the same graph: is it the graph?
        lower = self._look("aot_eager") if found["piece"] else {"kind": None}
        if lower["kind"]:
            return self._named_only("aot_eager", lower)
        advice = "the default backend, where the program gives one of its own"
        self._tell(f"no graph fails in native code by itself; try: {advice}")
        return 3

    def _write(self, case, judge, kind, piece, part):
        from .._minify import repro

        inputs = repro.simplest_inputs(case, judge, kind)
        nodes = case.graph.nodes
        ops = ", ".join(dict.fromkeys(node.op for node in nodes))
        how = "gives another result than ATen" if kind == "differs" else f"fails ({kind}) where ATen does not"
        origin = f"Found in the {('forward', 'backward')[part]} of {_place(piece)}."
        paths = repro.write(os.path.abspath(self.output), case, inputs, f"Native code for {ops} {how}.", origin)
        for node in nodes:
            at = f"  ({os.path.basename(node.source.file)}:{node.source.line})" if node.source else ""
            print(f"    {node!r}{at}")
        done = subprocess.run([sys.executable, paths[0]], capture_output=True, text=True)
        if done.returncode == 0:
            self._tell(f"{short_path(paths[0])} was written, but does not fail by itself")
            return 3
        self._tell(f"wrote {' and '.join(map(short_path, paths))}: {plural(len(nodes), 'operator')}, "
                   f"{plural(len(inputs), 'input')}; try: python {short_path(paths[0])}")  # fmt: skip
        return 0


def _place(piece):
    return f"graph {piece['number']} of `{piece['function']}` ({short_path(piece['file'])}:{piece['line']})"


def _first_line(text):
    return text.splitlines()[0] if text else "no message"
