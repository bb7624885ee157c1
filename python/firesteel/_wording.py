"""How numbers, paths and advice are worded, wherever Firesteel speaks to people."""

import os


def plural(number, noun):
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def milliseconds(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms"


def short_path(path):
    """From the current folder on where it lies below; code without a file keeps its name, `<string>`."""
    try:
        below = os.path.relpath(path) if os.path.isabs(path) else path
    except (OSError, ValueError):
        return path
    return path if below.startswith("..") else below


def remedy_without_fullgraph(remedy):
    """Advice for one who has not forbidden graph breaks."""
    return remedy.removesuffix("drop fullgraph=True").rstrip(" ,").removesuffix(" or").rstrip(",")
