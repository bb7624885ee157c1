"""Writes a case as a program: the graph as text, how to make its inputs, and what is compared."""

import os

import torch

from .. import _files
from .cut import Case

_INLINE = 64  # elements of a tensor that is written out

_TEXT = '''"""{title}

Written by `firesteel minify`. {origin}
Run it: python {name} (ends with 1 where native code fails, with 0 where it agrees with ATen)
"""

import sys

import torch

import firesteel
from firesteel import _check

GRAPH = """
{graph}"""

{makers}
# One for each input of the graph.
INPUTS = [
{inputs}]


def main():
    graph = firesteel.parse_graph(GRAPH)
    torch.manual_seed(0)
    expected = graph.run(_check.copies(INPUTS))
    torch.manual_seed(0)
    found = graph.run(_check.copies(INPUTS), native=True)
    wrong = 0
    for output, aten, native in zip(graph.outputs, expected, found):
        what = _check.differs(aten, native)
        print(f"%{{output.name}}: {{what or 'agrees'}}".replace("eager", "ATen").replace("compiled", "native"))
        wrong += what is not None
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
'''

_RANDOM = '''
def random(seed, sizes, strides, dtype, low=None, high=None):
    """Numbers of a layout: normal ones, or from `low` to `high`."""
    made = torch.empty_strided(sizes, strides, dtype=dtype)
    numbers = torch.Generator().manual_seed(seed)
    if low is None:
        values = torch.randn(sizes, generator=numbers, dtype=torch.float64)
    elif dtype.is_floating_point:
        values = torch.rand(sizes, generator=numbers, dtype=torch.float64) * (high - low) + low
    else:
        values = torch.randint(low, high + 1, sizes, generator=numbers)
    return made.copy_(values)

'''
_GIVEN = '''
def given(values, sizes, strides, dtype):
    """A tensor of a layout, with these values."""
    return torch.empty_strided(sizes, strides, dtype=dtype).copy_(torch.as_tensor(values).reshape(sizes))

'''
_LOAD = """
SAVED = torch.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), {name!r}))

"""


class Input:
    """How one input is made: as text for the program, and as the tensor that this text makes."""

    def __init__(self, number, value, way):
        self.number, self.value = number, value
        self.layout = f"{tuple(value.shape)}, {tuple(value.stride())}, {value.dtype}"
        plain = value.dtype.is_floating_point or value.dtype in (torch.int64, torch.int32, torch.bool, torch.uint8)
        # Numbers that are none, and complex ones, are kept as they are.
        finite = plain and value.numel() > 0 and bool(torch.isfinite(value).all())
        self.way = way if finite else "saved"
        if self.way == "normal" and not value.dtype.is_floating_point:
            self.way = "range"

    @property
    def is_in_file(self):
        return self.way == "saved" and self.value.numel() > _INLINE

    def text(self):
        if self.way == "saved":
            if self.is_in_file:
                return f"SAVED[{self.number}]"
            return f"given({_numbers(self.value)}, {self.layout})"
        bounds = f", {_bound(self.value.min())}, {_bound(self.value.max())}" if self.way == "range" else ""
        return f"random({self.number}, {self.layout}{bounds})"

    def tensor(self):
        space = {"torch": torch}
        exec(_RANDOM + _GIVEN, space)
        return self.value if self.is_in_file else eval(self.text(), space | {"inf": float("inf"), "nan": float("nan")})


def _bound(value):
    return float(value) if value.dtype.is_floating_point else int(value)


def _numbers(value):
    text = str(value.flatten().tolist())
    return text.replace("nan", 'float("nan")').replace("inf", 'float("inf")')


def simplest_inputs(case, judge, kind):
    """The inputs of the first way that fails as the case does: random ones, random ones of the same range, as given."""
    for way in ("normal", "range"):
        inputs = [Input(number, value, way) for number, value in enumerate(case.inputs)]
        found = judge(Case(case.text, [it.tensor() for it in inputs]))
        if found and found[0] == kind:
            return inputs
    return [Input(number, value, "saved") for number, value in enumerate(case.inputs)]


def write(path, case, inputs, title, origin):
    """Writes the program, and beside it a .pt file where inputs are too large to be written out; gives both paths."""
    paths = [path]
    makers = ""
    texts = [it.text() for it in inputs]
    if any(text.startswith("random(") for text in texts):
        makers += _RANDOM
    if any(text.startswith("given(") for text in texts):
        makers += _GIVEN
    saved = {it.number: it.value.detach() for it in inputs if it.is_in_file}
    if saved:
        paths.append(os.path.splitext(path)[0] + ".pt")
        torch.save(saved, paths[1])
        makers += _LOAD.format(name=os.path.basename(paths[1]))
    text = _TEXT.format(title=title, origin=origin, name=os.path.basename(path), graph=case.text, makers=makers,
                        inputs="".join(f"    {line},\n" for line in texts))  # fmt: skip
    _files.write(path, text.replace("import sys\n", "import os\nimport sys\n", 1) if saved else text)
    return paths
