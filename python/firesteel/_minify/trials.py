"""Runs programs one after the other, each in a child of a process that has torch loaded: python -m …trials"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path


class Trials:
    """trials(source, tier) gives how a program fails on a tier, as its kind; None where it does not."""

    def __init__(self, folder, path, program, text, settings, seconds):
        self._folder, self._program, self._text, self._seconds = Path(folder), program, text, seconds
        # A smaller program lies elsewhere: what stands beside the first must be found all the same.
        beside = str(Path(path).resolve().parent)
        search = os.pathsep.join(filter(None, [beside, os.environ.get("PYTHONPATH", "")]))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "firesteel._minify.trials"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, **settings, "PYTHONPATH": search},
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._server.stdin.close()
        self._server.wait()

    def __call__(self, source, tier, passes=None):
        """`passes`: those of the ATen graph that run, by name; None: all."""
        script, out = self._folder / "trial.py", self._folder / "trial.pt"
        script.write_text(source, encoding="utf-8")
        out.unlink(missing_ok=True)
        name = self._program[0]
        program = [f"{script}:{name.rpartition(':')[2]}" if self._text is not None else str(script), *self._program[1:]]
        asked = {"arguments": [str(out), tier, "0", self._text or "", *program], "seconds": self._seconds,
                 "passes": passes}  # fmt: skip
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        ended = json.loads(self._server.stdout.readline())
        if not out.exists():
            return "hangs" if ended == "hangs" else "crash"
        import torch

        return torch.load(out)["kind"]


def _serve():
    from . import look

    answers = os.fdopen(os.dup(1), "w")
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # programs speak to nobody
        os.dup2(silent, stream)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if asked["passes"] is not None:
                os.environ["FIRESTEEL_PASSES"] = ",".join(asked["passes"])
            try:
                look.main(*asked["arguments"])
            finally:
                os._exit(1)
        answers.write(json.dumps(_wait(child, asked["seconds"])) + "\n")
        answers.flush()


def _wait(child, seconds):
    handle = os.pidfd_open(child)
    ready, _, _ = select.select([handle], [], [], seconds)
    os.close(handle)
    if not ready:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return "hangs" if not ready else os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    _serve()
