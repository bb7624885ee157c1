"""Random programs behave compiled as they do eagerly: 100 of them, 2,000 with FIRESTEEL_FULL=1.

FIRESTEEL_SEED chooses other programs; `-s` shows what was captured. While a program runs its
text stands in a file, which a crash leaves behind.
"""

import collections
import os
import tempfile
from pathlib import Path

import pytest
import torch
from differential import check, compare, run
from hypothesis import HealthCheck, Phase, given, seed, settings
from programs import programs

FULL = os.environ.get("FIRESTEEL_FULL") == "1"
SEED = int(os.environ.get("FIRESTEEL_SEED", "0"))
RUNNING = Path(tempfile.gettempdir(), f"firesteel-random-program-{os.getpid()}.txt")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def many(test, count, shard):
    """Runs a test on so many programs, the same ones every time; each shard has its own."""
    # No phase "explain": it would trace the programs, and a traced function is not captured.
    chosen = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    seed(SEED * 1000 + shard)(chosen(given(programs())(test)))()


@pytest.mark.parametrize("shard", range(10 if FULL else 2))
def test_programs_are_deterministic(shard):
    def eager_twice(program):
        compare(program, run(program, lambda f: f), run(program, lambda f: f), "eager again")

    many(eager_twice, 100 if FULL else 25, shard)


@pytest.mark.parametrize("shard", range(20 if FULL else 4))
def test_compiled_programs_behave_like_eager_ones(shard):
    counted = collections.Counter()

    def eager_and_compiled(program):
        RUNNING.write_text(repr(program))
        try:
            for counters in check(program):
                counted.update({key: value for key, value in counters.items() if isinstance(value, int)})
                counted.update(counters["fallbacks"])
        finally:
            RUNNING.unlink()

    try:
        many(eager_and_compiled, 100 if FULL else 25, shard)
    finally:
        print(dict(counted))
