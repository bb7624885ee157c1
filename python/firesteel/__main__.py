"""The command line: python -m firesteel."""

import argparse
import platform
import sys
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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m firesteel",
        description="Firesteel: the torch.compile stack as a native C++ library over ATen.",
        epilog="In CMake: find_package(Firesteel), with -DFiresteel_DIR=$(python -m firesteel --cmake-dir).",
    )
    parser.add_argument("--version", action="store_true", help="print the versions of Firesteel, torch and Python")
    parser.add_argument(
        "--cmake-dir", action="store_true", help="print the folder of the CMake package, for C++ programs"
    )
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
