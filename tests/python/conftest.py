"""For all tests of this folder."""

import os
import signal

import pytest

# No machine code from an earlier run, and none left behind; test_kernel_cache.py has a folder of its own.
os.environ["FIRESTEEL_CACHE"] = "0"

# Native code from the first call, so that counters tell what it does; test_tiers.py does without.
os.environ["FIRESTEEL_WAIT"] = "1"

# Started in the background by a shell, Python would ignore the interrupts that some tests send themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def native():
    """For tests that need kernels."""
    import torch

    import firesteel

    firesteel.reset_native_counters()
    firesteel.trace(lambda x: x.sin() + 1, torch.ones(4), native=True)(torch.ones(4))
    if firesteel.native_counters()["native_ops"] == 0:
        pytest.skip("built without LLVM")
