"""Writes random Python programs over tensors, for hypothesis: views, writes, reductions, products, random numbers.

A program is text, so that a failing one can be read and pasted. Each line is a template of LINES with its holes filled,
and was first tried on scout values: a line that eager PyTorch refuses, or that makes huge values, is left out.
"""

import re
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st

SHAPES = [(3, 4), (4, 4), (4,), (2, 3, 4), (1, 4), (2, 2, 3, 4), ()]
FLOATS = (torch.float64, torch.float32)
MOST_ELEMENTS = 400
LARGEST = 1e3

# Holes: x any float tensor, y one that broadcasts with it, z one that broadcasts to it, m a matrix, n a matrix that m
# may be multiplied by, k an integer tensor, b a boolean one, d and e dimensions of x, i an index along d, r a small
# positive number, u a float tensor that no other shares memory with. Lines of WRITES stand as they are, all others make
# a value.
VIEWS = [
    "{x}.transpose({d}, {e})",
    "{x}.select({d}, {i})",
    "{x}.narrow({d}, 0, 1)",
    "{x}[..., ::2]",
    "{x}[1:]",
    "{x}[:, {i}:]",
    "{x}[None]",
    "{x}[..., 0]",
    "{x}.unsqueeze({d})",
    "{x}.squeeze()",
    "{x}.squeeze({d})",
    "{x}.reshape(-1)",
    "{x}.flatten()",
    "{x}.view(-1)",
    "{x}.expand(2, *{x}.shape)",
    "{x}.mT",
    "{x}.movedim({d}, {e})",
    "{x}.diagonal()",
    "{x}.unfold({d}, 2, 1)",
    "{x}.chunk(2, {d})[-1]",
    "{x}.split(2, {d})[0]",
    "{x}.unbind({d})[{i}]",
    "{x}.swapaxes({d}, {e})",
    "{x}.unflatten({d}, (1, -1))",
    "{u}.as_strided((2, 2), (1, 2))",
    "{x}.detach()",
    "{x}.view_as({x})",
]

VALUES = [
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / ({y}.abs() + 1)",
    "{x} * {r}",
    "1 - {x}",
    "{x}.sin()",
    "{x}.tanh()",
    "{x}.sigmoid()",
    "{x}.relu()",
    "{x}.abs()",
    "{x}.neg()",
    "{x}.clamp(-1, 1)",
    "{x}.pow(2)",
    "{x}.clamp(max=2).exp()",
    "({x}.abs() + 1).log()",
    "{x}.square().add(1).rsqrt()",
    "{x}.lerp({y}, 0.3)",
    "torch.where({x} > 0, {x}, {y})",
    "torch.maximum({x}, {y})",
    "torch.addcmul({x}, {y}, {z}, value=0.5)",
    "{x}.masked_fill({x} > 0.5, 0.25)",
    "torch.where({b}, {x}, 0.0)",
    "F.gelu({x})",
    "F.softplus({x})",
    "F.leaky_relu({x}, 0.1)",
    "F.hardswish({x})",
    "F.pad({x}, (1, 1))",
    "F.layer_norm({x}, {x}.shape[-1:])",
    "F.normalize({x}, dim={d})",
    "{x}.softmax({d})",
    "{x}.log_softmax({d})",
    "{x}.clone()",
    "{x}.contiguous()",
    "{x}.flip({d})",
    "{x}.roll(1, {d})",
    "{x}.tril()",
    "{x}.repeat(2, *[1] * {x}.dim())",
    "{x}.cumsum({d})",
    "{x}.float()",
    "{x}.double()",
    "torch.cat([{x}, {x}], {d})",
    "torch.stack([{x}, {z}.expand_as({x})], {d})",
    "torch.zeros_like({x})",
    "torch.full_like({x}, {r})",
    "torch.cat([{x}[..., 1:], {x}[..., :1]], -1)",
    "torch.special.expit({x})",
    "torch.view_as_real(torch.complex({x}, {x}).exp()).clone()",
]

