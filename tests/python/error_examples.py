"""One small program for each id of docs/errors.md, and the page made of them: python … --page docs/errors.md."""

import linecache
import logging
import sys

import torch

import firesteel

HEAD = "import torch, firesteel\n\n\n"
CALL = "\n\nfiresteel.compile(f, fullgraph=True)(torch.ones(3))\n"

# Programs that end with the error of their id.
EXAMPLES = {
    "FS-C-FUNCTION": """
from binascii import crc_hqx


def f(x):
    return x * crc_hqx(b"firesteel", 0)
""",
    "FS-DATA-DEPENDENT": """
def f(x):
    if x.sum() > 0:
        x = x + 1
    return x.sin()
""",
    "FS-EXCEPTION": """
def f(x):
    if x.dim() == 1:
        raise ValueError("a matrix is needed")
    return x.sin()


try:
    firesteel.compile(f)(torch.ones(3))
except ValueError as error:
    print(error)
""",
    "FS-WRITE": """
def f(x):
    f.calls = 1
    return x.sin()
""",
    "FS-ITERATOR": """
numbers = map(abs, [1, 2, 3])


def f(x):
    return x * next(numbers)
""",
    "FS-GENERATOR": """
def f(x):
    yield x.sin()
""",
    "FS-TENSOR-KIND": """
def f(x):
    return x.to_sparse() * 2


firesteel.compile(lambda x: x * 2, fullgraph=True)(torch.ones(3).to_sparse())
""",
    "FS-AUTOGRAD": """
def f(x):
    y = x.sin()
    y.sum().backward()
    return y


firesteel.compile(f, fullgraph=True)(torch.ones(3, requires_grad=True))
""",
    "FS-ATTRIBUTE": """
import datetime

day = datetime.date(2026, 11, 19)


def f(x):
    return x * day.year
""",
    "FS-VALUE": """
class Thing:
    pass


thing = Thing()


def f(x):
    return x * len(repr(thing))
""",
    "FS-ORIGIN": """
import operator

shift = operator.methodcaller("add", torch.ones(3))


def f(x):
    return shift(x)
""",
    "FS-ARGUMENT": """
class Meters:
    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*(it.value if isinstance(it, cls) else it for it in args))


width = Meters(2)


@firesteel.allow_in_graph
def scaled(x, width):
    return x * width.value


def f(x):
    return scaled(x, width)
""",
    "FS-CREATION": """
class Handle:
    def __del__(self):
        pass


def f(x):
    handle = Handle()
    return x.sin()
""",
    "FS-RESULT": """
def f(x):
    numbers = (n for n in range(3))
    next(numbers)
    return x.sin(), numbers
""",
    "FS-TRACE": """
class Weights:
    def __init__(self, ends):
        self.ends = ends


class Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ends):
        ctx.weights = Weights(ends)  # an object of this call, which no graph can keep
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * sum(ctx.weights.ends.tolist()), None


def f(x, ends):
    return Parts.apply(x, ends)


firesteel.compile(f, fullgraph=True)(torch.ones(3, requires_grad=True), torch.tensor([1, 3]))
""",
    "FS-NONSTRICT-MUTATION": """
@firesteel.nonstrict_trace
def keep(items, x):
    items.append(x)
    return x


def f(x):
    return keep([], x)
""",
    "FS-DEPTH": """
def f(x, depth=600):
    return x.sin() if depth == 0 else f(x, depth - 1)
""",
    "FS-MONITORED": """
import sys


def f(x):
    return x.sin()


sys.settrace(lambda *event: None)
try:
    firesteel.compile(f, fullgraph=True)(torch.ones(3))
finally:
    sys.settrace(None)
""",
    "FS-MODES": """
from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def f(x):
    return x.sin()


with Watch():
    firesteel.compile(f, fullgraph=True)(torch.ones(3))
""",
    "FS-RECOMPILE-LIMIT": """
def f(x, names):
    return x * len(names)


compiled = firesteel.compile(f, fullgraph=True, recompile_limit=2)
for count in range(4):
    compiled(torch.ones(3), ("name",) * count)
""",
    "FS-IMPORT": """
def f(x):
    import this_is_imported_late

    return x.sin()
""",
    "FS-GRAPH-BREAK": """
def f(x):
    firesteel.graph_break("look here")
    return x.sin()
""",
    "FS-DISABLED": """
@firesteel.disable
def log(x):
    return x


def f(x):
    return log(x.sin())
""",
    "FS-DISALLOWED": """
firesteel.disallow_in_graph(torch.sin)


def f(x):
    return torch.sin(x)
""",
    "FS-SKIP-FRAME": """
def f(x):
    firesteel.skip_frame("not worth it")
    return x.sin()
""",
    "FS-STANCE": """
def f(x):
    return x.sin()


compiled = firesteel.compile(f, fullgraph=True)
with firesteel.set_stance("fail_on_recompile"):
    compiled(torch.ones(3))
""",
}


