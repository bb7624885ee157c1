"""Time and memory of each kernel and operator, as the report's table: the most expensive first."""

import json

from .._costs import by_time, costs_of
from .._wording import plural, short_bytes, short_time, shown_name
from .escape import escaped

_MOST_ROWS = 200

_NOT_MEASURED = (
    '<p class="quiet">Nothing was measured. <code>firesteel report --profile script.py</code>, '
    "<code>FIRESTEEL_PROFILE=1</code> and <code>with firesteel.profile():</code> time each kernel and operator.</p>"
)


def rows(entries, tables):
    """The costs as plain data, as the page and its scripts read them."""
    names = {entry["number"]: shown_name(entry) for entry in entries}
    found = by_time(cost for entry in entries for cost in costs_of(entry))
    return [
        {
            "piece": cost.piece,
            "function": names[cost.piece],
            "phase": cost.phase,
            "kernel": cost.kernel,
            "node": cost.node,
            "ops": [op.removeprefix("aten.") for op in cost.ops],
            "places": [tables.place(place) for place in cost.places],
            "runs": cost.runs,
            "seconds": cost.seconds,
            "read": cost.bytes_read,
            "made": cost.bytes_made,
        }
        for cost in found
    ]


def before(entries):
    """Runs by ATen while kernels were compiled: how many, and their seconds."""
    found = [part["before"] for entry in entries for part in entry["parts"] if part["before"]]
    return [sum(cost[0] for cost in found), sum(cost[1] for cost in found)]


def html(facts):
    """The section's content."""
    costs = facts["costs"]
    if not costs:
        return _NOT_MEASURED
    whole = sum(cost["seconds"] for cost in costs)
    kernels = [cost for cost in costs if cost["kernel"] is not None]
    head = (
        f"<p>{short_time(whole)} measured: {short_time(sum(it['seconds'] for it in kernels))} in "
        f"{plural(len(kernels), 'kernel')}, the rest in {plural(len(costs) - len(kernels), 'operator')} of ATen."
    )
    runs, seconds = facts["before"]
    if runs:
        head += f" Before code was there ATen ran everything, {plural(runs, 'time')}: {short_time(seconds)}."
    body = "".join(_row(facts, cost, whole) for cost in costs[:_MOST_ROWS])
    rest = costs[_MOST_ROWS:]
    if rest:
        spent = short_time(sum(cost["seconds"] for cost in rest))
        body += f'<tr><td></td><td>{spent}</td><td colspan="7">{f"in {len(rest):,} more"}</td></tr>'
    titles = ("share", "time", "runs", "each run", "reads", "makes", "moves", "what", "lines")
    return (
        f"{head}</p><table class='costs'><tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr>{body}</table>"
        '<p class="quiet">reads and makes: bytes of the tensors given to it and of results in memory of their own, a '
        "run; moves: both by the time, to compare with what the machine's memory can do.</p>"
    )


def _row(facts, cost, whole):
    runs = cost["runs"]
    share = cost["seconds"] / whole if whole else 0.0
    moved = (cost["read"] + cost["made"]) / cost["seconds"] if cost["seconds"] else 0.0
    what = ", ".join(cost["ops"][:8]) + (", …" if len(cost["ops"]) > 8 else "")
    name = f"kernel {cost['kernel'] + 1}: {what}" if cost["kernel"] is not None else what
    target = {key: cost[key] for key in ("piece", "phase", "kernel", "node")}
    link = f'<a href="#graphs" data-cost="{escaped(json.dumps(target))}">{escaped(name)}</a>'
    link += f' <span class="quiet">{cost["phase"]}, piece {cost["piece"]} of {escaped(cost["function"])}</span>'
    places = ", ".join(
        f'<a class="place" href="#L{file}-{line}">{escaped(facts["files"][file]["name"])}:{line}</a>'
        for file, line in cost["places"]
    )
    bar = f'<span class="share" style="width:{share * 100:.1f}%"></span>{share:.1%}'
    cells = (bar, short_time(cost["seconds"]), f"{runs:,}", short_time(cost["seconds"] / runs),
             short_bytes(cost["read"] // runs), short_bytes(cost["made"] // runs), f"{short_bytes(int(moved))}/s",
             link, places)  # fmt: skip
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
