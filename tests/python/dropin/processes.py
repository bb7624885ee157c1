"""What the tests of the drop-in share: a program in a process of its own, which must end well."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[3]


def printed_by(*command, cwd=None, env=None, silent=False):
    """What `python command…` prints; its asserts are the test. `silent`: nothing may stand on standard error."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **(env or {})},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (silent and done.stderr), done.stderr
    return done.stdout
