"""Runs test classes written for PyTorch's compiler, each text in a process: `python -m firesteel -m pytest`."""

import re
import textwrap

from processes import printed_by

HEAD = """
import collections, contextlib, functools, itertools, logging, operator, os, unittest.mock
import numpy as np
import torch
import torch._dynamo
import torch._dynamo.config as config
import torch._dynamo.test_case
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import (
    AotEagerAndRecordGraphs, CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs, standard_test)
from torch._dynamo.utils import counters, same

ones = torch.ones(3)


def counted(function, *calls, **options):
    "How many graphs there were after each of the calls."
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter, **options)
    counts = []
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
        counts.append(counter.frame_count)
    return counts


class Tests(torch._dynamo.test_case.TestCase):
"""


def passes(body, tmp_path):
    """Runs the methods in `body`, all of which must pass on Firesteel; gives how many there are."""
    file = tmp_path / "test_program.py"
    file.write_text(HEAD + textwrap.indent(textwrap.dedent(body), "    "))
    command = ("-m", "firesteel", "-m", "pytest", "-q", "-p", "no:logging", "-p", "no:cacheprovider", file.name)
    count = int(re.search(r"(\d+) passed", printed_by(*command, cwd=tmp_path))[1])
    assert count == len(re.findall(r"^ *def test_", body, re.MULTILINE))
    return count
