"""Tensors in f-strings: a text that nobody looks at costs no graph break; one that is looked at is eager's."""

import contextlib
import io

import pytest
import torch
from against_eager import BACKENDS, same

import firesteel

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def check(condition, message):
    if not condition:
        raise ValueError(message)


def dropped(x):
    check(x.shape[0] == 3, f"{x} and {x.sum():.2f} of {x.shape!r} do not fit")
    return x * 2


def passed_through(x):
    messages = [f"{x}", ("kept", f"{x.sum()}")]
    if callable(messages[0]) or not isinstance(messages[0], (str, bytes)) or type(messages[0]) is not str:
        return x + 1
    return x * 2


def joined_later(x):
    first = f"<{x.shape[0]}|{x}>"
    message = f"{first}, {first:>10}"
    return x.sin() if message is None else x.cos()


def checked_by_torch(x):
    torch._check_tensor_all(x < 10)
    torch._check_tensor_all(x > -10, lambda: "too small")
    return x * 2


@pytest.mark.parametrize("function", [dropped, passed_through, joined_later, checked_by_torch])
def test_no_graph_break(function, backend):
    firesteel.reset_counters()
    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(3)
        assert same(compiled(x), function(x))
    counters = firesteel.counters()
    assert (counters["captured"], counters["hits"], counters["fallbacks"]) == (1, 3, {})


def returned(x):
    y = x * 2
    return f"{y}", y + 1


def printed(x):
    message = f"{x * 2} has {x.shape}"
    y = x + 1
    print(message)
    return y


def compared(x):
    message = f"{x.sum()}"
    y = x * 2
    return y if message == "tensor(6.)" else y + 1


def measured(x):
    message = f"{x}"
    return x * len(message) + (1 if message else 0)


def a_key(x):
    table = {"tensor(6.)": 1}
    message = f"{x.sum()}"
    return x * table.get(message, 5) + (message in table)


def added_to(x):
    message = "sum: " + f"{x.sum()}"
    return x * 2, message.upper(), message[:3], f"{x.sum()}".split("(")


def raised_and_caught(x):
    try:
        check(x.shape[0] == 4, f"{x.sum()} is wrong")
    except ValueError as error:
        return x * 2, str(error), error.args
    return x


def put_away(x, log=None):
    log = []
    log.append(f"{x.sum()}")
    return x * 2, log


def given_to_nonstrict(x):
    return opaque(x, f"{x.sum()}")


@firesteel.nonstrict_trace
def opaque(x, message):
    return x * len(message)


def walked_over(x):
    return x * sum(1 for letter in f"{x.sum()}" if letter == "("), sorted(f"{x.sum()}")[0]


LOOKING = [
    returned, printed, compared, measured, a_key, added_to, raised_and_caught, put_away, given_to_nonstrict,
    walked_over,
]  # fmt: skip


@pytest.mark.parametrize("function", LOOKING)
def test_whoever_looks_sees_what_eager_sees(function, backend):
    compiled = firesteel.compile(function, backend=backend)
    for values in ([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [1.0, 2.0, 3.0]):
        x = torch.tensor(values)
        seen = []
        for call in (compiled, function):
            with contextlib.redirect_stdout(io.StringIO()) as printed_text:
                seen.append((call(x), printed_text.getvalue()))
        assert same(seen[0][0], seen[1][0])
        assert seen[0][1] == seen[1][1]


def test_an_exception_carries_the_text(backend):
    compiled = firesteel.compile(dropped, backend=backend)
    x = torch.tensor([1.0, 2.0])
    texts = []
    for call in (compiled, dropped):
        with pytest.raises(ValueError, match="do not fit") as found:
            call(x)
        texts.append(str(found.value))
    assert texts[0] == texts[1]


def test_a_check_that_fails_raises_what_torch_raises(backend):
    compiled = firesteel.compile(checked_by_torch, backend=backend, fullgraph=True)
    compiled(torch.randn(3))
    for x in (torch.full((3,), 11.0), torch.full((3,), -11.0)):
        texts = []
        for call in (compiled, checked_by_torch):
            with pytest.raises(RuntimeError) as found:
                call(x)
            texts.append(str(found.value))
        assert texts[0] == texts[1]
    assert same(compiled(torch.ones(3)), torch.full((3,), 2.0))


def test_other_errors_of_checks_are_eager_s(backend):
    def program(x):
        torch._check_tensor_all_with(ValueError, x < 10, lambda: f"{x} is too large")
        return x * 2

    compiled = firesteel.compile(program, backend=backend)
    assert same(compiled(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(ValueError, match=r"tensor\(\[11.\]\) is too large"):
        compiled(torch.full((1,), 11.0))
    with pytest.raises(TypeError, match="must be a tensor"):
        firesteel.compile(lambda x: torch._check_tensor_all(3), backend=backend)(torch.ones(1))
