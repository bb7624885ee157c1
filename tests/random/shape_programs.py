"""Random programs about shapes: each statement looks at sizes, or makes a tensor of others.

A program is text, so that a failure can be read and run by hand.
"""

import dataclasses

from hypothesis import strategies as st

# By the rank that they need: expression and the rank of what it gives. `{v}` is a tensor, `{k}` a small number.
STEPS = {
    1: [
        ("{v}[1:]", 1),
        ("{v}[:{k}]", 1),
        ("{v}[::2] * 2", 1),
        ("{v}[-{k}:]", 1),
        ("{v}.view(-1, 1)", 2),
        ("{v}.reshape(1, -1) + {v}[:, None]", 2),
        ("torch.cat([{v}, {v} * 2])", 1),
        ("{v} * {v}.shape[0]", 1),
        ("{v} + torch.arange({v}.shape[0])", 1),
        ("{v}.cumsum(0)", 1),
        ("{v}.softmax(0)", 1),
        ("{v}.expand({k}, -1)", 2),
        ("F.pad({v}, (1, {k}))", 1),
        ("{v}.repeat({k})", 1),
        ("{v}[:{v}.shape[0] // 2]", 1),
        ("{v}.view(-1, {k})", 2),
        ("{v}.unsqueeze(0) @ {v}.unsqueeze(1)", 2),
        ("{v}.roll(1)", 1),
        ("{v}.sort().values", 1),
        ("{v}.flip(0)", 1),
        ("torch.where({v} > 0, {v}, {v} * 0.5)", 1),
        ("{v}.index_select(0, torch.arange({v}.numel()) // 2)", 1),
        ("{v}.tile(({k}, 1))", 2),
        ("{v}.chunk({k})[0]", 1),
        ("torch.outer({v}, {v})", 2),
    ],
    2: [
        ("{v}.t()", 2),
        ("{v}.t() * 1", 2),
        ("{v}.reshape(-1)", 1),
        ("{v}.contiguous().view(-1)", 1),
        ("{v}.flatten()", 1),
        ("{v}.sum(0)", 1),
        ("{v}.mean(1)", 1),
        ("{v}.amax(0)", 1),
        ("{v}[1:]", 2),
        ("{v}[:, :{k}]", 2),
        ("{v}[::2, 1:]", 2),
        ("{v}[-1]", 1),
        ("{v}[:, 0]", 1),
        ("torch.cat([{v}, {v}], 1)", 2),
        ("torch.stack([{v}, {v}]).sum(0)", 2),
        ("{v} @ {v}.t()", 2),
        ("{v}.softmax(-1)", 2),
        ("{v}.reshape({v}.shape[1], {v}.shape[0])", 2),
        ("{v}.reshape({v}.shape[0] * {v}.shape[1])", 1),
        ("{v}.reshape({v}.size(0), 2, -1).sum(1)", 2),
        ("{v} + torch.zeros({v}.shape[0], 1)", 2),
        ("{v} * torch.ones({v}.size(-1))", 2),
        ("F.pad({v}, (0, 1, {k}, 0))", 2),
        ("{v}.split({k})[0]", 2),
        ("{v}.split({k}, 1)[-1]", 2),
        ("{v}.tril()", 2),
        ("{v}.diagonal()", 1),
        ("{v}.narrow(0, 0, {v}.shape[0] // 2)", 2),
        ("{v}.expand(2, -1, -1).sum(0)", 2),
        ("{v}.masked_fill({v} > 0, {v}.shape[1])", 2),
        ("{v}.gather(1, torch.zeros({v}.shape[0], 1, dtype=torch.long))", 2),
        ("F.layer_norm({v}, ({v}.shape[-1],), eps=0.1)", 2),  # two elements alone would be ill-conditioned
        ("{v}.unfold(0, 2, 1).sum(-1)", 2),
        ("{v}.view(*{v}.shape)", 2),
        ("F.embedding(torch.arange({v}.shape[0]), {v})", 2),
        ("torch.eye({v}.shape[0]) @ {v}", 2),
        ("{v}.repeat({k}, 1)", 2),
        ("{v}.transpose(0, 1).contiguous()", 2),
    ],
}
# What they give depends on data. Whole graphs hold these.
DATA_STEPS = {
    1: [
        ("{v}[{v} > 0]", 1),
        ("{v}.masked_select({v} < 0.5) * 2", 1),
        ("{v}.nonzero().flatten()", 1),
        ("torch.unique(({v} * 2).detach().round())", 1),
        ("{v} * ({v} > 0).sum().item()", 1),
        ("{v}[:({v} > 0).sum()]", 1),
        ("{v}[int(({v} > 0).sum()):]", 1),
        ("torch.ones(({v} > 0).sum().item(), {k})", 2),
        ("{v}.repeat_interleave(torch.arange({v}.shape[0]) % {k})", 1),
        ("torch.cat([{v}[{v} > 0], {v}[{v} <= 0]])", 1),
        ("{v} + {v}.detach().sum().item()", 1),
        ("{v}.index_put((({v} > 0),), torch.tensor(0.5))", 1),
    ],
    2: [
        ("{v}[{v} > 0]", 1),
        ("{v}[{v}.sum(1) > 0]", 2),
        ("{v}[:, {v}.sum(0) > 0]", 2),
        ("{v}[torch.where({v}.sum(1) > 0)[0]]", 2),
        ("{v}.argwhere()", 2),
        ("{v}[:({v} > 0).sum() // {k}]", 2),
        ("{v} * ({v}[0] > 0).sum().item()", 2),
        ("torch.unique({v}.detach().sign(), dim=0)", 2),
        ("{v}[{v}.sum(1) > 0].t() @ {v}[{v}.sum(1) > 0]", 2),
    ],
}
TESTS = ["{v}.shape[0] > {k}", "{v}.numel() % {k} == 0", "{v}.shape[0] == {v}.shape[-1]", "len({v}) < 2 * {k}",
         "{v}.shape[0] + {k} >= 8", "{v}.shape[0]"]  # fmt: skip
