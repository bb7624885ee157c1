"""Writes random graphs of torch operators, for hypothesis: pointwise of all types, reductions, views, joins, writes.

A graph is the text of a function. Each line is a template with its holes filled, and was first tried on scout values:
a line that eager PyTorch refuses, or that makes too large a tensor, is left out. An `exact` graph is made of operators
whose results are rounded correctly and of no sums: its results are eager's bit by bit, whatever the values.
"""

import dataclasses
import re
import warnings

import torch
from hypothesis import strategies as st
from torch.nn import functional as F

MOST_ELEMENTS = 3000
SIZES = [1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33]
FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")

# Holes: x, y any floats, y one that broadcasts with x; k, l integers, b, c bools likewise; a anything; w a float tensor
# made by an earlier line; d, e dimensions of the line's first tensor; r a number, i a whole one, p a positive one.
VIEWS = [
    "{a}.transpose({d}, {e})",
    "{a}.unsqueeze({d})",
    "{a}.squeeze()",
    "{a}.reshape(-1)",
    "{a}.flatten(0, 1)",
    "{a}.unflatten(-1, (-1, 1))",
    "{a}.expand(3, *{a}.shape)",
    "{a}.narrow({d}, 0, 1)",
    "{a}[1:]",
    "{a}[..., ::2]",
    "{a}[..., 1:-1]",
    "{a}[0]",
    "{a}.movedim({d}, {e})",
    "{a}.mT",
    "{a}.chunk(2, {d})[-1]",
    "{a}.split(3, {d})[0]",
    "{a}.flip({d})",
    "{a}.contiguous()",
    "{a}.clone()",
    "{a}.roll(1, {d})",
    "torch.cat([{a}, {a}], {d})",
    "torch.stack([{a}, {a}], {d})",
    "torch.cat([{a}[..., 1:], {a}[..., :1]], -1)",
    "{a}.repeat(2, *[1] * {a}.dim())",
    "F.pad({a}, (1, 2), value=1)",
    "F.pad({a}, (-1, 1, 2, 0))",
    "{a}[({k} % {a}.shape[0]).long().flatten()[:5]]",
    "{a}[..., -1 - ({k} % {a}.shape[-1]).long().flatten()]",
    "{a}.index_select({d}, ({k} % {a}.shape[{d}]).flatten()[:7].long())",
    "{a}.gather({d}, ({k} % {a}.shape[{d}]).long())",
    "{x}.gather({d}, {x}.argmax({d}, keepdim=True))",
    "F.embedding(({k} % {x}.shape[0]).long(), {x})",
]
# Which zero is the larger of 0.0 and -0.0 depends in eager on where in a vector they lie: adding 0.0 makes them alike.
EXACT = [
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / {y}",
    "{x} * {r}",
    "{x} + {i}",
    "{i} - {x}",
    "{x}.abs()",
    "{x}.neg()",
    "{x}.relu()",
    "{x}.clamp(-{p}, {p})",
    "{x}.clamp(min={i})",
    "{x}.clamp({y}, {y} + 1)",
    "{x}.square()",
    "{x}.reciprocal()",
    "{x}.sign()",
    "{x}.floor()",
    "{x}.trunc()",
    "{x}.round()",
    "{x}.nan_to_num({r})",
    "{x}.masked_fill({x} > {r}, {i})",
    "torch.where({x} > {y}, {x}, {y})",
    "torch.where({b}, {x}, {r})",
    "torch.where({b}, {x}, {y})",
    "torch.maximum({x}, {y}) + 0.0",
    "torch.minimum({x}, {y}) + 0.0",
    "torch.fmax({x}, {y}) + 0.0",
    "F.leaky_relu({x}, 0.25)",
    "F.hardtanh({x})",
    "F.relu6({x})",
    "{x}.amax({d}) + 0.0",
    "{x}.amin({d}, keepdim=True) + 0.0",
    "{x}.max({d}).values + 0.0",
    "{x}.float()",
    "{x}.double()",
    "{x}.bfloat16()",
    "{x}.half()",
    "{k}.float()",
    "{b}.to({x}.dtype)",
    "{k} + {x}",
    "{b} * {x}",
    "{x}.tril()",
    "torch.cat([-{x}[..., 1:], {x}[..., :1]], -1) * {x}",
    "F.pad({x}[..., :-1], (1, 0)) + {x}",
]
SMOOTH = [
    "{x}.sqrt()",
    "{x}.exp()",
    "{x}.sin()",
    "{x}.cos()",
    "{x}.tanh()",
    "{x}.erf()",
    "{x}.sigmoid()",
    "({x}.abs() + {p}).log()",
    "({x}.abs() + {p}).rsqrt()",
    "{x}.pow(2)",
    "{x}.pow(3)",
    "({x}.abs() + {p}).pow(0.5)",
    "({x}.abs() + {p}).pow(-1)",
    "{x}.abs().log1p()",
    "{x}.expm1()",
    "F.gelu({x})",
    "F.gelu({x}, approximate='tanh')",
    "F.silu({x})",
    "F.softplus({x})",
    "F.hardswish({x})",
    "F.elu({x})",
    "{x}.lerp({y}, 0.3)",
    "torch.add({x}, {y}, alpha=0.5)",
    "torch.addcmul({x}, {y}, {y}, value=0.5)",
    "torch.addcdiv({x}, {y}, {y}.abs() + 1)",
    "{x}.softmax({d})",
    "{x}.log_softmax({d})",
    "{x}.logsumexp({d})",
    "F.layer_norm({x}, {x}.shape[-1:])",
    "F.layer_norm({x}, {x}.shape[-2:])",
    "F.normalize({x}, dim={d})",
    "{x}.sum()",
    "{x}.sum({d})",
    "{x}.sum(({d}, {e}), keepdim=True)",
    "{x}.mean({d}, keepdim=True)",
    "{x}.mean()",
    "{x}.var({d}, correction=0)",
    "{x}.std({d}, correction=0, keepdim=True)",
    "{x}.norm(dim={d})",
    "{x}.cumsum({d})",
    "{x}.clamp(-1.25, 1.25).prod({d})",
    "{x}.clamp(-1.25, 1.25).cumprod({d})",
    "F.mse_loss({x}, {x} * 0.5)",
    "{x}.sum({d}, keepdim=True) * {x}",
]
WHOLE = [
    "{k} + {l}",
    "{k} - {l}",
    "{k} * {l}",
    "{k} * {i}",
    "{k} + {b}",
    "{k} // ({l}.abs() + 1)",
    "{k} % ({l}.abs() + 1)",
    "{k} // 3",
    "{k} % 3",
    "{k} // -7",
    "{k} % -5",
    "torch.fmod({k}, 6)",
    "torch.div({k}, 4, rounding_mode='trunc')",
    "torch.div({k}, {l}.abs() + 1, rounding_mode='trunc')",
    "-{k}",
    "{k}.abs()",
    "{k}.clamp(-5, 5)",
    "{k}.long()",
    "{k}.int()",
    "{k}.to(torch.int8)",
    "{k}.to(torch.uint8)",
    "{k}.sum({d})",
    "{k}.sum()",
    "{k}.prod({d})",
    "{k}.amax({d})",
    "{k}.cumsum({d})",
    "{b}.cumsum({d})",
    "torch.maximum({k}, {l})",
    "torch.where({b}, {k}, {l})",
    "{b}.long()",
    "{b}.sum({d})",
    "{x}.argmax({d})",
    "{x}.argmin({d}, keepdim=True)",
    "{k}.argmax()",
    "{x}.max({d}).indices",
    "{x}.nan_to_num(0).clamp(-50, 50).int()",
    "{x}.nan_to_num(0).clamp(-50, 50).long()",
    "{k} & {l}",
    "{k} ^ {l}",
    "~{k}",
]
TRUTHS = [
    "{x} > {y}",
    "{x} <= {r}",
    "{x} == {y}",
    "{x} != {x}",
    "{k} < {l}",
    "{k} == {i}",
    "{k} > {x}",
    "{b} & {c}",
    "{b} | {c}",
    "{b} ^ {c}",
    "~{b}",
    "{x}.isnan()",
    "{x}.isinf()",
    "{b}.any({d})",
    "{b}.all({d}, keepdim=True)",
    "{b}.any()",
    "{x}.bool()",
    "{k}.bool()",
    "{b}.logical_xor({c})",
    "{k}.logical_and({x})",
]
# Statements: what they write was made by an earlier line.
WRITES = [
    "{w}.add_({y})",
    "{w}.mul_({r})",
    "{w}.relu_()",
    "{w}.clamp_(-2, 2)",
    "{w}[..., 1:].neg_()",
    "{w}[0] = {r}",
    "{w}.copy_({y})",
    "{w}.masked_fill_({w} > 0, {r})",
    "{w}.transpose({d}, {e}).mul_(0.5)",
    "{w}.fill_({r})",
]
HOLE = re.compile(r"\{(\w)\}")


