"""`firesteel explain script.py:function`: what becomes of one function, called with arguments that are given."""

import argparse
import difflib
import inspect
import runpy
import sys
from pathlib import Path


def _arguments(text, space):
    """What stands between the brackets of a call: values by place and by name."""
    try:
        return eval(f"(lambda *args, **kwargs: (args, kwargs))({text})", space)
    except Exception as error:
        raise LookupError(f"--args '{text}' gives no arguments: {type(error).__name__}: {error}") from error


def _checked(target, function, args, kwargs):
    """Whether a call can be made at all; what it does then is its own."""
    if not callable(function):
        raise LookupError(f"{target} is a {type(function).__name__}, which cannot be called")
    try:
        inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs)
    except TypeError as error:
        raise LookupError(f"{target} does not take what --args gives: {error}") from error
    except ValueError:
        pass  # it does not say what it takes


def _missing(function):
    """Names of parameters that must be given."""
    try:
        parameters = inspect.signature(getattr(function, "forward", function)).parameters.values()
    except (TypeError, ValueError):
        return []
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [it.name for it in parameters if it.kind in plain and it.default is inspect.Parameter.empty]


def run(arguments):
    """firesteel explain"""
    parser = argparse.ArgumentParser(
        prog="firesteel explain",
        usage="firesteel explain script.py:function [--args 'ARGUMENTS'] [--report FILE] [--backend NAME]",
        description='Loads a script (what stands under `if __name__ == "__main__":` is not run), compiles one of its '
        "functions or modules, calls it once and tells what became of it: graphs, graph breaks with their line and "
        "what to do, guards, kernels, times.",
        epilog="examples:\n  firesteel explain model.py:forward --args 'torch.randn(8, 16), scale=2'\n"
        "  firesteel explain model.py:net --args 'example()'       # names of the script may be used\n"
        "  firesteel explain model.py:main                         # a function without arguments",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", help="script.py:name, where name may have dots")
    parser.add_argument(
        "--args", default="", help="the arguments of the call, as Python; it may use torch and the script's names"
    )
    parser.add_argument("--backend", default=None, help="as of firesteel.compile")
    parser.add_argument("--report", metavar="FILE", help="writes the report as well")
    parser.add_argument("--profile", action="store_true", help="waits for native code, and times each kernel")
    options = parser.parse_args(arguments)
    try:
        function, args, kwargs = load(options.target, options.args, "firesteel_explain")
    except LookupError as error:
        parser.error(error.args[0])
    import firesteel

    firesteel.explain(function, backend=options.backend, profile=options.profile)(*args, **kwargs).show()
    if options.report:
        print(f"the report is in {firesteel.report(options.report)}")
    return 0


def is_target(text):
    """Whether it is of the form script.py:function, of a script that there is."""
    script, _, name = text.rpartition(":")
    return bool(script and name and Path(script).is_file())


def load(target, text, run_name):
    """The function that script.py:name means, and the arguments that a text gives it: (function, args, kwargs).

    Raises a LookupError that says what is missing.
    """
    script, _, name = target.rpartition(":")
    if not script or not name:
        raise LookupError(f"{target} is not of the form script.py:function")
    if not Path(script).is_file():
        raise LookupError(f"there is no script {script}")
    import torch

    sys.path.insert(0, str(Path(script).resolve().parent))
    space = runpy.run_path(script, run_name=run_name)
    first, *rest = name.split(".")
    if first not in space:
        near = difflib.get_close_matches(first, [it for it in space if callable(space[it])], 1)
        raise LookupError(f"{script} has no {first}" + (f"; did you mean {near[0]}?" if near else ""))
    function = space[first]
    for part in rest:
        if not hasattr(function, part):
            raise LookupError(f"{name.rpartition('.' + part)[0]} of {script} has no {part}")
        function = getattr(function, part)
    space.setdefault("torch", torch)
    if not text and (missing := _missing(function)):
        raise LookupError(f"{name} needs {', '.join(missing)}: give them by --args, as in --args 'torch.randn(8, 16)'")
    args, kwargs = _arguments(text, space)
    _checked(target, function, args, kwargs)
    return function, args, kwargs
