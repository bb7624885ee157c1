"""profile(): times every kernel and operator of compiled code, for explain() and the report."""

import dataclasses
import os
import threading

from . import _C

VARIABLE = "FIRESTEEL_PROFILE"

_lock = threading.Lock()
_asked = 0  # how many have asked for it


@dataclasses.dataclass(frozen=True)
class CostReport:
    """What one kernel, or one operator that runs by itself, has cost, all runs together."""

    piece: int  # the number of its graph
    function: str
    phase: str  # forward or backward
    kernel: int | None  # its number among the kernels of the phase; None for an operator of ATen
    node: int  # its first node in the graph of the phase
    ops: tuple[str, ...]
    places: tuple[tuple[str, int], ...]  # the user's files and lines
    runs: int
    seconds: float
    bytes_read: int  # of the tensors given to it
    bytes_made: int  # of results in memory of their own

    @property
    def is_kernel(self):
        return self.kernel is not None


class Profile:
    """What profile() gives: measures until the end of its `with` block, or stop()."""

    def __init__(self):
        self._is_on = False

    def __enter__(self):
        if not self._is_on:
            self._is_on = True
            _ask(1)
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        if self._is_on:
            self._is_on = False
            _ask(-1)

    def __repr__(self):
        return f"<firesteel profile, {'on' if self._is_on else 'off'}>"


def profile():
    """`with profile(): step()` times each kernel and operator of compiled code that runs in the block, on any thread.

    explain() and report() then tell time and memory of each. FIRESTEEL_PROFILE=1 and `firesteel report --profile` do it
    for a whole program. Costs of one function add up over all blocks. Nothing is measured, and no call pays for it,
    while it is off.
    """
    return Profile()


def from_environment():
    """What FIRESTEEL_PROFILE asks for, when the package is loaded."""
    if os.environ.get(VARIABLE, "").strip() not in ("", "0"):
        start()


def start():
    """On, for the rest of the program."""
    _ask(1)


def _ask(by):
    global _asked
    with _lock:
        _asked += by
        _C._set_profiling(_asked > 0)


def costs_of(entry):
    """A CostReport for each kernel and operator of a piece that was run while somebody profiled."""
    found = []
    for part in entry["parts"]:
        kernels = [(number, kernel) for number, kernel in enumerate(part["kernels"]) if kernel["cost"]]
        if not kernels and not part["costs"]:
            continue
        nodes = _C.parse_graph(part["text"]).nodes

        def report(kernel, members, cost, part=part, nodes=nodes):
            places = dict.fromkeys(part["lines"][i] for i in members if part["lines"][i])
            return CostReport(
                entry["number"],
                entry["function"],
                part["phase"],
                kernel,
                members[0],
                tuple(nodes[i].op for i in members),
                tuple(places),
                *cost,
            )

        found += [report(number, kernel["nodes"], kernel["cost"]) for number, kernel in kernels]
        found += [report(None, [node], cost) for node, cost in part["costs"].items()]
    return found


def by_time(costs):
    return sorted(costs, key=lambda cost: -cost.seconds)
