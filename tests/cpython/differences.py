"""CPython's tests that end differently when compiled, each with the reason; and those that differ by themselves."""

# test id: why its outcome differs
DIFFERENCES = {}

# test id: why two plain runs need not agree
UNSTEADY = {}
