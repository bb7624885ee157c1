"""Runs a row's model eagerly and compiled, and says where the two differ: results, gradients, buffers."""

import contextlib
import copy
import functools

import pytest
import torch
from row import OTHERS_WHEN_COMPILED

import firesteel

CAPTURE_SEED, REPLAY_SEED = 1, 2
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
GRADIENT_TOLERANCE = {"rtol": 1e-4, "atol": 5e-5}  # sums of many terms that nearly cancel
# Native code rounds in another order: where gradients are large, what cancels them leaves a trace of their size.
NATIVE_SHARE = 1e-6
# How much further from the exact value than eager's a result may lie: as two roundings may.
NOT_WORSE = 8


class DifferenceError(AssertionError):
    """Compiled gave something else than eager."""


def leaves(value, path="result"):
    """(path, leaf) pairs of a result, through containers, outputs of models and caches; their classes are leaves."""
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, str, torch.dtype, torch.device)):
        yield path, value
        return
    yield path, type(value)
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif isinstance(value, type) or callable(value):
        return
    else:
        items = vars(value).items()
    for key, item in items:
        yield from leaves(item, f"{path}.{key}")


def compare(eager, compiled, tolerance=TOLERANCE, exact=None):
    """`exact` gives the same in float64: what is no further from it than eager's own rounding is no difference."""
    expected, found = list(leaves(eager)), list(leaves(compiled))
    if [path for path, _ in expected] != [path for path, _ in found]:
        raise DifferenceError(
            f"eager gives {[path for path, _ in expected]}\ncompiled gives {[path for path, _ in found]}"
        )
    for (path, a), (_, b) in zip(expected, found, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            try:
                compare_tensors(path, a, b, tolerance)
            except DifferenceError:
                if not exact or not as_exact(a, b, dict(leaves(exact())).get(path)):
                    raise
        elif type(a) is not type(b) or a != b:
            raise DifferenceError(f"{path}: eager {a!r}, compiled {b!r}")


def compare_tensors(path, a, b, tolerance):
    if a.requires_grad != b.requires_grad:
        raise DifferenceError(
            f"{path}: eager requires_grad={a.requires_grad}, compiled requires_grad={b.requires_grad}"
        )
    try:
        torch.testing.assert_close(b.detach(), a.detach(), equal_nan=True, **tolerance)
    except AssertionError as error:
        raise DifferenceError(f"{path}: {error}") from None


def as_exact(eager, compiled, exact):
    """Batch norms over two values, and gradients that are zero but for rounding, say nothing to a fixed tolerance."""
    same = eager.dtype == compiled.dtype == torch.float32 and eager.requires_grad == compiled.requires_grad
    if not same or exact is None or not exact.shape == eager.shape == compiled.shape:
        return False
    eager_error, error = ((value.detach() - exact.detach()).abs().max() for value in (eager, compiled))
    return bool(error <= NOT_WORSE * eager_error)


def loss_of(result):
    """The sum of the means of what depends on parameters."""
    means = [leaf.mean() for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    return sum(means[1:], means[0])


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def gradient_tolerance(model, backend):
    if backend != "firesteel":
        return GRADIENT_TOLERANCE
    largest = max(grad.abs().max().item() for grad in gradients(model).values() if grad is not None)
    return GRADIENT_TOLERANCE | {"atol": GRADIENT_TOLERANCE["atol"] + NATIVE_SHARE * largest}


def call_once(call, model, row, seed, mode, dtype=None):
    """Calls, and takes gradients where the mode has them: the result."""

    def convert(value):
        return value.to(dtype) if dtype and isinstance(value, torch.Tensor) and value.is_floating_point() else value

    torch.manual_seed(seed)
    with torch.set_grad_enabled(mode != "eval"):
        result = call(**{name: convert(value) for name, value in row.make_inputs(seed).items()})
    if mode != "eval":
        loss_of(result).backward()
    return result


@contextlib.contextmanager
def as_if_compiled(row):
    with pytest.MonkeyPatch.context() as patch:
        if row.name in OTHERS_WHEN_COMPILED:
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
        yield


def in_float64(row, mode, last_seed):
    """What eager gives in float64, after all calls up to the one with `last_seed`."""
    model = row.build(train=mode == "train").double()
    for seed in (CAPTURE_SEED, REPLAY_SEED):
        with as_if_compiled(row):
            result = call_once(model, model, row, seed, mode, torch.float64)
        if seed == last_seed:
            break
    return {"result": result, "gradients": gradients(model), "buffers": dict(model.named_buffers())}


def run_both(row, backend, mode, *, dropout=0.0):
    """Captures on one set of inputs, replays on another; eager sees the same inputs, in the same random state.

    `mode`: "eval" takes no gradients; "train" does; so does "grad", with the model as in "eval".
    """
    model = row.build(train=mode == "train", dropout=dropout)
    twin = copy.deepcopy(model)
    compiled = firesteel.compile(twin, fullgraph=True, backend=backend)
    for seed in (CAPTURE_SEED, REPLAY_SEED):
        # Compiled first: what it cannot capture it should say before eager has run.
        found = call_once(compiled, twin, row, seed, mode)
        with as_if_compiled(row):
            expected = call_once(model, model, row, seed, mode)
        rounds = backend == "firesteel" and dropout == 0.0
        exact = functools.cache(functools.partial(in_float64, row, mode, seed)) if rounds else None

        def part(name, exact=exact):
            return (lambda: exact()[name]) if exact else None

        compare(expected, found, exact=part("result"))
        if mode != "eval":
            compare(gradients(model), gradients(twin), gradient_tolerance(model, backend), exact=part("gradients"))
        compare(dict(model.named_buffers()), dict(twin.named_buffers()), exact=part("buffers"))
