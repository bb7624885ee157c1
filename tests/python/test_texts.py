"""Texts of objects that are made inside: they tell the address of the object that the call gives, at every call."""

import collections
import functools
import types

import pytest
import torch

import firesteel


def made(form):
    """A function whose object is made inside, and written by `form`."""

    def function(x):
        item = object()
        return form(item), item, x + 1

    return function


FORMS = {
    "repr": repr,
    "f-string": lambda item: f"{item!r}",
    "format": lambda item: "{!r}".format(item),  # noqa: UP032
    "format by name": lambda item: "{a!r}".format(a=item),  # noqa: UP032
    "format_map": lambda item: "{a!r}".format_map({"a": item}),
    "__mod__": lambda item: "%r".__mod__((item,)),
    "percent": lambda item: "%r" % (item,),  # noqa: UP031
    "percent by name": lambda item: "%(a)r" % {"a": item},  # noqa: UP031
    "percent, a dict": lambda item: "%r" % {"a": item},  # noqa: UP031
    "list": lambda item: repr([item]),
    "nested": lambda item: str({"a": [(1, item)]}),
    "key": lambda item: str({item: 1}),
    "set": lambda item: str({item}),
    "values of a dict": lambda item: str({"a": item}.values()),
    "deque": lambda item: str(collections.deque([item])),
    "partial": lambda item: str(functools.partial(max, item)),
    "namespace": lambda item: str(types.SimpleNamespace(a=item)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_text_is_that_of_the_object_at_hand(form):
    compiled = firesteel.compile(made(form), backend="eager")
    for _ in range(3):
        text, item, result = compiled(torch.ones(2))
        assert hex(id(item)) in text
        torch.testing.assert_close(result, torch.full((2,), 2.0))


def test_texts_without_addresses_are_captured():
    def function(x):
        parts = ["%s and %r" % ([1, "a"], {"b": 2.0}), f"{(1, None)}", str({3}), repr({"a": [True]})]  # noqa: UP031
        return x + 1, parts

    compiled = firesteel.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(1))[1] == function(torch.ones(1))[1]
