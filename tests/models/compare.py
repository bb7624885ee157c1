"""Runs a row's model eagerly and compiled, and says where the two differ: results, gradients, buffers."""

import copy

import torch

import firesteel

CAPTURE_SEED, REPLAY_SEED = 1, 2
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
GRADIENT_TOLERANCE = {"rtol": 1e-4, "atol": 5e-5}  # sums of many terms that nearly cancel
# Native code rounds in another order: where gradients are large, what cancels them leaves a trace of their size.
NATIVE_SHARE = 1e-6


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


def compare(eager, compiled, tolerance=TOLERANCE):
    expected, found = list(leaves(eager)), list(leaves(compiled))
    if [path for path, _ in expected] != [path for path, _ in found]:
        raise DifferenceError(
            f"eager gives {[path for path, _ in expected]}\ncompiled gives {[path for path, _ in found]}"
        )
    for (path, a), (_, b) in zip(expected, found, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            compare_tensors(path, a, b, tolerance)
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


def run_both(row, backend, mode, *, dropout=0.0):
    """Captures on one set of inputs, replays on another; eager sees the same inputs, in the same random state.

    `mode`: "eval" takes no gradients; "train" does; so does "grad", with the model as in "eval".
    """
    model = row.build(train=mode == "train", dropout=dropout)
    twin = copy.deepcopy(model)
    compiled = firesteel.compile(twin, fullgraph=True, backend=backend)
    for seed in (CAPTURE_SEED, REPLAY_SEED):
        results = []
        for call in (compiled, model):  # compiled first: what it cannot capture it should say before eager has run
            torch.manual_seed(seed)
            with torch.set_grad_enabled(mode != "eval"):
                results.append(call(**row.make_inputs(seed)))
        compare(results[1], results[0])
        if mode != "eval":
            for result in results:
                loss_of(result).backward()
            compare(gradients(model), gradients(twin), gradient_tolerance(model, backend))
        compare(dict(model.named_buffers()), dict(twin.named_buffers()))
