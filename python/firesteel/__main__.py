"""The command line: python -m firesteel, which also runs programs on Firesteel."""

import argparse
import importlib
import platform
import sys
import sysconfig
from pathlib import Path

from ._commands import programs
from ._version import __version__


def cmake_dir() -> Path:
    """Where find_package(Firesteel) finds its package: inside the wheel, or in the build tree of a checkout."""
    package = Path(__file__).resolve().parent
    if (package / "lib/cmake/Firesteel").is_dir():
        return package / "lib/cmake/Firesteel"
    for module in package.glob("_C.*.so"):  # a checkout's module is a link into <build>/python/firesteel
        directory = module.resolve().parents[2] / "lib/cmake/Firesteel"
        if directory.is_dir():
            return directory
    raise FileNotFoundError("this Firesteel has no CMake package: in a checkout, run make build first")


def version_text() -> str:
    import torch

    return f"firesteel {__version__} (torch {torch.__version__}, Python {platform.python_version()})"


def startup_files() -> tuple[Path, Path]:
    """What enable() writes beside the environment's packages: a line that Python runs as it starts, and its module."""
    folder = Path(sysconfig.get_path("purelib"))
    return folder / "firesteel_startup.pth", folder / "_firesteel_startup.py"


def enable() -> str:
    line, module = startup_files()
    module.write_text((Path(__file__).parent / "interop/startup.py").read_text())
    line.write_text('import os; os.environ.get("FIRESTEEL") == "1" and __import__("_firesteel_startup").wait()\n')
    return f"wrote {line}: programs of this environment run on Firesteel where FIRESTEEL=1 is set"


def disable() -> str:
    found = [path for path in startup_files() if path.exists()]
    for path in found:
        path.unlink()
    return f"removed {', '.join(map(str, found))}" if found else "there was nothing to remove"


# What may stand first: a word, what it does, and the module and function that do it.
WORDS = {
    "run": ("runs a program on Firesteel: run train.py --epochs 3", "programs", "run"),
    "report": ("the same, and writes an HTML report of what was captured and why it broke", "programs", "report"),
    "explain": (
        "what becomes of one function: explain model.py:forward --args 'torch.randn(8)'",
        "explain",
        "run",
    ),
    "minify": ("a program that fails, or differs from eager: which few operators do it?", "minify", "run"),
    "bench": (
        "how much faster one function is compiled: bench model.py:forward --args 'torch.randn(8)'",
        "bench",
        "run",
    ),
    "cache": ("info, clear: the kernels on disk", "cache", "run"),
    "doctor": ("looks whether all is well here, and says how to mend what is not", "doctor", "run"),
    "enable": ("programs that cannot be started this way run on Firesteel where FIRESTEEL=1 is set", None, enable),
    "disable": ("ends that", None, disable),
}


def _parser():
    words = "\n".join(f"  {word:9} {what}" for word, (what, _, _) in WORDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m firesteel",
        usage="python -m firesteel WORD … | [--report FILE] [--profile] [--logs KINDS] [--trace FILE] "
        "script.py [args…] | -m module [args…]",
        description="Firesteel: the torch.compile stack as a native C++ library over ATen. With a script or a module: "
        "runs it with torch.compile, torch.compiler and torch._dynamo's controls served by Firesteel.",
        epilog=f"words (each has a --help of its own; `firesteel` alone is the same command):\n{words}\n\n"
        "where to start:\n"
        "  firesteel doctor                    does it work here?\n"
        "  firesteel run train.py              your program, unchanged\n"
        "  firesteel report train.py           what was captured, what broke, what to do\n\n"
        "In CMake: find_package(Firesteel), with -DFiresteel_DIR=$(python -m firesteel --cmake-dir).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the versions of Firesteel, torch and Python")
    parser.add_argument(
        "--cmake-dir", action="store_true", help="print the folder of the CMake package, for C++ programs"
    )
    programs.add_options(parser)
    parser.add_argument("-m", metavar="module", help="run a module: -m pytest, -m torch.distributed.run")
    return parser


def _word(name, arguments):
    _, module, function = WORDS[name]
    if module is None:
        print(function())
        return 0
    return getattr(importlib.import_module(f"._commands.{module}", __package__), function)(arguments)


def main(arguments: list[str] | None = None) -> int:
    if arguments is None:
        sys.excepthook = programs.show_error
        arguments = sys.argv[1:]
    # A script may have the name of a word.
    if arguments and arguments[0] in WORDS and not Path(arguments[0]).is_file():
        return _word(arguments[0], arguments[1:])
    parser = _parser()
    options, program = programs.split(parser, arguments)
    if program and program[0].isidentifier() and not Path(program[0]).exists():
        parser.error(f"{program[0]} is neither a script nor a word; words: {', '.join(WORDS)}")
    if program:
        return programs.start(parser, options, program)
    if options.report or options.logs or options.trace or options.profile:
        parser.error("--report, --logs, --profile and --trace need a program to run")
    if options.version:
        print(version_text())
    elif options.cmake_dir:
        try:
            print(cmake_dir())
        except FileNotFoundError as error:
            print(f"firesteel: {error}", file=sys.stderr)
            return 1
    else:
        parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