REDUCTIONS = [
    "{x}.sum()",
    "{x}.sum({d})",
    "{x}.mean({d}, keepdim=True)",
    "{x}.mean()",
    "{x}.amax({d})",
    "{x}.max({d}).values",
    "{x}.var({d}, correction=0)",
    "{x}.std(correction=0)",
    "{x}.logsumexp({d})",
    "{x}.norm()",
    "{x}.prod({d})",
    "{x}.median({d}).values",
    "{x}.sort({d}).values",
    "{x}.topk(1, {d}).values",
]

PRODUCTS = [
    "{m} @ {n}",
    "{m}.T @ {m}",
    "{m} @ {m}.mT",
    "torch.einsum('ij,kj->ik', {m}, {m})",
    "F.linear({x}, {x}.new_ones(3, {x}.shape[-1]))",
    "torch.bmm({m}[None], {n}[None])",
    "torch.outer({x}.reshape(-1), {y}.reshape(-1)[:2])",
    "torch.dot({x}.reshape(-1), {x}.reshape(-1))",
    "torch.baddbmm({m}.new_zeros(1), {m}[None], {n}[None])",
]

INTEGERS = [
    "{x}.argmax({d})",
    "{x}.argsort({d})",
    "{k} + 1",
    "{k} * {k}",
    "{k} // 2",
    "{k}.remainder(3)",
    "{k}.sum()",
    "{k}[None]",
    "{k}.reshape(-1)",
    "{x} > {y}",
    "{x}.isnan()",
    "~{b}",
    "{b} & ({b} == {b})",
    "{b}.any()",
    "{k}.double() * 0.1",
    "{b}.to(torch.float64)",
    "{b}.sum()",
    "torch.arange({x}.shape[-1])",
]

INDEXING = [
    "{x}.index_select({d}, {k}.reshape(-1).remainder({x}.shape[{d}]))",
    "{x}[{k}.reshape(-1).remainder({x}.shape[0])]",
    "{x}.gather({d}, {x}.argsort({d}))",
    "{x}.take_along_dim({x}.argmax({d}, keepdim=True), {d})",
    "F.embedding({k}.remainder({m}.shape[0]), {m})",
    "F.one_hot({k}.remainder(3), 3) * {r}",
]

RANDOM = [
    "F.dropout({x}, 0.5)",
    "torch.rand_like({x})",
    "torch.randn(3, 4, dtype={x}.dtype)",
    "torch.bernoulli({x}.sigmoid())",
    "{x} + torch.randint(0, 3, {x}.shape)",
]

WRITES = [
    "{x}.add_({z})",
    "{x}.mul_({z})",
    "{x}.sub_({z}, alpha=0.5)",
    "{x}.mul_({r})",
    "{x}.copy_({z})",
    "{x}.zero_()",
    "{x}.fill_({r})",
    "{x}.sin_()",
    "{x}.tanh_()",
    "{x}.relu_()",
    "{x}.clamp_(-0.5, 0.5)",
    "{x}.masked_fill_({x} > 0, {r})",
    "{x}.addcmul_({z}, {z}, value=0.1)",
    "{x}.index_add_({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1).clone())",
    "{x}.scatter_({d}, {x}.argmax({d}, keepdim=True), {r})",
    "{x}.index_fill_({d}, torch.tensor([0]), {r})",
    "{x}.lerp_({z}, 0.25)",
    "{x} += {z}",
    "{x} *= {r}",
    "{x}[0] = {r}",
    "{x}[..., 1:] = 0",
    "{x}[None][{x}[None] > 1] = 1",
    "{x}[..., ::2] *= 2",
    "{x}[torch.tensor([0])] += 1",
    "{x}.transpose({d}, {e}).add_(1)",
    "{x}.view(-1)[:2].mul_(2)",
    "{x}.select({d}, {i}).copy_({r} * torch.ones_like({x}.select({d}, {i})))",
    "{x}.diagonal().fill_({r})",
    "{u}.unsqueeze_(0)",
    "{u}.t_()",
    "{u}.squeeze_()",
    "{u}.transpose_(0, -1)",
    "{x}.uniform_()",
    "{x}.normal_()",
    "{x}.bernoulli_(0.5)",
    "{x}.detach().mul_(2)",
    "{k}.add_(1)",
    "{k}.mul_(2)",
    "{b}.logical_not_()",
    "torch.mul({x}, 2, out={x}.detach())",
    "F.relu({x}, inplace=True)",
    "torch.add({x}, 1, out=torch.empty(0, dtype={x}.dtype))",
]

