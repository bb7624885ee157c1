"""Every operator of PyTorch's own database in native kernels, forward and backward, in several layouts, against eager.

`make test` runs two samples of each, as they are and in one other layout; FIRESTEEL_FULL=1 all samples in all layouts.
`-s` shows how many ran in kernels. A replay of what has no kernel is test_operators.py's matter.
"""

import os

import pytest
import torch
from gaps import FORWARD, GRADIENT
from opinfo_native import LAYOUTS, run_natively
from opinfo_replay import operator_name, operators_of

FULL = os.environ.get("FIRESTEEL_FULL") == "1"
SHARDS = 8
OTHER_LAYOUTS = [layout for layout in LAYOUTS if layout != "as it is"]
# Entries of the quick form with at least one kernel, a shard each: they must not become fewer unnoticed.
LEAST_NATIVE = {
    ("forward", torch.float32): (35, 29, 27, 26, 29, 29, 28, 23),
    ("gradient", torch.float32): (47, 45, 43, 43, 44, 42, 41, 38),
    ("forward", torch.bfloat16): (31, 26, 23, 25, 26, 21, 25, 24),
    ("gradient", torch.bfloat16): (35, 34, 33, 37, 37, 36, 35, 32),
}


@pytest.fixture(autouse=True)
def single_operators_too(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_SMALLEST_KERNEL", "1")


def ways(index):
    """How many samples, and the layouts they come in."""
    return (None, tuple(LAYOUTS)) if FULL else (2, ("as it is", OTHER_LAYOUTS[index % len(OTHER_LAYOUTS)]))


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["forward", "gradient"])
def test_kernels_equal_eager(kind, dtype, shard):
    gaps = FORWARD if kind == "forward" else GRADIENT
    operators = [op for op in operators_of(dtype, kind) if operator_name(op) not in gaps]
    ran = [run_natively(op, kind, dtype, *ways(i)) for i, op in enumerate(operators) if i % SHARDS == shard]
    in_kernels = sum(one.native.total() > 0 for one in ran)
    print(f"{kind}, {dtype}: {in_kernels} of {len(ran)} in kernels; "
          f"{sum(one.native.total() for one in ran)} of {sum(one.checked.total() for one in ran)} calls")  # fmt: skip
    assert [(one.op, one.differences) for one in ran if one.differences] == []
    assert in_kernels >= LEAST_NATIVE[kind, dtype][shard]
