"""Runs PyTorch's operator database through native kernels: compiled on one set of values, compared on fresh ones.

Each sample comes in several layouts. A result must be within PyTorch's own tolerances of eager's; where it is not, it
must be as near as eager's to that of double precision, or within two roundings of its largest value.
"""

import collections
import warnings

import torch
from opinfo_replay import (
    alike,
    call_of,
    differentiable,
    is_uninitialised,
    only_tensors,
    operator_name,
    samples,
    with_constants_of,
    with_seed,
    without_values,
)
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils import _pytree as pytree

import firesteel

DEFAULTS = {torch.float32: (1e-5, 1.3e-6), torch.bfloat16: (1e-5, 1.6e-2)}  # absolute, relative

# Eager's own kernels take some arguments for contiguous ones, and read beyond them where they are not.
CONTIGUOUS_ONLY = {"native_group_norm"}

# Expanded, a matrix has rank one and a row no spread: there the gradient does not exist, and rounding decides on it.
SINGULAR_EXPANDED = {"linalg.svd", "masked.std", "std", "svd"}

Ran = collections.namedtuple("Ran", "op kind checked native aten differences refused")


def map_tensors(function, call):
    return pytree.tree_map(lambda x: function(x) if isinstance(x, torch.Tensor) else x, call)


def again(make):
    """A tensor of the same values in a layout of `make`'s choice, a leaf where the given one is."""

    def remade(x):
        if x.layout != torch.strided:
            return x
        return make(x.detach()).requires_grad_(x.requires_grad)

    return remade


def transposed(x):
    return x.clone().mT.contiguous().mT if x.dim() >= 2 else x[..., None].expand(*x.shape, 2)[..., 0].clone()


def strided(x):
    """Every other element of memory twice as long."""
    if x.dim() == 0 or x.numel() == 0:
        return x.clone()
    wide = x.new_zeros(*x.shape[:-1], 2 * x.shape[-1])
    wide[..., ::2] = x
    return wide[..., ::2]


def expanded(x):
    """The first of the first dimension, repeated."""
    return x[:1].clone().expand(x.shape) if x.dim() and x.shape[0] else x.clone()


def emptied(x):
    return x[:0].clone() if x.dim() else x.clone()


LAYOUTS = {"as it is": torch.clone, "transposed": transposed, "strided": strided, "expanded": expanded,
           "empty": emptied}  # fmt: skip


def tolerances(op, dtype):
    """PyTorch's defaults, or what its own tests of this operator allow."""
    absolute, relative = DEFAULTS.get(dtype, (0, 0))
    for entry in op.decorators:
        for decorator in entry.decorators if isinstance(entry, DecorateInfo) else [entry]:
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                absolute = max(absolute, decorator.d[dtype].atol)
                relative = max(relative, decorator.d[dtype].rtol)
    return absolute, relative