def program(name):
    text = EXAMPLES[name].strip("\n") + "\n"
    return HEAD + text + ("" if "firesteel.compile(" in text else CALL)


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.text = ""

    def emit(self, record):
        self.text += record.getMessage() + "\n"


def said(name):
    """The error that the program of an id ends with, as text; where it ends well, the lines of the log of breaks."""
    code = program(name)
    lines = Lines()
    logging.getLogger("firesteel.breaks").addHandler(lines)
    linecache.cache["example.py"] = (len(code), None, code.splitlines(keepends=True), "example.py")
    try:
        with firesteel.logs("breaks"):
            exec(compile(code, "example.py", "exec"), {"__name__": "example"})
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__qualname__}: {error}\n"
    finally:
        firesteel.reset()
        firesteel.set_stance("default")
        firesteel.allow_in_graph(torch.sin)
        linecache.cache.pop("example.py", None)
        logging.getLogger("firesteel.breaks").removeHandler(lines)
    return lines.text


# Ids that no small program shows.
WITHOUT_EXAMPLE = {
    "FS-OPCODE": "No function that CPython compiles holds such an instruction; one that a tool has put together may.",
    "FS-UNSTABLE": "A value that is another one each time it is read.",
    "FS-CONTROL": "A break that a test forces.",
    "FS-NUMPY": "Where Firesteel stands in for torch.compile (`python -m firesteel`, `install()`), numpy's functions "
    "become torch's: this is met where there is none, as for `.tobytes()` of an array, or `out=`.",
    "FS-HOOK": "It needs another tool that takes CPython's frame hook at the same moment.",
    "FS-PYTHON": "It is met on versions of Python that Firesteel was not built for.",
    "FS-INTERRUPT": "Ctrl-C during a capture: the KeyboardInterrupt is raised as ever.",
    "FS-INTERNAL": "A mistake of Firesteel's own: the call is run eagerly.",
}

INTRODUCTION = """# Every id: cause and cure

What stands in brackets behind a reason, in errors, logs and reports. Without `fullgraph=True` none of these is an
error: the graph ends there, the instruction runs eagerly, and the code behind it is compiled again. The programs below
end with the error that is shown, word for word: where it happened, the reason with its id, and what to try; or, where
nothing forbids it, run eagerly and are told of by that line of `FIRESTEEL_LOGS=breaks`.

"""


def section(name):
    """A part of docs/errors.md."""
    what, why, remedy = firesteel._C._break_reasons()[name]
    rows = [("what happened", what.replace("{}", "…")), ("why it matters", why), ("what to do", remedy)]
    text = f"## {name}\n| | |\n| --- | --- |\n" + "".join(f"| {key} | {words or '–'} |\n" for key, words in rows) + "\n"
    if name in WITHOUT_EXAMPLE:
        return f"{text}{WITHOUT_EXAMPLE[name]}\n"
    return f"{text}```python\n{program(name)}```\n```text\n{said(name)}```\n"


def page():
    return INTRODUCTION + "\n".join(section(name) for name in firesteel._C._break_reasons())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--page"]:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(page())
    else:
        for name in sys.argv[1:] or EXAMPLES:
            print("=====", name, said(name), sep="\n")
