"""Operators of PyTorch's database that cannot be traced and replayed, each with how it stops and why.

`python tests/python/operators/report.py` writes docs/operators.md from this list.
"""

import collections

Gap = collections.namedtuple("Gap", "status reason")

FORWARD = {}
GRADIENT = {}
