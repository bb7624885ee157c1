"""What a program keeps on tensor objects: set, read and deleted in one graph, left there, and guarded."""

import pytest
import torch

import firesteel

ones = torch.ones(3)


@pytest.fixture(params=["eager", "aot_eager", "firesteel"])
def whole(request):
    """Compiles in one graph."""
    return lambda function: firesteel.compile(function, backend=request.param, fullgraph=True)


def test_set_and_read(whole):
    @whole
    def f(x, value):
        x.mine = value
        return x * x.mine

    for value in (4, 5, 2.5, ones * 3, ones * 4):
        for x in (ones.clone(), ones.clone().requires_grad_()):
            torch.testing.assert_close(f(x, value), ones * value)
            assert x.mine is value


def test_what_is_computed_is_left_on_a_tensor_from_outside(whole):
    @whole
    def f(x):
        x.twice = x * 2
        x.parts = [x.twice + 1, "text"]
        return x.twice.sum()

    x = ones.clone()
    assert f(x) == 6
    torch.testing.assert_close([x.twice, x.parts[0]], [ones * 2, ones * 3])
    assert x.parts[1] == "text"
    x.add_(1)
    assert f(x) == 12


def test_on_a_tensor_that_is_computed(whole):
    @whole
    def f(x, tag):
        y = x + 1
        y.tag, y.source, y.itself = tag, x, y
        del y.source
        return y, y.tag

    for tag in ("a", "b"):
        y, read = f(ones, tag)
        assert (y.tag, read, y.itself is y, hasattr(y, "source")) == (tag, tag, True, False)


def test_deleted(whole):
    @whole
    def f(x):
        del x.tag
        return x + 1

    x = ones.clone()
    x.tag = 1
    f(x)
    assert not hasattr(x, "tag")
    with pytest.raises(AttributeError, match="tag"):
        f(x)


def test_two_names_for_one_tensor(whole):
    @whole
    def f(x, y):
        x.tag = 1
        y.tag = 5
        return ones * x.tag

    x, y = ones.clone(), ones.clone()
    assert f(x, y)[0] == 1
    assert f(x, x)[0] == 5
    assert f(y, x)[0] == 1


def test_whether_it_is_there_is_seen(whole):
    @whole
    def f(x, y):
        x.tag = 1
        return ones * (2 if hasattr(y, "tag") else 3)

    x, y = ones.clone(), ones.clone()
    assert [f(x, y)[0], f(x, x)[0]] == [3, 2]
    y.tag = None
    assert f(x, y)[0] == 2
    del y.tag
    assert f(x, y)[0] == 3


def test_over_breaks():
    @firesteel.compile(backend="eager")
    def f(x):
        x.calls = getattr(x, "calls", 0) + 1
        firesteel.graph_break()
        y = x * x.calls
        y.calls = x.calls
        firesteel.graph_break()
        return y + y.calls

    x = ones.clone()
    for call in range(1, 8):
        assert f(x)[0] == 2 * call
    assert x.calls == 7


def test_parameters_and_training(whole):
    parameter = torch.nn.Parameter(ones.clone())

    @whole
    def f(x):
        parameter.seen = getattr(parameter, "seen", 0) + 1
        return (parameter * x).sum()

    f(ones).backward()
    f(ones).backward()
    assert parameter.seen == 2
    torch.testing.assert_close(parameter.grad, ones * 2)


def test_nothing_is_left_where_a_capture_ends_in_an_error():
    def f(x):
        x.tag = x * 2
        print(end="")  # no graph holds it
        return x

    x = ones.clone()
    with pytest.raises(firesteel.GraphBreakError):
        firesteel.compile(f, fullgraph=True)(x)
    assert not hasattr(x, "tag")
