"""The report's HTML: problems and source are written here, graphs, guards and the timeline drawn by page.js."""

import importlib.resources
import json

from .._wording import milliseconds, plural, short_time
from . import costs
from .escape import escaped

_NO_SOURCE = (
    '<p class="quiet">The source of this code is not at hand (it was made by exec, or its file is gone): '
    "its lines are numbers alone.</p>"
)
_NOTHING = (
    "<p>Nothing is compiled at this moment. A report written by <code>firesteel.report()</code> tells of what is "
    "alive; <code>firesteel report script.py</code> and <code>FIRESTEEL_REPORT=out.html</code> "
    "tell of all that happened.</p>"
)
_STATE_WORDS = {
    "captured": "captured in a graph",
    "opaque": "captured as one opaque call",
    "recompiled": "captured more than once",
    "disabled": "runs eagerly, as the program asks",
    "broken": "graph break",
}


def part_of_page(name):
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def html(facts, title):
    """The whole file."""
    return _PAGE.format(
        title=escaped(title),
        style=part_of_page("page.css"),
        script="\n".join(part_of_page(name) for name in ("layout.js", "page.js", "rooms.js")),
        summary=_summary(facts),
        legend="".join(
            f'<li><span class="swatch {state}"></span>{escaped(words)}</li>' for state, words in _STATE_WORDS.items()
        ),
        problems=_problems(facts),
        source="".join(_file(facts, number) for number in _by_interest(facts)) or "<p>Nothing was captured.</p>",
        costs=costs.html(facts),
        about=" · ".join(escaped(f"{key} {value}") for key, value in facts["about"].items()),
        data=_json(facts),
    )


def _json(facts):
    """As a script element may hold it. What the page shows already is left out."""
    files = [{"path": file["path"], "name": file["name"]} for file in facts["files"]]
    text = json.dumps({**facts, "files": files}, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c")  # no text of the program's can end the element


def _summary(facts):
    running = [piece for piece in facts["pieces"] if piece["runs"]]
    kernels = sum(len(part["kernels"]) for piece in running for part in piece["parts"])
    counts = [
        (len(running), "graph", "graphs"),
        (sum(len(piece["nodes"]) for piece in running), "operation", "graphs"),
        (kernels, "kernel", "kernels"),
        (len(facts["breaks"]) + len(facts["eager"]), "break", "problems"),
        *([(len(facts["errors"]), "error", "problems")] if facts["errors"] else []),
        (len(facts["recompiles"]), "recompile", "problems"),
        (sum(len(piece["guards"]) for piece in running), "guard", "guards"),
    ]
    cells = "".join(
        f'<li><a href="#{target}"><b>{number:,}</b> {noun}{"" if number == 1 else "s"}</a></li>'
        for number, noun, target in counts
    )
    spent = milliseconds(sum(piece["seconds"] for piece in facts["pieces"]))
    ran = sum(cost["seconds"] for cost in facts["costs"])
    measured = f'<li><a href="#costs"><b>{short_time(ran)}</b> measured</a></li>' if facts["costs"] else ""
    return f'<ul class="counts">{cells}<li><a href="#timeline"><b>{spent}</b> capturing</a></li>{measured}</ul>'


def _place(facts, file, line):
    name = escaped(facts["files"][file]["name"])
    return f'<a class="place" href="#L{file}-{line}">{name}:{line}</a>'


def _problems(facts):
    cards = [_break_card(facts, it) for it in facts["breaks"]]
    cards = [_error_card(facts, it) for it in facts["errors"]] + cards
    cards += [_eager_card(facts, it) for it in facts["eager"]]
    cards += [_recompile_card(facts, notes) for notes in _same_recompiles(facts)]
    if not cards and not facts["pieces"]:
        return _NOTHING
    return "".join(cards) or '<p class="good">No graph breaks, no recompiles, nothing ran eagerly.</p>'


def _card(kind, label, place, message, rows):
    body = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows if text)
    return (
        f'<article class="card {kind}" tabindex="0"><h3><span class="tag">{label}</span> {place} '
        f"<span>{message}</span></h3><dl>{body}</dl></article>"
    )


def _break_card(facts, it):
    label = "asked for" if it["asked"] else "runs eagerly" if it["eager"] else "graph break"
    shown = f"<pre>{escaped(it['place'])}</pre>" if it["place"] else ""
    rows = [
        ("line", shown),
        ("why", escaped(it["why"])),
        ("inside", escaped(it["inside"])),
        ("try", f"<strong>{escaped(it['remedy'])}</strong>" if it["remedy"] else ""),
        ("id", f"<code>{escaped(it['reason'])}</code>"),
        ("ends", _piece_links(facts, it["pieces"])),
    ]
    kind = "disabled" if it["asked"] else "broken"
    return _card(kind, label, _place(facts, it["file"], it["line"]), escaped(it["message"]), rows)


def _error_card(facts, it):
    rows = [("says", f"<pre>{escaped(it['text'])}</pre>"), ("id", f"<code>{escaped(it['type'])}</code>")]
    return _card("broken", "error", _place(facts, it["file"], it["line"]), escaped(it["message"]), rows)


def _eager_card(facts, it):
    rows = [("why", escaped(it["why"])), ("try", f"<strong>{escaped(it['remedy'])}</strong>"),
            ("id", f"<code>{escaped(it['reason'])}</code>"), ("seen", plural(it["times"], "time"))]  # fmt: skip
    place = _place(facts, it["file"], it["line"])
    return _card("broken", "runs eagerly", place, escaped(it["message"]), rows)


