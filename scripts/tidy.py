"""Runs clang-tidy on every source that the tree in build/lint compiles; one that passed is skipped until it changes."""

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build/lint"
PASSED = TREE / "passed"  # one empty file for each content that passed
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def sources():
    """What this Python compiles: the files for other versions of CPython would not find its headers."""
    commands = json.loads((TREE / "compile_commands.json").read_text())
    files = {Path(command["file"]) for command in commands}
    return sorted(file for file in files if file.is_relative_to(ROOT / "src"))


def with_own_headers(source):
    """The file and all headers of the project that it includes, directly or not."""
    found, open_files = set(), [source]
    while open_files:
        file = open_files.pop()
        if file in found:
            continue
        found.add(file)
        for name in INCLUDE.findall(file.read_text()):
            places = (folder / name for folder in (file.parent, ROOT / "src", ROOT / "include"))
            open_files += [place for place in places if place.is_file()]
    return sorted(found)


def passed_mark(source):
    content = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for file in with_own_headers(source):
        content.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return PASSED / content.hexdigest()


@functools.cache
def gcc_headers():
    return subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True).stdout.strip()


def passes(source):
    mark = passed_mark(source)
    if mark.exists():
        return True
    command = ["clang-tidy-19", "--quiet", "-p", TREE]
    if source.suffix == ".cpp":
        # omp.h is g++'s; behind all other folders, as clang has its own of what else lies there. One attribute in it
        # takes arguments that clang does not know.
        command += ["--extra-arg=-idirafter", f"--extra-arg={gcc_headers()}", "--extra-arg=-D__malloc__(x)=__malloc__"]
    result = subprocess.run([*command, source], capture_output=True, text=True)
    if result.returncode == 0:
        mark.touch()
        return True
    print(f"{source.relative_to(ROOT)}:\n{result.stdout or result.stderr}", flush=True)
    return False


def main():
    PASSED.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return 0 if all(list(pool.map(passes, sources()))) else 1


if __name__ == "__main__":
    sys.exit(main())
