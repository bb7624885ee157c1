"""How numbers, paths and advice are worded, wherever Firesteel speaks to people."""

import os
import re

_MODEL = re.compile(r"Type self <class '(?:[^']*\.)?([^'.]+)'>")


def plural(number, noun):
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def milliseconds(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms"


def short_time(seconds):
    """Three digits, with the unit that fits."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def short_bytes(count):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count} B"


def short_path(path):
    """From the current folder on where it lies below; code without a file keeps its name, `<string>`."""
    try:
        below = os.path.relpath(path) if os.path.isabs(path) else path
    except (OSError, ValueError):
        return path
    return path if below.startswith("..") else below


def shown_name(entry):
    """A piece's function; of a compiled module, whose call starts in torch, the class of the module."""
    if not entry["function"].startswith("Module._"):
        return entry["function"]
    models = (_MODEL.match(guard) for guard in entry["guards"])
    return next((found[1] for found in models if found), entry["function"])


def shown_place(entry):
    """File and line of a piece; of one that starts in torch, as a compiled module's does, the first of the user's."""
    if shown_name(entry) == entry["function"]:
        return entry["file"], entry["line"]
    return next((place for place in entry["lines"] if place), (entry["file"], entry["line"]))


def remedy_without_fullgraph(remedy):
    """Advice for one who has not forbidden graph breaks."""
    return remedy.removesuffix("drop fullgraph=True").rstrip(" ,").removesuffix(" or").rstrip(",")
