"""Random programs about shapes give over many sizes what they give eagerly: 60, or 2,000 with FIRESTEEL_FULL=1.

Results, gradients and exceptions are compared at every size, 0 and 1 and primes among them; every operator's result is
compared with the layout that was recorded for it. Those with operators whose sizes depend on data are one graph each
(where they ask for what only data tells, they are refused), or break. FIRESTEEL_SEED chooses other programs; `-s`
shows how many captures the calls took.
"""

import collections
import os
import warnings

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from shape_programs import programs

import firesteel

FULL = os.environ.get("FIRESTEEL_FULL") == "1"
SEED = int(os.environ.get("FIRESTEEL_SEED", "0"))
COUNTED = collections.Counter()


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CHECK_SHAPES", "1")
    monkeypatch.setenv("FIRESTEEL_CACHE", "0")
    monkeypatch.setenv("FIRESTEEL_WAIT", "1")


def outcome(function, n, m):
    """What a call gives, with the gradient of `x`; or the type of what it raises."""
    torch.manual_seed(7)
    x, y = torch.randn(n, m, requires_grad=True), torch.randn(m)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = function(x, y)
    except Exception as error:  # whatever a program raises, it must raise compiled too
        return type(error), str(error).splitlines()[0], None
    wanted = [value for value in results if isinstance(value, torch.Tensor) and value.requires_grad]
    total = sum((value * torch.linspace(0.5, 1, value.numel()).view(value.shape)).sum() for value in wanted)
    return None, results, torch.autograd.grad(total, x, allow_unused=True)[0]


def check(program, backend):
    space = {"torch": torch, "F": torch.nn.functional}
    exec(compile(program.text(), "<shape program>", "exec"), space)
    function = space["program"]
    options = {"dynamic": program.dynamic, "recompile_limit": 64, "fullgraph": program.whole}
    compiled = firesteel.compile(function, backend=backend, **options)
    firesteel.reset_counters()
    for n, m in program.sizes:
        raised, expected, gradient = outcome(function, n, m)
        now_raised, given_, now_gradient = outcome(compiled, n, m)
        if program.whole and now_raised is firesteel.GraphBreakError:
            COUNTED["refused"] += 1
            continue
        assert now_raised == raised, f"sizes {n}, {m}: {expected} instead of {given_}"
        if raised:
            continue
        for got, wanted in zip(given_, expected, strict=True):
            assert type(got) is type(wanted), f"sizes {n}, {m}: {got!r} instead of {wanted!r}"
            if isinstance(wanted, torch.Tensor):
                assert got.stride() == wanted.stride() or wanted.numel() < 2, f"sizes {n}, {m}"
                torch.testing.assert_close(
                    got, wanted, equal_nan=True, msg=lambda text, n=n, m=m: f"sizes {n}, {m}: {text}"
                )
            else:
                assert got == wanted, f"sizes {n}, {m}: {got!r} instead of {wanted!r}"
        if gradient is not None:
            torch.testing.assert_close(now_gradient, gradient, equal_nan=True)
    counted = firesteel.counters()
    COUNTED["calls"] += len(program.sizes)
    COUNTED["captured"] += counted["captured"]
    COUNTED["eager"] += sum(counted["fallbacks"].values())
    COUNTED["whole"] += program.whole * len(program.sizes)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
def test_random_shape_programs(backend):
    COUNTED.clear()

    @seed(SEED)
    @settings(
        max_examples=(2000 if FULL else 60) // 3 + 1,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def run(program):
        note(program.text())
        check(program, backend)

    run()
    assert COUNTED["eager"] * 5 < COUNTED["calls"], COUNTED
    assert COUNTED["refused"] * 2 < COUNTED["whole"], COUNTED
    print(f"{backend}: {dict(COUNTED)}")
