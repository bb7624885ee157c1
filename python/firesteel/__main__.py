"""The command line: python -m firesteel, which also runs programs on Firesteel."""

import argparse
import os
import platform
import runpy
import sys
import sysconfig
from pathlib import Path

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


def run_program(arguments: list[str]) -> None:
    """`script.py args…` or `-m module args…`, as Python itself would run it, on Firesteel."""
    import firesteel

    firesteel.install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


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


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m firesteel",
        usage="python -m firesteel [option] | script.py [args…] | -m module [args…] | enable | disable",
        description="Firesteel: the torch.compile stack as a native C++ library over ATen. With a script or a module: "
        "runs it with torch.compile, torch.compiler and torch._dynamo's controls served by Firesteel.",
        epilog="In CMake: find_package(Firesteel), with -DFiresteel_DIR=$(python -m firesteel --cmake-dir).",
    )
    parser.add_argument("--version", action="store_true", help="print the versions of Firesteel, torch and Python")
    parser.add_argument(
        "--cmake-dir", action="store_true", help="print the folder of the CMake package, for C++ programs"
    )
    parser.add_argument("-m", metavar="module", help="run a module: -m pytest, -m torch.distributed.run")
    parser.add_argument("program", nargs="?", help="a script, or one of two words: enable lets programs that cannot be "
                        "started this way run on Firesteel where FIRESTEEL=1 is set; disable ends that")  # fmt: skip
    words = {"enable": enable, "disable": disable}
    if arguments and arguments[0] in words and not Path(arguments[0]).exists():
        print(words[arguments[0]]())
        return 0
    if arguments and (arguments[0] == "-m" or not arguments[0].startswith("-")):
        if arguments == ["-m"]:
            parser.error("-m needs a module")
        if arguments[0] != "-m" and not Path(arguments[0]).exists():
            parser.error(f"there is no script {arguments[0]}")
        run_program(arguments)
        return 0
    options = parser.parse_args(arguments)
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
