"""`firesteel cache`: what lies on disk for later processes, and how to be rid of it."""

import argparse
import os
from pathlib import Path

LIMIT = 512 << 20  # bytes, unless FIRESTEEL_CACHE_LIMIT says otherwise


def folder(name="kernels"):
    """Where kernels are kept, or the answers which library is fastest ("choices"), by the rules of
    src/base/cache_folder.cpp; None where nowhere."""
    if os.environ.get("FIRESTEEL_CACHE") == "0":
        return None
    if named := os.environ.get("FIRESTEEL_CACHE_DIR"):
        return Path(named) / name
    if (users := os.environ.get("XDG_CACHE_HOME", "")).startswith("/"):
        return Path(users) / "firesteel" / name
    if (home := os.environ.get("HOME", "")).startswith("/"):
        return Path(home) / ".cache/firesteel" / name
    return None


def problem(path):
    """Why the folder cannot be used; None where it can."""
    try:
        facts = path.lstat()
    except OSError:
        return None  # it is made when the first kernel is
    if path.is_symlink() or not path.is_dir():
        return "it is no folder"
    if facts.st_uid != os.geteuid():
        return "it belongs to another user"
    if facts.st_mode & 0o077:
        return f"others may enter it: chmod 700 {path}"
    return None if os.access(path, os.W_OK) else "it cannot be written to"


def entries(path, pattern="*.o*"):
    """The files that hold kernels, whole or half written."""
    return [file for file in path.glob(pattern) if file.is_file()] if path and path.is_dir() else []


def answers():
    """The files that say which library is fastest for which size, one a machine."""
    return entries(folder("choices"), "*.txt")


def answer_count(files):
    return sum(len(file.read_bytes().splitlines()) for file in files)


def size_text(count):
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def info():
    path = folder()
    if path is None:
        return "the cache is off (FIRESTEEL_CACHE=0, or no home folder): kernels are compiled in every process"
    files = entries(path)
    used = sum(file.stat().st_size for file in files)
    limit = int(os.environ.get("FIRESTEEL_CACHE_LIMIT") or LIMIT)
    lines = [f"folder   {path}", f"kernels  {len(files)}", f"size     {size_text(used)} of {size_text(limit)}"]
    lines.append(f"choices  {answer_count(answers())}, of libraries by measuring")
    if wrong := problem(path):
        lines.append(f"not used: {wrong}")
    return "\n".join(lines)


def clear():
    kernels, choices = entries(folder()), answers()
    used, count = sum(file.stat().st_size for file in kernels), answer_count(choices)
    for file in kernels + choices:
        file.unlink(missing_ok=True)
    if not kernels and not choices:
        return "there was nothing to remove"
    return f"removed {len(kernels)} kernels, {size_text(used)}, and {count} choices of libraries"


def run(arguments):
    """firesteel cache"""
    parser = argparse.ArgumentParser(
        prog="firesteel cache",
        description="Compiled kernels are kept on disk, so that the next process need not compile them again, and so "
        "is which library multiplies matrices of a size fastest.",
        epilog="FIRESTEEL_CACHE_DIR names another folder, FIRESTEEL_CACHE_LIMIT a size in bytes, FIRESTEEL_CACHE=0 "
        "switches the cache off. A kernel is found by its text, the machine and the version of the code generator: "
        "there is never a need to clear the cache for correctness.",
    )
    words = {"info": info, "clear": clear}
    parser.add_argument("what", choices=words, help="info: where it is and how full; clear: removes everything")
    print(words[parser.parse_args(arguments).what]())
    return 0
