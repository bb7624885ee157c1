"""Writes docs/operators.md: how many operators trace and replay equal to eager, and why the rest do not."""

import argparse
import collections
import os
import pathlib

import torch
from gaps import FORWARD, GRADIENT
from opinfo_native import run_natively
from opinfo_replay import SAMPLES, check, float32_operators, operator_name, operators_of

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "operators.md"

INTRODUCTION = """# Operators

PyTorch describes its operators in a database with sample inputs (OpInfo). Each entry that takes float32 on the CPU is
traced on one set of values and replayed on another, up to three samples each; the replay must equal eager in values,
sizes, strides, dtypes and writes to its arguments (operators that return uninitialised memory: in all but values).
`make test` checks every entry, and that each one listed below still stops in the way it says. `make test-full` does
the same with every sample, in float32, float64, bfloat16, complex64, int64 and bool.

| | entries | equal to eager |
| --- | --- | --- |
"""


def counted(kind, operators):
    return collections.Counter(check(op, kind).status for op in operators)


NATIVE = """
## In native kernels

The same entries through native code, up to three samples each, contiguous, transposed, strided, expanded and empty, on
other values than they were compiled on: results within PyTorch's own tolerances of eager's, or as near to those of
double precision. `make test` runs two samples in two layouts, `make test-full` all. *With a kernel*: some operator of
the entry, or of its gradient, ran in one; the others are ATen's alone.

| | type | entries | with a kernel | calls compared | in kernels | different |
| --- | --- | --- | --- | --- | --- | --- |
"""


def native_row(kind, dtype, gaps):
    os.environ["FIRESTEEL_SMALLEST_KERNEL"] = "1"
    operators = [op for op in operators_of(dtype, kind) if operator_name(op) not in gaps]
    ran = [run_natively(op, kind, dtype, SAMPLES) for op in operators]
    with_kernel = sum(one.native.total() > 0 for one in ran)
    different = sum(len(one.differences) > 0 for one in ran)
    calls, in_kernels = (sum(counter.total() for counter in counters) for counters in
                         ((one.checked for one in ran), (one.native for one in ran)))  # fmt: skip
    name = str(dtype).removeprefix("torch.")
    return f"| {kind} | {name} | {len(ran)} | {with_kernel} | {calls} | {in_kernels} | {different} |"


def native_section():
    rows = [native_row(kind, dtype, gaps) for kind, gaps in (("forward", FORWARD), ("gradient", GRADIENT))
            for dtype in (torch.float32, torch.bfloat16)]  # fmt: skip
    return NATIVE + "\n".join(rows) + "\n"


def section(title, gaps):
    by_reason = collections.defaultdict(list)
    for name, gap in gaps.items():
        by_reason[gap.reason].append(name)
    lines = [f"\n## {title}\n", "| why | operators |", "| --- | --- |"]
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        lines.append(f"| {reason} | {', '.join(f'`{name}`' for name in sorted(names))} |")
    return "\n".join(lines) + "\n"


def page():
    operators = float32_operators()
    rows = []
    for kind, subset in (("forward", operators), ("gradient", [op for op in operators if op.supports_autograd])):
        counts = counted(kind, subset)
        checked = sum(counts.values()) - counts["nothing to check"]
        rows.append(f"| {kind} | {checked} | {counts['equal']} ({counts['equal'] / checked:.1%}) |")
    return (
        INTRODUCTION
        + "\n".join(rows)
        + "\n"
        + native_section()
        + section("Not replayed: forward", FORWARD)
        + section("Not replayed: gradients", GRADIENT)
    )


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page())
    print(f"wrote {PAGE.relative_to(PAGE.parents[1])}")


if __name__ == "__main__":
    main()
