"""For all tests of this folder."""

import os

# Products by the library that eager calls, so that long sums may be compared closely; the choice between libraries has
# tests of its own (tests/python/test_library_choice.py).
os.environ["FIRESTEEL_MATMUL"] = "aten"
