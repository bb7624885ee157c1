"""What a random program may use. Its text stands before the program's, so that each run has globals of its own."""
# ruff: noqa: F401

import contextlib
import functools
import itertools
import operator
import random
import sys
import time

import torch

COUNT = 0
LOG = []
TABLE = {"a": 1, "b": 2}
WEIGHT = torch.tensor([2.0])


class Stop(Exception):  # noqa: N818
    pass


class Box:
    limit = 50

    def __init__(self, value, items=()):
        self.value = value
        self.items = list(items)

    def bump(self, by=1):
        self.value = (self.value + by) % 97
        return self

    @property
    def double(self):
        return self.value * 2 if self.value < self.limit else 0

    @double.setter
    def double(self, value):
        self.value = value // 2

    def __len__(self):
        return len(self.items)

    def __add__(self, other):
        return Box((self.value + getattr(other, "value", 1)) % 97, self.items[:2])

    def __getitem__(self, index):
        return self.items[index]

    def __contains__(self, item):
        LOG.append("contains")
        return item in self.items

    def __call__(self, by, *more, **named):
        return self.bump(by + len(more) + len(named)).value


class Manager:
    suppressed = (KeyError,)

    def __init__(self, name="m"):
        self.name = name
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        LOG.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, trace):
        LOG.append(f"exit {self.name} {kind and kind.__name__}")
        return kind is not None and issubclass(kind, self.suppressed)


@contextlib.contextmanager
def managed(box):
    before = box.value
    try:
        yield box.bump(3)
    finally:
        box.value = before
        LOG.append("restored")


def counted(n):
    try:
        for i in range(n % 5):
            got = yield i
            if got is not None:
                LOG.append(got)
    except Stop:
        LOG.append("stopped")
        yield -1
    finally:
        LOG.append("closed")
    return n


def helper(a=1, *args, k=2, **named):
    return (a * k + len(args) + sum(named.values())) % 97