NUMBERS = ["{v}.shape[0]", "{v}.numel() - {k}", "{v}.size(-1) // {k}", "max({v}.shape[0], {k})",
           "({v}.shape[0] + 1) * {k}", "tuple({v}.shape)",
           "{v}.shape[0] % {k}", "{v}.dim()", "{v}.is_contiguous()"]  # fmt: skip
LARGE = [(1009, 2), (3, 1021), (2048, 1)]
SIZES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 31, 64]


@dataclasses.dataclass(frozen=True)
class Program:
    lines: tuple
    sizes: tuple  # of the calls, in their order
    dynamic: bool | None
    whole: bool = False  # as one graph

    def text(self):
        return "def program(x, y):\n" + "".join(f"    {line}\n" for line in self.lines)


@st.composite
def programs(draw):
    tensors = {"x": 2, "y": 1}
    data = draw(st.booleans())
    lines, results = [], []

    def step():
        name = draw(st.sampled_from(sorted(tensors)))
        among = DATA_STEPS if data and draw(st.booleans()) else STEPS
        text, rank = draw(st.sampled_from(among[tensors[name]]))
        return text.format(v=name, k=draw(st.integers(2, 4))), rank

    for i in range(draw(st.integers(2, 5))):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            name = draw(st.sampled_from(sorted(tensors)))
            number = draw(st.sampled_from(NUMBERS)).format(v=name, k=draw(st.integers(2, 4)))
            lines.append(f"n{i} = {number}")
            results.append(f"n{i}")
        elif kind == 1:
            name = draw(st.sampled_from(sorted(tensors)))
            test = draw(st.sampled_from(TESTS)).format(v=name, k=draw(st.integers(2, 4)))
            lines += [f"if {test}:", f"    {name} = {name} * 2 + {i}"]
        else:
            text, rank = step()
            lines.append(f"v{i} = {text}")
            tensors[f"v{i}"] = rank
            results.append(f"v{i}")
    lines.append(f"return {', '.join([*results, 'x'])},")
    pairs = st.one_of(st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)), st.sampled_from(LARGE))
    sizes = draw(st.lists(pairs, min_size=4, max_size=7))
    whole = data and draw(st.integers(0, 3)) > 0
    return Program(tuple(lines), tuple(sizes), draw(st.sampled_from([None, None, True])), whole)
