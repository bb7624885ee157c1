"""Refuses machines, Pythons and builds of torch that Firesteel was not made for, before any native code is loaded."""

import importlib.metadata
import platform
import re
import sys
import sysconfig

SUPPORTED = "Linux on x86-64, CPython 3.11 or 3.12, torch 2.13 (2.11 where Firesteel was built with it)"
PYTHONS = ((3, 11), (3, 12))
TORCHES = ((2, 13), (2, 11))


class UnsupportedPlatformError(ImportError):
    """This machine, this Python or this build of torch is not supported."""

    def __init__(self, found: str, remedy: str):
        super().__init__(
            f"Firesteel cannot run here\n  found: {found}\n  supported: {SUPPORTED}\n  try: {remedy}",
            name="firesteel",
        )


def check() -> None:
    """Raises UnsupportedPlatformError where Firesteel cannot run. Imports nothing of torch."""
    _check_machine()
    _check_python()
    _check_torch()


def _check_machine() -> None:
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        raise UnsupportedPlatformError(
            f"{system} on {machine}", "run it on Linux on x86-64, for example in a container"
        )


def _check_python() -> None:
    implementation = platform.python_implementation()
    version = platform.python_version()
    if implementation != "CPython" or sys.version_info[:2] not in PYTHONS:
        raise UnsupportedPlatformError(f"{implementation} {version}", "make an environment with python3.11")
    if sysconfig.get_config_var("Py_DEBUG"):
        raise UnsupportedPlatformError(f"a debug build of CPython {version}", "use a release build of python3.11")


def _check_torch() -> None:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise UnsupportedPlatformError("no torch", "pip install torch==2.13.0") from None
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is None or (int(number[1]), int(number[2])) not in TORCHES:
        raise UnsupportedPlatformError(f"torch {version}", "pip install torch==2.13.0")


def refuse_extension(error: ImportError) -> None:
    """Says why the extension module did not load: it was never built, or it was built for another torch or Python."""
    torch = importlib.metadata.version("torch")
    if isinstance(error, ModuleNotFoundError):
        raise UnsupportedPlatformError(
            f"no native module firesteel._C for CPython {platform.python_version()}",
            "in a checkout: make build; otherwise install the wheel made for this Python",
        ) from error
    raise UnsupportedPlatformError(
        f"a native module firesteel._C that does not fit torch {torch} ({error})",
        "build or install Firesteel with the torch it is to run with; in a checkout: make clean build",
    ) from error
