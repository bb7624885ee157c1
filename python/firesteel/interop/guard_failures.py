"""torch._dynamo.optimize(guard_fail_fn=…): tells programs which guard has failed, in the words that they look for."""

import re

import torch

_listeners = {}  # qualified name of a function -> who is told of its guards, and its code


def telling(listener, apply):
    """The same decorator; `listener` is called with PyTorch's GuardFail whenever the function is compiled again."""

    def compile(model):
        function = type(model).forward if isinstance(model, torch.nn.Module) else model
        function = getattr(function, "__func__", function)
        if hasattr(function, "__code__"):
            _listeners[function.__qualname__] = listener, function.__code__
        return apply(model)

    return compile


def tell(function, why):
    if function in _listeners:
        from torch._dynamo.types import GuardFail

        listener, code = _listeners[function]
        listener(GuardFail("0/0: " + in_their_words(why), code))


def forget():
    _listeners.clear()


def in_their_words(why):
    """What a guard has found, told as PyTorch tells it where it has words for that."""
    for pattern, words in _WORDS:
        if found := re.fullmatch(pattern, why):
            return words(*found.groups())
    return why


def _mismatch(what, name, now, was):
    now, was = (sizes.strip("[]").split(", ") for sizes in (now, was))
    if len(now) != len(was):
        return f"tensor {name!r} rank mismatch. expected {len(was)}, actual {len(now)}"
    place = next(i for i, size in enumerate(was) if size != now[i])
    return f"tensor {name!r} {what} mismatch at index {place}. expected {was[place]}, actual {now[place]}"


_WORDS = (
    (r"`(.+)`: (size|stride) is (.+), was (.+)", lambda name, what, now, was: _mismatch(what, name, now, was)),
    (r"`(.+)`: dtype is (.+), was (.+)", "tensor {0!r} dtype mismatch. expected {2}, actual {1}".format),
    (
        r"`(.+)`: requires_grad is .+, was (.+)",
        lambda name, was: f"tensor {name!r} requires_grad mismatch. expected requires_grad={int(was == 'true')}",
    ),
    (r"`(.+)` has .+ items?, had (.+)", "len({0}) == {1}".format),
    (r"`(.+)` and `(.+)` are no longer the same object", "{1} is {0}".format),
    (r"`(.+)` and `(.+)` are (?:now )?the same object", 'Duplicate tensors found: ["{1}", "{0}"]'.format),
    (r"`(.+)` is a .+, was an? (.+)", "type({0}) is {1}".format),
    (r"`(.+)` is .+, was (.+)", "{0} == {1}".format),
)
