"""Runs a program in a process of its own and writes down how a compiled call of it fails: python -m … OUT TIER …"""

import contextlib
import copy
import os
import sys
import traceback

import torch

import firesteel

from .. import _check
from .._commands import explain, programs
from .._wording import shown_name

# What a program runs on, in the order in which more of the compiler takes part.
TIERS = {
    "off": "eager, nothing is captured",
    "eager": "capture alone: the captured calls one by one",
    "aot_eager": "the ATen graph, run by ATen",
    "native": "native code",
}
_MOST_PIECES = 64


class Watcher:
    """Writes down the first call that fails. With `keeps_all` every piece as well, as it was first called."""

    def __init__(self, path, keeps_all):
        self.path, self.keeps_all = path, keeps_all
        self.pieces = {}

    def __call__(self, what, parts, piece):
        if what is not None:
            kind = type(what).__name__ if isinstance(what, Exception) else "differs"
            self.write(kind, str(what), _row(piece(), parts()))
            _leave()
        if self.keeps_all and len(self.pieces) < _MOST_PIECES:
            facts = piece()
            if facts["number"] not in self.pieces:
                self.pieces[facts["number"]] = _row(facts, parts())

    def write(self, kind, text, piece=None):
        """`kind`: "differs", the type of an error, or None where all went well."""
        torch.save({"kind": kind, "text": text, "piece": piece, "pieces": list(self.pieces.values())}, self.path)


def _row(facts, parts):
    name, (file, line) = shown_name(facts), (facts["file"], facts["line"])
    if name != facts["function"]:  # a compiled module's call starts in torch: the user's first line says more
        file, line = next((place for place in facts["lines"] if place), (file, line))
    return {
        "number": facts["number"],
        "function": name,
        "file": file,
        "line": line,
        "parts": [(text, [value.detach() for value in inputs]) for text, inputs in parts],
    }


def _leave():
    """At once: what the program would do from here on is of no use to anybody."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _stance(tier):
    if tier == "native":
        return contextlib.nullcontext()
    if tier == "off":
        return firesteel.set_stance("force_eager")
    return firesteel.set_stance("default", force_backend=tier)


def _call(tier, target, text):
    """A function of a script: compiled, and beside it as it is."""
    function, args, kwargs = explain.load(target, text, "firesteel_minify")
    theirs_args, theirs_kwargs = copy.deepcopy((args, kwargs))
    state = torch.get_rng_state()
    expected = function(*theirs_args, **theirs_kwargs)
    if tier == "off":
        return None
    torch.set_rng_state(state)
    with torch.random.fork_rng(devices=[]):
        results = firesteel.compile(function, wait=True)(*args, **kwargs)
    return tree_difference(expected, results)


def tree_difference(expected, found, place="the result"):
    """In words, where two nests of results differ; None where they do not."""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        what = _check.differs(expected, found)
        return what and f"{place}: {what}"
    if type(expected) is not type(found):
        return f"{place} is of type {type(found).__name__}, eager gives {type(expected).__name__}"
    if isinstance(expected, dict) and list(expected) == list(found):
        pairs = [(f"{place}[{key!r}]", expected[key], found[key]) for key in expected]
    elif isinstance(expected, (list, tuple)) and len(expected) == len(found):
        pairs = [(f"{place}[{i}]", *pair) for i, pair in enumerate(zip(expected, found, strict=True))]
    elif isinstance(expected, (bool, int, float, complex, str, dict, list, tuple)) and expected != found:
        return f"{place} is {found!r}, eager gives {expected!r}"
    else:
        return None
    return next((what for name, a, b in pairs if (what := tree_difference(a, b, name))), None)


def main(path, tier, keeps_all, text, *program):
    """`text`: the arguments of a function, where the program is script.py:function."""
    watcher = Watcher(path, keeps_all == "1")
    if tier != "off":
        _check.observer = watcher
    try:
        with _stance(tier):
            if explain.is_target(program[0]):
                what = _call(tier, program[0], text)
                watcher.write("differs" if what else None, what or "")
            else:
                programs.run_program(list(program))
                watcher.write(None, "")
    except SystemExit as ended:
        watcher.write(None, "" if ended.code in (None, 0) else f"the program ended with {ended.code}")
    except BaseException as error:
        traceback.print_exc()
        watcher.write(type(error).__name__, str(error))
    _leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
