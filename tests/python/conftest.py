"""For all tests of this folder."""

import os
import signal

# No machine code from an earlier run, and none left behind; test_kernel_cache.py has a folder of its own.
os.environ["FIRESTEEL_CACHE"] = "0"

# Native code from the first call, so that counters tell what it does; test_tiers.py does without.
os.environ["FIRESTEEL_WAIT"] = "1"

# Started in the background by a shell, Python would ignore the interrupts that some tests send themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)