def difference(got, wanted, tolerance):
    """What tells two results apart, "" where nothing does."""
    got, wanted = pytree.tree_leaves(got), pytree.tree_leaves(wanted)
    if len(got) != len(wanted):
        return f"{len(got)} results instead of {len(wanted)}"
    for a, e in zip(got, wanted, strict=True):
        if not isinstance(e, torch.Tensor):
            if a != e and not (a != a and e != e):
                return f"{a!r} instead of {e!r}"
            continue
        try:
            exact = not (e.is_floating_point() or e.is_complex())
            atol, rtol = (0, 0) if exact else tolerance
            torch.testing.assert_close(a, e, atol=atol, rtol=rtol, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return " ".join(str(error).split())[:200]
    return ""


def in_double(call):
    wide = map_tensors(
        lambda x: x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x, call
    )
    return pytree.tree_map(lambda x: torch.float64 if x in (torch.float32, torch.bfloat16) else x, wide)


def error_of(got, exact):
    """The largest distance from the exact values; infinite where one is infinite or NaN and the other is not."""
    if got.is_complex():
        got, exact = torch.view_as_real(got), torch.view_as_real(exact)
    if not got.is_floating_point():
        return 0.0 if torch.equal(got, exact) else float("inf")
    rounded, got, exact = exact.to(got.dtype).double(), got.double(), exact.double()
    finite = rounded.isfinite()
    if not torch.equal(got[~finite].nan_to_num(), rounded[~finite].nan_to_num()):
        return float("inf")
    distance = (got[finite] - exact[finite]).abs().nan_to_num(float("inf"))
    return distance.max().item() if distance.numel() else 0.0


def rounding_of(got, exact):
    """What one rounding may do to the largest value: where eager is nearer than that, it is so by chance."""
    values = exact.abs().nan_to_num(0, 0, 0)
    return torch.finfo(got.dtype).eps * values.max().item() if got.is_floating_point() and values.numel() else 0.0


def as_near_as_eager(function, got, wanted, call):
    """Whether each result is at most twice as far from that of double precision as eager's, or as a rounding."""
    try:
        exact = function(in_double(call))
    except Exception:  # no double precision to compare with
        return False
    tensors = [[x for x in pytree.tree_leaves(of) if isinstance(x, torch.Tensor)] for of in (got, wanted, exact)]
    errors = [(error_of(a, x), max(error_of(e, x), rounding_of(e, x))) for a, e, x in zip(*tensors, strict=True)]
    return all(ours <= 2 * theirs < float("inf") or ours == 0 for ours, theirs in errors)


def forward_of(function):
    return lambda call: with_seed(lambda: function(*call[0], **call[1]))


def gradient_of(function, process):
    """The results and the gradients of all that needs them; None where there are none."""

    def run(call):
        result = process(with_seed(lambda: function(*call[0], **call[1])))
        leaves = [t for t in only_tensors(call) if t.requires_grad]
        outputs = differentiable(result)
        if not outputs or not leaves:
            return None
        generator = torch.Generator().manual_seed(3)
        tangents = [torch.randn(o.shape, dtype=torch.float64, generator=generator).to(o.dtype) for o in outputs]
        gradients = with_seed(lambda: torch.autograd.grad(outputs, leaves, tangents, allow_unused=True))
        # A gradient of zeros may be given as none.
        given = [g if g is not None else torch.zeros_like(x) for g, x in zip(gradients, leaves, strict=True)]
        return map_tensors(torch.Tensor.detach, (result, given))

    return run


def kinds_of(sample):
    return tuple((x.dim(), x.numel() == 0, x.is_contiguous()) for x in only_tensors(call_of(sample)))


def varied(op, dtype, grad, seed, limit):
    """Up to so many samples; those of new ranks, with or without elements, come first."""
    every = samples(op, dtype, grad, seed, None)
    seen, chosen, others = set(), [], []
    for sample in every:
        kind = kinds_of(sample)
        (others if kind in seen else chosen).append(sample)
        seen.add(kind)
    return every if limit is None else (chosen + others)[:limit]


class Check:
    """One operator, forward or backward, in one type."""

    def __init__(self, op, kind, dtype):
        self.op, self.grad, self.dtype = op, kind == "gradient", dtype
        self.tolerance = tolerances(op, dtype)
        self.ran = Ran(operator_name(op), kind, *[collections.Counter() for _ in range(3)], [], collections.Counter())

    def run(self, limit, layouts):
        others, fresh = (varied(self.op, self.dtype, self.grad, seed, limit) for seed in (0, 1))
        for index, sample in enumerate(fresh):
            call = call_of(sample)
            traced = call
            if index < len(others) and alike(call_of(others[index]), call):
                traced = call_of(others[index])
            process = sample.output_process_fn_grad or (lambda result: result)
            for layout in layouts:
                if not self.one(layout, traced, call, process) and layout == "as it is":
                    break  # no kernel: the other layouts would be ATen's too
        return self.ran

    def one(self, layout, traced, call, process):
        """Whether a kernel ran."""
        if self.op.name in CONTIGUOUS_ONLY and layout not in ("as it is", "empty"):
            return True
        if self.op.name in SINGULAR_EXPANDED and self.grad and layout == "expanded":
            return True
        make = again(LAYOUTS[layout])

        def runner(function):
            return gradient_of(function, process) if self.grad else forward_of(function)

        try:
            mine, theirs, traced = (map_tensors(make, c) for c in (call, call, traced))
            wanted = runner(self.op.op)(theirs)
        except Exception:  # eager does not take this layout
            return True
        if wanted is None:
            return False
        if layout == "expanded" and difference(only_tensors(theirs), only_tensors(map_tensors(make, call)), (0, 0)):
            return True  # it writes to an argument, which would be to all of its copies at once
        try:
            graph = firesteel.trace(self.op.op, *traced[0], grad=self.grad, native=True, **traced[1])
        except Exception as error:  # what is refused is the replay test's matter
            self.ran.refused[type(error).__name__] += 1
            return False
        firesteel.reset_native_counters()
        try:
            got = runner(graph)(with_constants_of(mine, traced))
        except Exception as error:  # a failure is a difference
            self.ran.differences.append((layout, f"{type(error).__name__}: {error}"[:200]))
            return False
        counters = firesteel.native_counters()
        self.count(layout, counters)
        if is_uninitialised(self.op) or (layout == "empty" and self.op.name.startswith("resize")):
            got, wanted = without_values(got), without_values(wanted)
        found = difference(got, wanted, self.tolerance)
        if not self.grad:
            found = found or difference(only_tensors(mine), only_tensors(theirs), self.tolerance)
        if found and not as_near_as_eager(runner(self.op.op), got, wanted, map_tensors(make, call)):
            shapes = [list(x.shape) for x in only_tensors(call)]
            self.ran.differences.append((layout, shapes, found))
        return counters["native_ops"] > 0

    def count(self, layout, counters):
        self.ran.checked[layout] += 1
        self.ran.native[layout] += counters["native_ops"] > 0
        self.ran.aten[layout] += counters["native_ops"] > 0 and counters["aten_ops"] > 0


def run_natively(op, kind, dtype, limit, layouts=tuple(LAYOUTS)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Check(op, kind, dtype).run(limit, layouts)
