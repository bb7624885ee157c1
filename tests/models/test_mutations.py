"""The mutation test over models: whatever a compiled model has read is changed, one thing at a time; it must notice."""

import os
import random

import pytest
import torch
import transformers
from compare import DifferenceError, compare
from not_yet import NOT_YET
from zoo import FEW, ROWS

import firesteel

FULL = os.environ.get("FIRESTEEL_FULL") == "1"
CHANGES = 400 if FULL else 25  # of each model, drawn from all there are
QUICK = ("bert", "llama", "resnet")


def chosen():
    skip = pytest.mark.skip(reason="one of many architectures: only with FIRESTEEL_FULL=1")
    names = [
        name for name in (ROWS if FULL else FEW) if not {name, f"{name}:eval", f"{name}:eval:eager"} & set(NOT_YET)
    ]
    return [pytest.param(ROWS[name], id=name, marks=[] if FULL or name in QUICK else skip) for name in names]


def other(value):
    """Another value for a place, of the same kind; None where there is none worth a try."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.5 + 0.25
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(value.detach() * 0.5 + 0.1) if value.is_floating_point() else None
    if isinstance(value, torch.Tensor):
        return value * 0.5 + 0.1 if value.is_floating_point() else value.clone()
    return None


def places(model):
    """(name, dict, key) for everything that the modules and their configs hold: parameters, buffers, plain values."""
    seen = set()

    def of(name, table):
        for key, value in list(table.items()):
            if other(value) is not None:
                yield f"{name}.{key}", table, key
            elif isinstance(value, transformers.PretrainedConfig) and id(value) not in seen:
                seen.add(id(value))
                yield from of(f"{name}.{key}", vars(value))

    for name, module in model.named_modules():
        yield from of(name, vars(module))
        for table in ("_parameters", "_buffers"):
            yield from of(name, vars(module)[table])


def answer(call, inputs):
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            return call(**inputs)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("row", chosen())
def test_every_change_of_a_model_is_noticed(row):
    model, inputs = row.build(), row.make_inputs(1)
    compiled = firesteel.compile(model, backend="eager", recompile_limit=10**6)
    wrong, noticed = [], 0

    def same(what):
        with pytest.MonkeyPatch.context() as patch:
            # transformers asks, and takes another way with other attributes: explicit masks, other kernels of experts.
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
            expected = answer(model, inputs)
        found = answer(compiled, inputs)
        try:
            if isinstance(expected, str) or isinstance(found, str):
                # Where a graph raises, the code runs again as it is, and says what it says where nobody compiles.
                if expected != found and answer(model, inputs) != found:
                    raise DifferenceError(f"{expected} and {found}")
            else:
                compare(expected, found)
        except DifferenceError as error:
            wrong.append(f"{what}: {error}"[:300])

    same("at first")
    firesteel.reset_counters()
    same("again")
    assert firesteel.counters()["hits"] == 1
    everything = list(places(model))
    for name, table, key in random.Random(0).sample(everything, min(CHANGES, len(everything))):
        old, before = table[key], firesteel.counters()["misses"]
        table[key] = other(old)
        try:
            same(f"{name} = {table[key]!r}"[:100])
        finally:
            table[key] = old
        noticed += firesteel.counters()["misses"] > before
        same(f"{name} as before")
    assert not wrong
    assert noticed > 5