def _same_recompiles(facts):
    """Those of one place with one cure, together: a number that keeps changing is one problem."""
    found = {}
    for it in facts["recompiles"]:
        found.setdefault((it["file"], it["line"], it["function"], it["remedy"], it["last"]), []).append(it)
    return list(found.values())


def _recompile_card(facts, notes):
    it = notes[0]
    label = "compiled too often" if it["last"] else "captured again" + (f" {len(notes)}×" if len(notes) > 1 else "")
    rows = [
        ("guard", "<br>".join(f"<code>{escaped(note['guard'])}</code>" for note in notes)),
        ("try", f"<strong>{escaped(it['remedy'])}</strong>" if it["remedy"] else ""),
        ("instead of", _piece_links(facts, [note["before"] for note in notes])),
    ]
    message = escaped(f"`{it['function']}`" + (" runs eagerly from now on" if it["last"] else ""))
    return _card("broken" if it["last"] else "recompiled", label, _place(facts, it["file"], it["line"]), message, rows)


def _piece_links(facts, numbers):
    known = {piece["n"]: piece["function"] for piece in facts["pieces"] if piece["runs"]}
    return ", ".join(
        f'<a href="#graphs" data-piece="{number}">piece {number} of <code>{escaped(known[number])}</code></a>'
        for number in numbers
        if number in known
    )


def _by_interest(facts):
    """Files with problems first, then those with the most captured lines."""
    bad = ("broken", "recompiled", "disabled")

    def interest(number):
        states = facts["files"][number]["states"].values()
        return -sum(state in bad for state in states), -len(states)

    return sorted(range(len(facts["files"])), key=interest)


def _file(facts, number):
    file = facts["files"][number]
    if not file["runs"]:
        return ""
    notes = _notes(facts, number)
    rows = []
    for start, texts in file["runs"]:
        if rows:
            rows.append('<div class="gap" aria-hidden="true">⋯</div>')
        rows.extend(_line(file, number, start + offset, text, notes) for offset, text in enumerate(texts))
    missing = "" if file["has_source"] else _NO_SOURCE
    path = escaped(file["path"])
    code = f'<div class="code">{"".join(rows)}</div>'
    return f'<section class="file"><h3 title="{path}">{path}</h3>{missing}{code}</section>'


def _line(file, number, line, text, notes):
    state = file["states"].get(line, "")
    words = f' title="{_STATE_WORDS[state]}"' if state else ""
    spans = "".join(f'<i class="{kind}">{escaped(part)}</i>' if kind else escaped(part) for kind, part in text)
    said = "".join(notes.get(line, ()))
    aside = f'<div class="notes">{said}</div>' if said else ""
    focus = ' tabindex="0"' if state else ""
    return (
        f'<div class="line {state}" id="L{number}-{line}"{words}{focus}><span class="no">{line}</span>'
        f"<code>{spans or ' '}</code></div>{aside}"
    )


def _notes(facts, number):
    notes = {}

    def add(it, kind, head, body):
        if it["file"] == number:
            text = f'<p class="note {kind}"><b>{escaped(head)}</b> {escaped(body)}'
            text += f"<br><b>try:</b> {escaped(it['remedy'])}</p>" if it["remedy"] else "</p>"
            notes.setdefault(it["line"], []).append(text)

    for it in facts["breaks"]:
        head = "asked for:" if it["asked"] else "runs eagerly:" if it["eager"] else "graph break:"
        add(it, "disabled" if it["asked"] else "broken", head, f"{it['message']} [{it['reason']}]")
    for it in facts["eager"]:
        add(it, "broken", "runs eagerly:", f"{it['message']} [{it['reason']}]")
    for it in facts["errors"]:
        add(it, "broken", f"{it['type']}:", it["message"])
    for same in _same_recompiles(facts):
        it, times = same[0], f" {len(same)}×" if len(same) > 1 else ""
        head = "compiled too often, eager from now on:" if it["last"] else f"captured again{times}:"
        add(it, "broken" if it["last"] else "recompiled", head, "; ".join(note["guard"] for note in same))
    return notes


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Firesteel report: {title}</title>
<style>
{style}
</style>
</head>
<body>
<a class="skip" href="#problems">to the problems</a>
<header>
<h1>Firesteel <span>{title}</span></h1>
{summary}
<form role="search" onsubmit="return false">
<label for="search">Search</label>
<input id="search" type="search" placeholder="operation, line, guard, kernel…   ( / )" autocomplete="off">
<button type="button" id="help-button" aria-expanded="false" aria-controls="help">Keys ?</button>
</form>
<nav aria-label="Sections"><a href="#problems">Problems</a><a href="#source">Source</a><a href="#graphs">Graphs</a>
<a href="#costs">Costs</a><a href="#guards">Guards</a><a href="#timeline">Timeline</a></nav>
</header>
<div id="help" hidden></div>
<div id="results" role="listbox" aria-label="Search results" hidden></div>
<main>
<section id="problems"><h2>Problems</h2>{problems}</section>
<section id="source"><h2>Source</h2><ul class="legend">{legend}</ul>{source}</section>
<section id="graphs"><h2>Graphs</h2><div id="graph-room"></div></section>
<section id="costs"><h2>Costs</h2>{costs}</section>
<section id="guards"><h2>Guards</h2><div id="guard-room"></div></section>
<section id="timeline"><h2>Timeline</h2><div id="time-room"></div></section>
</main>
<aside id="inspector" aria-live="polite" aria-label="What is selected" hidden></aside>
<footer>{about}</footer>
<script type="application/json" id="facts">{data}</script>
<script>
{script}
</script>
</body>
</html>
"""
