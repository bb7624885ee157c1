"""CPython's tests that end differently when compiled, each with the reason; and those that differ by themselves."""

# test id: why its outcome differs
DIFFERENCES = {
    "test.test_dict.DictTest.test_splittable_popitem": "asks how much memory a dict takes that shares its keys: "
    "one that is made again after a graph break has keys of its own",
}

# test id: why two plain runs need not agree
UNSTEADY = {}
