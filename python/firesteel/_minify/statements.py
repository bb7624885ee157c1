"""Takes statements away from a program while it fails in the same way: for faults that no graph of operators shows."""

import ast
import copy


class ProgramReducer:
    """`fails(source)` says whether a program still fails as the first did; `tell(count)` hears of each smaller one."""

    def __init__(self, source, fails, tell=lambda count: None, most_tries=400):
        self._tree = ast.parse(source)
        _drop_texts(self._tree)
        self._fails, self._tell = fails, tell
        self._tries_left = most_tries
        self.tries = 0

    @property
    def source(self):
        return ast.unparse(self._tree) + "\n"

    @property
    def count(self):
        return len(_statements(self._tree))

    def start(self):
        """Whether the program fails at all when it is run as the pieces of it will be."""
        return self._try(self._tree)

    def reduce(self):
        """Gives the smallest program that was found; start() comes first."""
        before = None
        while before != self.count and self._tries_left > 0:
            before = self.count
            self._drop_chunks()
            self._unwrap()
        return self.source

    def _try(self, tree):
        if self._tries_left <= 0:
            return False
        self._tries_left -= 1
        self.tries += 1
        return self._fails(ast.unparse(tree) + "\n")

    def _take(self, tree):
        if not self._try(tree):
            return False
        self._tree = tree
        self._tell(self.count)
        return True

    def _drop_chunks(self):
        """First many at a time, from the end, as what comes late is needed least; at last one by one."""
        size = max(self.count // 2, 1)
        while True:
            shrunk = False
            end = self.count
            while end > 0:
                gone = set(range(max(end - size, 0), end))
                shrunk = self._take(_without(self._tree, gone)) or shrunk
                end = min(end - size, self.count)
            if size == 1:
                if not shrunk:
                    return
            else:
                size //= 2

    def _unwrap(self):
        """`if`, `for`, `with` and `try` give way to what they hold."""
        number = 0
        while number < self.count:
            for body in _bodies(_statements(self._tree)[number]):
                if self._take(_replaced(self._tree, number, body)):
                    break
            else:
                number += 1


_BODIES = ("body", "orelse", "finalbody")
_UNWRAPPED = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def _drop_texts(tree):
    """Docstrings and other texts that stand alone."""
    for node in ast.walk(tree):
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                kept = [it for it in body if not (isinstance(it, ast.Expr) and isinstance(it.value, ast.Constant))]
                setattr(
                    node, name, kept or ([ast.Pass()] if name == "body" and not isinstance(node, ast.Module) else [])
                )


def _statements(tree):
    """All of them in the order of the text; those inside come after the one around them."""
    found = []

    def visit(body):
        for statement in body:
            if isinstance(statement, ast.Pass):
                continue
            found.append(statement)
            for name in _BODIES:
                visit(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                visit(handler.body)

    visit(tree.body)
    return found


def _rewritten(tree, change):
    """A copy whose bodies hold change(number, statement), a list, for each statement."""
    tree = copy.deepcopy(tree)
    numbers = {id(statement): number for number, statement in enumerate(_statements(tree))}

    def visit(node):
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                made = []
                for statement in body:
                    visit(statement)
                    number = numbers.get(id(statement))
                    made += [statement] if number is None else change(number, statement)
                needs_one = name == "body" and not isinstance(node, ast.Module)
                setattr(node, name, made or ([ast.Pass()] if needs_one else []))
        for handler in getattr(node, "handlers", []):
            visit(handler)

    visit(tree)
    return ast.fix_missing_locations(tree)


def _without(tree, gone):
    return _rewritten(tree, lambda number, statement: [] if number in gone else [statement])


def _bodies(statement):
    if not isinstance(statement, _UNWRAPPED):
        return []
    return [body for name in _BODIES if (body := getattr(statement, name, []))]


def _replaced(tree, target, body):
    kept = copy.deepcopy(body)
    return _rewritten(tree, lambda number, statement: kept if number == target else [statement])
