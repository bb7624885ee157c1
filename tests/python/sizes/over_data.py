"""What the tests of numbers and sizes that data gives share: one graph serves all calls, and each is eager's."""

import torch
from against_eager import same

import firesteel


def captured_once(function, calls, backend):
    """Each call gives what eager gives, gradients too, and all of them are served by the first one's graph."""
    compiled = firesteel.compile(function, fullgraph=True, backend=backend, dynamic=False)
    for args in calls:
        ours = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
        theirs = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
        found, wanted = compiled(*ours), function(*theirs)
        assert same(found, wanted), (found, wanted)
        for result, like in zip(flat(found), flat(wanted), strict=True):
            if not isinstance(like, torch.Tensor) or not like.requires_grad:
                continue
            result.sum().backward(retain_graph=True)
            like.sum().backward(retain_graph=True)
        for own, other in zip(ours, theirs, strict=True):
            assert (own.grad is None) == (other.grad is None)
            assert own.grad is None or torch.allclose(own.grad, other.grad)
    counters = firesteel.counters()
    assert counters["captured"] == 1
    assert counters["hits"] == len(calls)
    assert not counters["breaks"]
    assert not counters["fallbacks"]


def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else [value]
