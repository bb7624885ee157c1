"""A hypothesis strategy for random programs: a function's text, and the calls to make of it."""

import contextlib
import re

from differential import Call, Program
from grammar import CHANGES, EXPRESSIONS, FEATURES, KINDS, STATEMENTS
from hypothesis import strategies as st

PLACE = re.compile(r"<(#|\w+(?:\.\w+)?)>")
PARAMETERS = {
    "x": "tensor", "y": "tensor", "items": "list", "table": "dict", "box": "box", "n": "int", "rest": "tuple",
    "flag": "bool", "options": "dict",
}  # fmt: skip
SIGNATURE = "x, y, items, table, box, n, *rest, flag=False, **options"
MOST_STATEMENTS = 24
DEEPEST_BLOCK = 3
DEEPEST_EXPRESSION = 2


class Writer:
    """Writes one program, choosing with `draw`; knows which names exist where it stands."""

    def __init__(self, draw, features):
        self.choose = lambda options: draw(st.sampled_from(options))
        self.features = features | {None}
        self.lines, self.indent, self.block_depth = [], 0, 0
        self.left = MOST_STATEMENTS
        self.names = []  # (name, kind, whether this function may assign it)
        self.made = 0
        self.in_loop = False
        self.results = []  # how each function around this place writes what it returns

    def line(self, text):
        self.lines.append("    " * self.indent + text)

    def fresh(self, kind):
        self.made += 1
        return f"{kind[0]}{self.made}"

    def variables(self, kind, assignable=False):
        found = [name for name, of, free in self.names if of == kind and (free or not assignable)]
        return list(dict.fromkeys(reversed(found)))

    # ---- expressions

    def expression(self, kind, depth=0):
        rows = [row for row in EXPRESSIONS[kind] if row[0] in self.features]
        if depth >= DEEPEST_EXPRESSION or not rows or self.choose([True, True, False]):
            return self.variable(kind)
        return self.fill(self.template(rows), depth + 1)

    def template(self, rows):
        """First a feature, then one of its templates: a feature with few of them is as likely as any."""
        feature = self.choose(list(dict.fromkeys(feature for feature, _ in rows)))
        return self.choose([text for of, text in rows if of == feature])

    def variable(self, kind):
        return self.choose(self.variables(kind)[:6] + KINDS[kind][: 2 if self.variables(kind) else None])

    def known(self, kind):
        return self.choose(self.variables(kind)[:6] or KINDS[kind])

    def result(self):
        kinds = list(dict.fromkeys(kind for _, kind, _ in self.names if kind != "genfn"))
        parts = [self.known(self.choose(kinds)) for _ in range(self.choose([1, 2, 3]))]
        return f"({', '.join(parts)},)"

    def fill(self, text, depth=0, born=None):
        def one(match):
            kind, _, how = match[1].partition(".")
            if kind == "#":
                return born["#"]
            if kind == "result":
                return self.results[-1]()
            if how == "v":
                return self.known(kind)
            if how == "set":
                return self.choose(self.variables(kind, assignable=True)[:6])
            if how:
                name = self.fresh(kind)
                born[how].append((name, kind, True))
                return name
            return self.expression(kind, depth)

        features = self.features
        if " for " in text:
            # A comprehension may hold no `:=`, and call nothing that could lengthen the list it walks over.
            self.features = features - {"walrus", "calls", "functional", "generators"}
        filled = PLACE.sub(one, text)
        self.features = features
        return filled

    # ---- statements

    def usable(self, feature, text):
        if feature not in self.features or (text.startswith("loop: ") and not self.in_loop):
            return False
        if ("<block>" in text or "<loop>" in text or "<function>" in text or "<generator>" in text) and (
            self.block_depth >= DEEPEST_BLOCK
        ):
            return False
        needed = [place[1].partition(".") for place in PLACE.finditer(text)]
        return all(self.variables(kind, assignable=True) for kind, _, how in needed if how == "set")

    def statement(self):
        self.left -= 1
        text = self.template([row for row in STATEMENTS if self.usable(*row)])
        if text in ("<function>", "<generator>"):
            return self.function(generator=text == "<generator>")
        counter = self.fresh("count") if "<#>" in text else None
        waiting = []  # names that end with the next block
        for line in text.removeprefix("loop: ").split("\n"):
            inner = len(line) - len(line.lstrip())
            born = {"#": counter, "new": [], "in": []}
            with self.indented(inner // 4):
                if line.strip() in ("<block>", "<loop>"):
                    self.block(loop="<loop>" in line)
                    self.names = [row for row in self.names if row not in waiting]
                    continue
                self.line(self.fill(line.strip(), born=born))
            self.names += born["new"] + born["in"]
            if line.endswith(":"):
                waiting = born["in"] or (waiting if inner and "if " in line else [])
        return None

    @contextlib.contextmanager
    def indented(self, by=1):
        self.indent += by
        yield
        self.indent -= by

    def block(self, loop=False):
        """One to three statements, in the place of a template's `<block>`; the names they make end with them."""
        names, in_loop = self.names.copy(), self.in_loop
        self.in_loop = in_loop or loop
        self.block_depth += 1
        for _ in range(min(self.choose([1, 1, 2, 3]), max(self.left, 1))):
            self.statement()
        self.block_depth -= 1
        self.names, self.in_loop = names, in_loop

    def function(self, generator):
        """A nested function of an int, or a generator of ints, that may assign variables of the one around it."""
        name = self.fresh("g" if generator else "f")
        names, in_loop, self.in_loop = self.names, self.in_loop, False
        around = dict.fromkeys(row[0] for row in names if row[2] and row[1] in ("int", "list", "tensor"))
        taken = [each for each in around if self.choose([False, True])] if around else []
        k, more, named = (f"{name}_{each}" for each in ("k", "more", "named"))
        self.line(f"def {name}({k}):" if generator else f"def {name}({k}=1, *{more}, k=2, **{named}):")
        self.names = [(each, kind, each in taken) for each, kind, _ in names]
        self.names.append((k, "int", True))
        if not generator:
            self.names += [(more, "tuple", True), (named, "dict", True)]
        self.results.append(lambda: self.expression("int"))
        with self.indented():
            self.declare(taken)
            if generator:
                self.line(f"for {name}_step in range({k} % 4):")
                self.names.append((f"{name}_step", "int", True))
                with self.indented():
                    self.block()
                    self.line(f"yield {self.expression('int')}")
            else:
                self.block()
            self.line(f"return {self.expression('int')}")
        self.results.pop()
        self.names, self.in_loop = [*names, (name, "genfn" if generator else "fn", False)], in_loop

    def declare(self, taken):
        if "globals" in self.features:
            self.line("global COUNT")
        if taken:
            self.line(f"nonlocal {', '.join(taken)}")

    def program(self):
        closed = "closures" in self.features
        if closed:
            self.line("def make():")
            self.indent += 1
            self.line("state, history = 3, [1]")
            self.names += [("state", "int", True), ("history", "list", True)]
        self.names += [(name, kind, True) for name, kind in PARAMETERS.items()]
        self.line(f"def program({SIGNATURE}):")
        self.results.append(self.result)
        with self.indented():
            self.declare(["state", "history"] if closed else [])
            for _ in range(self.choose([1, 2, 3, 4, 6, 8, 10])):
                if self.left > 0:
                    self.statement()
            self.line(f"return {self.result()}")
        if closed:
            self.line("return program")
            self.indent = 0
            self.line("program = make()")
        return "\n".join(self.lines) + "\n"


@st.composite
def calls(draw):
    """Several calls: the first as simple as can be, the later ones with something changed."""
    small = st.integers(-3, 6)
    made = [Call()]
    for _ in range(draw(st.integers(1, 4))):
        made.append(
            Call(
                seed=draw(st.integers(0, 3)),
                shape=draw(st.sampled_from([(2, 3), (3, 3), (3, 2), (1, 4), (3,)])),
                items=draw(st.sampled_from([(1, 2, 3), (), (5,), (2, 2, 9, 4)])),
                table=draw(st.sampled_from([(("a", 1),), (), (("b", 2), ("a", 3))])),
                value=draw(small),
                n=draw(st.one_of(st.just(2), small, st.booleans())),
                rest=draw(st.sampled_from([(), (4,), (4, 5)])),
                flag=draw(st.booleans()),
                options=draw(st.sampled_from([(), (("z", 1),)])),
                grad=draw(st.booleans()),
                alias=draw(st.sampled_from(["", "y is x", "y is a view of x", "box.items is items"])),
                reuse=draw(st.booleans()),
                before=draw(st.sampled_from(CHANGES)),
            )
        )
    return tuple(made)


@st.composite
def programs(draw):
    # A few features at a time: with all of them in every program, nearly none would be captured.
    features = draw(st.sets(st.sampled_from(FEATURES), min_size=2, max_size=7))
    return Program(Writer(draw, features).program(), draw(calls()))