@dataclasses.dataclass(frozen=True)
class Input:
    shape: tuple
    dtype: str
    layout: str = "plain"  # plain | transposed | strided | expanded

    def make(self, seed, special, exact):
        """Special values are those of the borders; but sums of numbers near the largest depend on their order."""
        dtype = getattr(torch, self.dtype)
        g = torch.Generator().manual_seed(seed)
        shape = self.shape[::-1] if self.layout == "transposed" else self.shape
        if self.layout == "strided" and shape:
            shape = (*shape[:-1], 2 * shape[-1])
        if self.layout == "expanded" and shape:
            shape = (1, *shape[1:])
        if dtype == torch.bool:
            x = torch.randint(0, 2, shape, generator=g) > 0
        elif not dtype.is_floating_point:
            lowest = 0 if dtype == torch.uint8 else -9
            x = torch.randint(lowest, 10, shape, generator=g).to(dtype)
            if special:
                info = torch.iinfo(dtype)
                x = sprinkled(x, [info.min, info.max], g)
        else:
            x = torch.randn(shape, dtype=torch.float64, generator=g).to(dtype)
            if special:
                info = torch.finfo(dtype)
                values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, info.tiny / 4, -info.tiny / 2]
                huge = [info.max, -info.max, info.max / 3] if exact else [info.max**0.4]
                x = sprinkled(x, [*values, *huge, info.eps, 1.0], g)
        if self.layout == "transposed":
            x = x.permute(tuple(reversed(range(x.dim()))))
        if self.layout == "strided" and shape:
            x = x[..., ::2]
        if self.layout == "expanded" and shape:
            x = x.expand(self.shape)
        return x


