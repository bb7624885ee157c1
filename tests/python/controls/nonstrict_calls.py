"""What the tests of nonstrict_trace share: functions compiled whole, and one that capture cannot look into."""

import torch

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


def compiled_whole(function, backend, **options):
    firesteel.reset_counters()
    return firesteel.compile(function, backend=backend, fullgraph=True, **options)


def assert_captured(captures, hits):
    counts = firesteel.counters()
    assert (counts["captured"], counts["hits"]) == (captures, hits), counts
    assert not counts["breaks"], counts
    assert not counts["fallbacks"], counts


def check(function, *examples, backend, captures=1):
    """Compiled on the first example, called on all, each equal to eager's."""
    compiled = compiled_whole(function, backend)
    for args in examples:
        torch.testing.assert_close(compiled(*args), function(*args))
    assert_captured(captures, len(examples))
    return compiled


def untraceable(x):
    """What capture cannot look into: a C function with an effect it does not know, and a graph break."""
    firesteel.graph_break()
    sorted([3, 1], key=memoryview(bytes(4)).__getitem__)
    return x.sin() * 2


traced = firesteel.nonstrict_trace(untraceable)


class Box:
    def __init__(self, inside, label):
        self.inside, self.label = inside, label


firesteel.register_pytree_node(Box, lambda box: ([box.inside], box.label), lambda parts, label: Box(parts[0], label))