MODES = ["with torch.no_grad(): {w}", "with torch.no_grad(): {name} = {v}", "with torch.enable_grad(): {name} = {v}"]

FAMILIES = [
    VIEWS,
    VIEWS,
    VALUES,
    VALUES,
    REDUCTIONS,
    PRODUCTS,
    INTEGERS,
    INDEXING,
    RANDOM,
    WRITES,
    WRITES,
    WRITES,
    MODES,
]


@dataclass(frozen=True)
class Input:
    """kind: plain; leaf (needs a gradient); inner (the result of an operator that needs one); slice (shares the memory
    of the input before it); same (is the input before it)."""

    kind: str
    shape: tuple
    dtype: torch.dtype


@dataclass
class Program:
    inputs: list[Input]
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def text(self):
        names = ", ".join(input_names(self.inputs))
        body = [*self.lines, f"return {', '.join(self.results)},"]
        return f"def program({names}):\n" + "".join(f"    {line}\n" for line in body)

    def function(self):
        return compiled(self.text())["program"]

    def _repr_pretty_(self, printer, cycle):
        """How hypothesis shows it."""
        kinds = [f"{one.kind} {one.dtype} {list(one.shape)}" for one in self.inputs]
        printer.text(f"\n# inputs: {'; '.join(kinds)}\n{self.text()}")


def compiled(text):
    scope = {"torch": torch, "F": torch.nn.functional}
    exec(text, scope)
    return scope


def input_names(inputs):
    return [chr(ord("a") + i) for i in range(len(inputs))]


def make_inputs(inputs, seed):
    """(leaves, arguments) with values drawn from that seed."""
    generator = torch.Generator().manual_seed(seed)
    leaves, arguments = [], []
    for one in inputs:
        if one.kind == "same" and arguments:
            arguments.append(arguments[-1])
            continue
        if one.kind == "slice" and arguments and arguments[-1].dim() > 0:
            arguments.append(arguments[-1][-2:])
            continue
        if one.dtype in FLOATS:
            value = torch.randn(one.shape, generator=generator, dtype=one.dtype)
        else:
            value = torch.randint(0, 2 if one.dtype == torch.bool else 5, one.shape, generator=generator).to(one.dtype)
        if one.kind in ("leaf", "inner"):
            leaves.append(value.requires_grad_())
            value = value * 1 if one.kind == "inner" else value
        arguments.append(value)
    return leaves, arguments


def broadcasts(shape, other):
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(shape), reversed(other), strict=False))


def broadcasts_to(value, target):
    pairs = zip(reversed(value.shape), reversed(target.shape), strict=False)
    return value.dim() <= target.dim() and all(a in (1, b) for a, b in pairs)


def share_memory(one, other):
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