def sprinkled(x, values, generator):
    """Some three in ten elements are one of these values."""
    draws = torch.randint(0, 10, x.shape, generator=generator)
    picks = torch.tensor(values, dtype=x.dtype)[torch.randint(0, len(values), x.shape, generator=generator)]
    return torch.where(draws < 3, picks, x)


@dataclasses.dataclass(frozen=True)
class Graph:
    inputs: tuple
    lines: tuple  # (name, text); a statement's name is ""
    results: tuple
    exact: bool
    special: bool
    grad: bool

    def text(self):
        names = ", ".join(f"v{i}" for i in range(len(self.inputs)))
        body = [f"{name} = {line}" if name else line for name, line in self.lines]
        return "\n    ".join([f"def graph({names}):", *body, f"return {', '.join(self.results)},\n"])

    def function(self):
        space = {"torch": torch, "F": F}
        exec(self.text(), space)
        return space["graph"]

    def arguments(self, seed):
        made = [one.make(seed * 100 + i, self.special, self.exact) for i, one in enumerate(self.inputs)]
        return [x.requires_grad_(self.grad and x.is_floating_point()) for x in made]


def broadcasts(a, b):
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a.shape), reversed(b.shape), strict=False))


class Writer:
    def __init__(self, draw, exact, special):
        self.draw, self.exact, self.special = draw, exact, special
        self.values = {}
        self.made = set()  # by a line that gave new memory
        self.lines = []

    def pick(self, options):
        return self.draw(st.sampled_from(options)) if options else None

    def names(self, test, beside=None):
        found = [n for n, v in self.values.items() if test(v)]
        if beside is not None:
            near = [n for n in found if broadcasts(self.values[n], beside)]
            found = near or found
        # Late ones more often: graphs get deep.
        return found + found[-3:] + found[-3:]

    def fill(self, template):
        first, chosen = None, {}
        kinds = {
            "x": torch.is_floating_point,
            "k": lambda v: v.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
            "b": lambda v: v.dtype == torch.bool,
            "a": lambda v: True,
        }
        kinds |= {"y": kinds["x"], "l": kinds["k"], "c": kinds["b"]}
        for hole in HOLE.findall(template):
            if hole in chosen:
                continue
            if hole in kinds:
                name = self.pick(self.names(kinds[hole], first))
                if name is None:
                    return None
                chosen[hole] = name
                first = self.values[name] if first is None else first
            elif hole == "w":
                name = self.pick([n for n in self.values if n in self.made and self.values[n].is_floating_point()])
                if name is None:
                    return None
                chosen[hole], first = name, self.values[name]
            elif hole in "de":
                chosen[hole] = str(self.draw(st.integers(0, max(0, first.dim() - 1))) if first is not None else 0)
            else:
                numbers = {
                    "r": ["0.5", "-1.25", "3", "0.0", "2.0"],
                    "i": ["0", "1", "-2", "3"],
                    "p": ["1", "0.75", "2"],
                }
                chosen[hole] = self.pick(numbers[hole])
        return HOLE.sub(lambda m: chosen[m[1]], template)

    def add(self, template, is_write):
        text = self.fill(template)
        if text is None:
            return
        space = {"torch": torch, "F": F} | {n: v.clone() if n in text else v for n, v in self.values.items()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if is_write:
                    exec(text, space)
                    self.lines.append(("", text))
                    self.again()
                    return
                result = eval(text, space)
        except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
            if is_write and self.lines and self.lines[-1][1] == text:
                self.lines.pop()
                self.again()
            return
        if result.numel() > MOST_ELEMENTS or result.dim() > 5 or result.is_complex():
            return
        name = f"v{len(self.values)}"
        self.lines.append((name, text))
        self.values[name] = result
        if template not in VIEWS:
            self.made.add(name)

    def unread(self):
        """What lines made and no line reads."""
        read = {name for _, text in self.lines for name in re.findall(r"\bv\d+\b", text)}
        return [name for name, _ in self.lines if name and name not in read]

    def again(self):
        """All values anew, as the lines say: a write may have reached several."""
        space = {"torch": torch, "F": F} | dict(list(self.inputs.items()))
        space = {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in space.items()}
        for name, text in self.lines:
            exec(f"{name} = {text}" if name else text, space)
        self.values = {n: space[n] for n in self.values}


@st.composite
def graphs(draw):
    exact = draw(st.booleans())
    special = draw(st.sampled_from([True, False, False]))
    base = draw(st.lists(st.sampled_from(SIZES), min_size=0, max_size=3))
    if base and draw(st.integers(0, 9)) == 0:
        base[draw(st.integers(0, len(base) - 1))] = 0
    main = draw(st.sampled_from(FLOATS))
    inputs = []
    for index in range(draw(st.integers(2, 5))):
        kind = draw(st.integers(0, 9))
        dtype = main if index == 0 or kind < 5 else draw(st.sampled_from((*FLOATS, *INTEGERS, "bool")))
        shape = list(base)
        if shape and draw(st.integers(0, 2)) == 0:
            shape[draw(st.integers(0, len(shape) - 1))] = 1
        if shape and draw(st.integers(0, 4)) == 0:
            shape = shape[1:]
        layout = draw(st.sampled_from(["plain", "plain", "transposed", "strided", "expanded"]))
        inputs.append(Input(tuple(shape), dtype, layout))
    grad = not special and draw(st.sampled_from([True, True, False]))
    writer = Writer(draw, exact, special)
    writer.inputs = {f"v{i}": one.make(900 + i, special, exact) for i, one in enumerate(inputs)}
    writer.values = dict(writer.inputs)
    floats = EXACT if exact else EXACT + SMOOTH
    tables = [floats, floats, floats, floats, VIEWS, VIEWS, WHOLE, TRUTHS, WRITES]
    wanted = draw(st.sampled_from(range(3, 26)))
    for _ in range(4 * wanted):
        table = draw(st.sampled_from(tables))
        template = draw(st.sampled_from(table))
        writer.add(template, table is WRITES)
        if len(writer.lines) >= wanted:
            break
    return Graph(tuple(inputs), tuple(writer.lines), tuple(writer.unread() or ["v0"]), exact, special, grad)
