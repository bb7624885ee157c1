"""The user's source in a report: the functions that matter, and what became of each line."""

import ast
import io
import keyword
import linecache
import os
import tokenize

_CONTEXT = 3  # lines around one that stands in no function

# What a line can be, the strongest last.
STATES = ("captured", "opaque", "recompiled", "disabled", "broken")


def files(paths, found):
    """For each file: its shown lines in runs, and the states of lines."""
    states = [{} for _ in paths]

    def mark(place, state):
        if place is None:
            return
        file, line = place
        before = states[file].get(line)
        if before is None or STATES.index(state) > STATES.index(before):
            states[file][line] = state

    for piece in found["pieces"]:
        for row in piece["nodes"]:
            mark(row[5], "opaque" if row[7] else "captured")
        for part in piece["parts"]:
            for row in part["nodes"]:
                mark(row[5], "captured")
    for note in found["recompiles"]:
        mark((note["file"], note["line"]), "recompiled")
    for broken in found["breaks"]:
        mark((broken["file"], broken["line"]), "disabled" if broken["asked"] else "broken")
    for problem in (*found["eager"], *found["errors"]):
        mark((problem["file"], problem["line"]), "broken")
    return [_file(path, states[i]) for i, path in enumerate(paths)]


def _file(path, states):
    lines = [line.rstrip("\n") for line in linecache.getlines(path)] if states else []
    touched = sorted(line for line in states if line > 0)
    return {
        "path": path,
        "name": os.path.basename(path) or path,
        "has_source": bool(lines),
        "states": states,
        "runs": _runs(lines, touched),
    }


def _runs(lines, touched):
    """[first line, its texts] of each stretch that is shown."""
    if not lines:
        return [[line, [[]]] for line in touched]  # its place, and no text
    shown = set()
    spans = _functions("\n".join(lines))
    for line in touched:
        first, last = spans.get(line, (line - _CONTEXT, line + _CONTEXT))
        shown.update(range(max(first, 1), min(last, len(lines)) + 1))
    runs = []
    for line in sorted(shown):
        if runs and runs[-1][0] + len(runs[-1][1]) == line:
            runs[-1][1].append(lines[line - 1])
        else:
            runs.append([line, [lines[line - 1]]])
    return [[first, _coloured(texts)] for first, texts in runs]


def _functions(text):
    """For each line the first and last line of the innermost function around it, decorators included."""
    spans = {}

    def visit(node, around):
        for child in ast.iter_child_nodes(node):
            span = around
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                span = (first, child.end_lineno)
                for line in range(first, child.end_lineno + 1):
                    spans[line] = span
            visit(child, span)

    try:
        visit(ast.parse(text), None)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return spans


def _coloured(lines):
    """Each line as [kind, text] pairs: kinds are k (keyword), s (text), c (comment), n (number) and '' (the rest)."""
    marks = [[] for _ in lines]
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            kind = _kind(token)
            if not kind:
                continue
            (first, begin), (last, end) = token.start, token.end
            for line in range(first, min(last, len(lines)) + 1):
                left = begin if line == first else 0
                right = end if line == last else len(lines[line - 1])
                marks[line - 1].append((left, right, kind))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # what could be read is coloured
    return [_pieces(line, found) for line, found in zip(lines, marks, strict=True)]


def _kind(token):
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "k"
    return {tokenize.STRING: "s", tokenize.COMMENT: "c", tokenize.NUMBER: "n"}.get(token.type, "")


def _pieces(line, found):
    pieces, at = [], 0
    for left, right, kind in found:
        if left > at:
            pieces.append(["", line[at:left]])
        pieces.append([kind, line[left:right]])
        at = right
    if at < len(line):
        pieces.append(["", line[at:]])
    return pieces
