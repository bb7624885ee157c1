"""FIRESTEEL_CHECK=1: before each compiled run, it and eager run on copies of its inputs and must agree."""

import linecache
import warnings

import torch

from . import _C
from ._wording import short_path

# How far compiled results may lie from eager ones, of the largest value of the tensor: sums run in another order.
_TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


# Where set: called as observer(what, parts, piece) at every comparison. `what` is None where results agree; else it
# says in words how they differ, or is the exception that the compiled call alone raised. `parts()` gives the ATen
# graphs as text with what this call gives them, `piece()` what is known of the piece.
observer = None


class CheckError(_C.Error):
    """A compiled call gave another result than eager would have (FIRESTEEL_CHECK=1)."""


def compare(inputs, eager, compiled, kernels, parts, piece):
    """Called by the native part: the inputs, how to run either way, each kernel or each graph, what the piece is."""
    state = torch.get_rng_state()
    try:
        found = _difference(inputs, eager, compiled, state)
        torch.set_rng_state(state)
        what, output = (None, None) if found is None else found
        if observer:
            observer(what, lambda: parts(copies(inputs)), piece)
            torch.set_rng_state(state)
        if what is None or isinstance(what, Exception):
            return
        raise CheckError(_text(piece(), what, output, _first_kernel(kernels, inputs)))
    finally:
        torch.set_rng_state(state)


def _difference(inputs, eager, compiled, state):
    """What differs, in words, and which output of the graph it is, where it is one; None where nothing does."""
    theirs, ours = copies(inputs), copies(inputs)
    try:
        expected = eager(theirs)
    except Exception:
        return None  # the program's own error: the call itself will raise it
    torch.set_rng_state(state)
    try:
        results = compiled(ours)
    except Exception as error:
        return error, None  # the same
    if results is None:
        warnings.warn("FIRESTEEL_CHECK: a call cannot be compared, as it does not take copies", stacklevel=2)
        return None
    for number, (a, b) in enumerate(zip(expected, results, strict=True)):
        if what := differs(a, b):
            return f"result {number + 1}: {what}", number
    for number, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        if isinstance(a, torch.Tensor) and (what := differs(a, b)):
            return f"input {number + 1} after the call: {what}", None
    return _gradient_difference(expected, theirs, results, ours)


def _gradient_difference(expected, theirs, results, ours):
    if not torch.is_grad_enabled():
        return None
    made = torch.Generator().manual_seed(0)
    pairs = [(a, b) for a, b in zip(expected, results, strict=True) if a.requires_grad and b.requires_grad]
    wanted = [i for i, value in enumerate(theirs) if isinstance(value, torch.Tensor) and value.requires_grad]
    if not pairs or not wanted:
        return None
    tangents = [torch.randn(a.shape, generator=made, dtype=torch.float32).to(a.dtype) for a, _ in pairs]
    try:
        right = torch.autograd.grad([a for a, _ in pairs], [theirs[i] for i in wanted], tangents, allow_unused=True)
    except RuntimeError:
        return None  # eager has no gradient here either
    got = torch.autograd.grad([b for _, b in pairs], [ours[i] for i in wanted], tangents, allow_unused=True)
    for index, a, b in zip(wanted, right, got, strict=True):
        a = torch.zeros_like(theirs[index]) if a is None else a
        b = torch.zeros_like(ours[index]) if b is None else b
        if what := differs(a, b):
            return f"the gradient of input {index + 1}: {what}", None
    return None


def copies(inputs):
    """Tensors of their own that share memory among each other as the inputs do; what is no tensor stays."""
    storages = {}

    def copy(value):
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in storages:
            storages[storage.data_ptr()] = storage.clone()
        with torch.no_grad():
            made = torch.empty(0, dtype=value.dtype, device=value.device)
            made.set_(storages[storage.data_ptr()], value.storage_offset(), value.shape, value.stride())
        made.requires_grad_(value.requires_grad)
        # What is no leaf may be written to, and a leaf may not.
        return made if value.is_leaf else made.clone()

    with torch.enable_grad():
        return [copy(value) for value in inputs]


def differs(expected, found):
    """In words, how two tensors differ by more than rounding; None where they do not."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"{_kind(found)}, eager gives {_kind(expected)}"
    if expected.numel() == 0 or expected.layout != torch.strided:
        return None
    a, b = expected.detach(), found.detach()
    tolerance = _TOLERANCES.get(a.real.dtype if a.is_complex() else a.dtype)
    if tolerance is None:
        wrong = a != b
        return (
            f"{int(wrong.sum())} of {a.numel()} elements differ, the first {_at(wrong, a, b)}" if wrong.any() else None
        )
    same = (a == b) | ((a != a) & (b != b))
    distance = torch.where(same, 0.0, (a - b).abs().to(torch.float64))
    finite = a.abs()[torch.isfinite(a)]
    allowed = tolerance * max(1.0, float(finite.max()) if finite.numel() else 1.0)
    wrong = ~(distance <= allowed)
    if not wrong.any():
        return None
    worst = distance == distance.max() if torch.isfinite(distance).all() else wrong
    return f"largest distance {float(distance.max()):.3g} {_at(worst, a, b)}, allowed is {allowed:.3g}"


def _kind(tensor):
    return f"{tensor.dtype}{list(tensor.shape)}"


def _at(where, a, b):
    place = tuple(where.nonzero()[0].tolist())
    return f"at {list(place)} (eager {a[place].item():.6g}, compiled {b[place].item():.6g})"


def _first_kernel(kernels, inputs):
    """(is backward, number, how it differs) of the first kernel that computes something else than ATen."""
    for is_backward, number, native, aten in kernels(copies(inputs)):
        if what := differs(aten, native):
            return is_backward, number, what
    return None


def _text(piece, what, output, kernel):
    graph = _C.parse_graph(piece["graph"])
    place, name = None, ""
    if output is not None:
        names = [value.name for value in graph.outputs]
        for node, line in zip(graph.nodes, piece["lines"], strict=True):
            if names[output] in node.names:
                place, name = line, f", %{names[output]} = {node.op}"
    lines = [f"graph: piece {piece['number']} of `{piece['function']}` "
             f"({short_path(piece['file'])}:{piece['line']}){name}", f"difference: {what}"]  # fmt: skip
    if kernel is None:
        lines.append("kernel: none of them differs from ATen by itself")
        advice = "compile(backend=\"eager\") gives eager's result; please report it, with FIRESTEEL_REPORT's file"
    else:
        is_backward, number, how = kernel
        part = piece["parts"][int(is_backward)]
        nodes = _C.parse_graph(part["text"]).nodes
        mine = part["kernels"][number]["nodes"]
        places = list(dict.fromkeys(part["lines"][i] for i in mine if part["lines"][i]))
        place = places[-1] if places else place
        lines.append(f"kernel: {number + 1} of the {part['phase']}, {', '.join(nodes[i].op for i in mine)}: {how}")
        lines.append("lines: " + ", ".join(f"{short_path(file)}:{line}" for file, line in places))
        advice = 'compile(backend="aot_eager") does without kernels; please report it, with FIRESTEEL_REPORT\'s file'
    if place:
        lines.insert(0, f"{short_path(place[0])}:{place[1]}  {linecache.getline(*place).strip()}")
    return "\n  ".join(["a compiled call gives another result than eager", *lines, f"try: {advice}"])
