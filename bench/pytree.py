"""Taking a nested value apart and building it again: Firesteel against optree and torch.utils._pytree, by turns."""

import argparse
import collections
import time

import torch
from torch.utils import _pytree

from firesteel import _C

try:
    import optree
except ImportError:
    optree = None

Pair = collections.namedtuple("Pair", "first second")


def nested():
    x = torch.ones(2)
    return {"a": [x, (x, 1, "text")], "b": collections.OrderedDict(c=x, d=Pair(x, None)), "e": [x] * 8}


def with_optree(value):
    leaves, spec = optree.tree_flatten(value, none_is_leaf=True)
    return optree.tree_unflatten(spec, leaves)


def with_torch(value):
    leaves, spec = _pytree.tree_flatten(value)
    return _pytree.tree_unflatten(leaves, spec)


def seconds(function, value, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function(value)
    return (time.perf_counter() - start) / calls


def along_known_structure(value, calls):
    start = time.perf_counter()
    _C._like(value, calls)
    return (time.perf_counter() - start) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="calls a round")
    parser.add_argument("--rounds", type=int, default=30, help="rounds; the minimum counts")
    options = parser.parse_args()
    value = nested()
    ways = {"firesteel": _C._round_trip, "torch.utils._pytree": with_torch}
    if optree:
        ways["optree"] = with_optree
    best = dict.fromkeys([*ways, "firesteel, structure known"], float("inf"))
    for _ in range(options.rounds):
        for name, function in ways.items():
            best[name] = min(best[name], seconds(function, value, options.calls))
        known = along_known_structure(value, options.calls)
        best["firesteel, structure known"] = min(best["firesteel, structure known"], known)
    for name, cost in best.items():
        print(f"{name:28} {cost * 1e6:7.2f} µs")
    if not optree:
        print("optree is not installed: pip install optree==0.20.0 to compare")


if __name__ == "__main__":
    main()
