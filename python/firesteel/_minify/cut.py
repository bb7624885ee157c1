"""Parts of an ATen graph as graphs of their own: what they read of the rest become inputs."""

import dataclasses

import torch

from .. import _C, _check


@dataclasses.dataclass(frozen=True)
class Case:
    """A graph as text, and one tensor for each of its inputs."""

    text: str
    inputs: list

    @property
    def graph(self):
        return _C.parse_graph(self.text)


class Cutter:
    """A graph with every value that it computes, so that any of its operators can be taken out and run alone."""

    def __init__(self, case):
        self._graph = case.graph
        self.nodes = self._graph.nodes
        self._types = {value.name: value.type.removesuffix(" grad") for value in self._graph.inputs}
        self._made_by = {}
        for number, node in enumerate(self.nodes):
            for value in node.outputs:
                self._types[value.name] = value.type.removesuffix(" grad")
                self._made_by[value.name] = number
        self._values = dict(zip((value.name for value in self._graph.inputs), case.inputs, strict=True))
        self._compute(case)

    def _compute(self, case):
        """All that the graph computes, as ATen does."""
        names = [name for name in self._made_by if self._types[name] != "none"]
        text = self._text(range(len(self.nodes)), [value.name for value in self._graph.inputs], names)
        self._values.update(zip(names, run(Case(text, case.inputs)), strict=True))

    @property
    def outputs(self):
        """Names of the graph's results that it computes itself, each once."""
        names = [value.name for value in self._graph.outputs if isinstance(value, _C.Value)]
        return [name for name in dict.fromkeys(names) if name in self._made_by]

    def needed(self, numbers, outputs):
        """Those of the operators that the results need."""
        wanted, kept = set(outputs), []
        for number in sorted(numbers, reverse=True):
            node = self.nodes[number]
            if wanted.intersection(node.names):
                kept.append(number)
                wanted.update(node.inputs)
        return kept[::-1]

    def open_results(self, numbers):
        """What these operators compute and none of them reads, or what the graph gives back."""
        read = {name for number in numbers for name in self.nodes[number].inputs}
        given = set(self.outputs)
        return [name for number in numbers for name in self.nodes[number].names
                if self._types[name] != "none" and (name not in read or name in given)]  # fmt: skip

    def case(self, numbers, outputs):
        """These operators alone, in their order; every value that they do not compute themselves is given to them."""
        made = {name for number in numbers for name in self.nodes[number].names}
        inputs = list(dict.fromkeys(name for number in numbers for name in self.nodes[number].inputs
                                    if name not in made))  # fmt: skip
        return Case(self._text(numbers, inputs, outputs), [self._values[name] for name in inputs])

    def _text(self, numbers, inputs, outputs):
        lines = [f"graph repro({', '.join(f'%{name}: {self._types[name]}' for name in inputs)}) {{"]
        for number in numbers:
            node = self.nodes[number]
            at = node.source
            lines.append(f"  {node!r}" + (f"  # {at.file.rsplit('/', 1)[-1]}:{at.line} {at.function}" if at else ""))
        return "\n".join([*lines, f"  return {', '.join(f'%{name}' for name in outputs)}", "}", ""])


def run(case, native=False):
    """The results of a case; the same random numbers each time."""
    state = torch.get_rng_state()
    try:
        torch.manual_seed(0)
        # Kernels may write over what they are given.
        return case.graph.run(_check.copies([value.detach() for value in case.inputs]), native=native)
    finally:
        torch.set_rng_state(state)


def failure(case):
    """How native code fails where ATen does not: ("differs", where, number of the result), (error type, text, None)."""
    try:
        expected = run(case)
    except Exception:
        return None  # the case makes no sense
    try:
        found = run(case, native=True)
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0] if str(error) else "", None
    for number, (a, b) in enumerate(zip(expected, found, strict=True)):
        if (a is None) != (b is None):
            return "differs", f"result {number + 1} is missing", number
        if a is not None and (what := _check.differs(a, b)):
            return "differs", f"result {number + 1}: {what}", number
    return None
