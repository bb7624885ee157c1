"""Runs cases in another process, so that one that ends the process ends that one alone."""

import io
import multiprocessing
import signal

import torch

from .cut import Case, failure


def _serve(connection):
    while True:
        try:
            data = connection.recv_bytes()
        except EOFError:
            return
        connection.send(failure(Case(*torch.load(io.BytesIO(data)))))


class Judge:
    """judge(case) gives what cut.failure() gives; ("crash", how, None) where the process ended."""

    def __init__(self):
        self._process = self._connection = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stop()

    def __call__(self, case):
        if self._process is None:
            self._start()
        data = io.BytesIO()
        torch.save([case.text, case.inputs], data)
        try:
            self._connection.send_bytes(data.getvalue())
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self._stop()
            return "crash", signal.strsignal(-code) if code < 0 else f"the process ended with {code}", None

    def _start(self):
        # A fresh process: one that is forked from a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def _stop(self):
        if self._process is not None:
            self._connection.close()
            self._process.join()
            self._process = self._connection = None