class Scout:
    """The values that a program has so far, and the choice among them."""

    def __init__(self, draw, inputs):
        self.draw = draw
        self.scope = {"torch": torch, "F": torch.nn.functional}
        self.values = dict(zip(input_names(inputs), make_inputs(inputs, seed=0)[1], strict=True))
        self.made = 0
        self.writes = False

    def choose(self, options):
        return self.draw(st.sampled_from(options)) if options else None

    def named(self, suits):
        return self.choose([name for name, value in self.values.items() if suits(value)])

    def is_alone(self, value):
        return sum(share_memory(value, other) for other in self.values.values()) == 1

    def may_meet(self, written, read):
        """What is written to may be read in the same line only as a whole: else the result depends on the kernel."""
        return not self.writes or read is written or not share_memory(read, written)

    def fill(self, template):
        """The template with its holes filled, or None where nothing fits one of them."""
        filled = {}
        for hole in dict.fromkeys(re.findall(r"{(\w+)}", template)):
            filled[hole] = self.fill_hole(hole, filled)
            if filled[hole] is None:
                return None
        return template.format(**filled)

    def fill_hole(self, hole, filled):
        x = self.values.get(filled.get("x"))
        if hole == "x":
            return self.named(lambda v: v.dtype in FLOATS and not (self.writes and overlaps_itself(v)))
        if hole == "u":  # PyTorch's functionalization does not keep views of a tensor apart from its new shape
            return self.named(lambda v: v.dtype in FLOATS and self.is_alone(v))
        if hole == "y":
            return self.named(lambda v: v.dtype in FLOATS and broadcasts(v.shape, x.shape))
        if hole == "z":
            return self.named(lambda v: v.dtype == x.dtype and broadcasts_to(v, x) and self.may_meet(x, v))
        if hole == "m":
            return self.named(lambda v: v.dtype in FLOATS and v.dim() == 2)
        if hole == "n":
            m = self.values[filled["m"]]
            return self.named(lambda v: v.dtype == m.dtype and v.dim() == 2 and v.shape[0] == m.shape[1])
        if hole == "k":
            return self.named(lambda v: v.dtype == torch.int64)
        if hole == "b":
            return self.named(lambda v: v.dtype == torch.bool)
        if hole in ("d", "e"):
            return self.draw(st.integers(-x.dim(), x.dim() - 1)) if x.dim() else None
        if hole == "i":
            return self.choose([0, -1])
        if hole == "r":
            return self.choose([0.5, 2.0, 1.5])
        if hole == "name":
            return f"v{self.made}"
        if hole == "w":
            return self.fill(self.choose([line for line in WRITES if "{u}" not in line]))
        if hole == "v":
            return self.fill(self.choose(VALUES))  # a view made under no_grad has no history that makes sense
        raise ValueError(hole)

    def line(self):
        """One more line, tried; or None."""
        family = self.choose(FAMILIES)
        self.writes = family in (WRITES, MODES)
        text = self.fill(self.choose(family))
        if text is None:
            return None
        if family is not WRITES and family is not MODES:
            text = f"v{self.made} = {text}"
        return text if self.runs(text) else None

    def runs(self, text):
        scope = {**self.scope, **self.values}
        try:
            exec(text, scope)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return False
        new = scope.get(f"v{self.made}")
        changed = [scope[name] for name in self.values] if new is None else [new]
        if any(value.numel() > MOST_ELEMENTS or not tame(value) for value in changed):
            return False
        if new is not None:
            self.values[f"v{self.made}"] = new
            self.made += 1
        return True


def overlaps_itself(value):
    """As an expanded tensor does: what a write to it means is not defined."""
    return torch._debug_has_internal_overlap(value) != 0


def tame(value):
    value = value.detach()
    return value.dtype == torch.bool or value.numel() == 0 or bool(value.abs().amax() < LARGEST)


@st.composite
def programs(draw, most_lines=10):
    dtype = draw(st.sampled_from(FLOATS))
    kinds = draw(st.lists(st.sampled_from(["leaf", "plain", "inner", "slice", "same"]), min_size=1, max_size=3))
    inputs = []
    for kind in kinds:
        if kind in ("slice", "same") and (not inputs or inputs[-1].kind != "plain"):
            kind = "plain"
        inputs.append(Input(kind, draw(st.sampled_from(SHAPES)), dtype))
    inputs.append(Input("plain", draw(st.sampled_from([(), (3,), (2, 3)])), torch.int64))
    inputs.append(Input("plain", draw(st.sampled_from([(), (4,), (3, 4)])), torch.bool))
    program = Program(inputs)
    scout = Scout(draw, inputs)
    for _ in range(draw(st.integers(1, most_lines))):
        line = scout.line()
        if line is not None:
            program.lines.append(line)
    names = list(scout.values)
    last = names[-1]
    others = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    program.results = [last, *(name for name in others if name != last)]
    return program
