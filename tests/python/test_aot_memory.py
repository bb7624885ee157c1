"""Traces that write to their inputs, and values that share memory: views, aliases, tensors given twice.

Every case is traced on one set of values and compared with eager on another.
"""

import pytest
import torch
from traced import assert_same, check, tensors

import firesteel

# Writes to inputs


def write(x, y):
    x.mul_(2).add_(y)
    return x.sum()


def write_through_view(x, y):
    x[1:].t().add_(y)
    return x * 2


def test_writes_to_inputs_are_applied():
    graph = check(write, (3, 4), (3, 4))
    assert "mutate %x <- " in str(graph)
    check(write_through_view, (3, 4), (4, 2))


def test_write_of_an_input_that_needs_grad():
    def function(x, y):
        z = x * 1
        z.add_(y)
        z[0].zero_()
        return z

    check(function, (3, 4), (4,), grad=True)


def test_write_to_an_input_that_is_no_leaf():
    def function(x, y):
        x.mul_(y)
        return x.sin()

    def run(call):
        a, b = tensors((3, 4), (3, 4), seed=3, grad=True)
        middle = a * 2
        result = call(middle, b)
        (result.sum() + middle.sum()).backward()
        return result, middle, a.grad, b.grad

    a, b = tensors((3, 4), (3, 4), grad=True)
    graph = firesteel.trace(function, a * 2, b, grad=True)
    for ours, theirs in zip(run(graph), run(function), strict=False):
        torch.testing.assert_close(ours, theirs)


def test_write_of_shape_alone():
    def function(x):
        x.t_()
        return x + 1

    check(function, (3, 4))


def test_writes_under_no_grad():
    def function(x):
        with torch.no_grad():
            x.add_(1)
        return x * 2

    check(function, (3,), grad=True)


def test_write_that_autograd_does_not_see():
    def function(x):
        x.detach().mul_(2)
        return x * 3

    graph = check(function, (3,), grad=True)
    assert "mutate %x <- %mul no_grad" in str(graph)


def test_write_of_shape_alone_is_differentiated():
    def function(x):
        x.t_()
        return x.sin()

    def run(call):
        (a,) = tensors((3, 4), seed=3, grad=True)
        middle = a * 2
        (call(middle).sum() + (middle * middle).sum()).backward()
        return middle, a.grad

    (a,) = tensors((3, 4), grad=True)
    assert_same(run(firesteel.trace(function, a * 2, grad=True)), run(function))


def test_view_made_before_its_input_changed_shape():
    def function(x):
        row, column = x[1], x[:, 1]
        x.unsqueeze_(0)
        return row, x[0], column * 2

    check(function, (3, 4))


def test_writes_keep_the_layout():
    def function(x, y):
        y = y * 1
        y.transpose(0, 1).masked_fill_(y.t() > 0, 2.0)
        y.reshape(-1).mul_(3)  # a view in eager: so it must be one here
        x.transpose(0, 2).masked_fill_(x.transpose(0, 2) > 0, 2.0)
        return y, y.view(-1), x.transpose(0, 2), x.view(-1)

    check(function, (2, 3, 4), (3, 4))


def test_out_arguments():
    def function(x, out):
        torch.mul(x, 3, out=out)
        return out.sum()

    check(function, (3, 4), (3, 4))


# Aliases


def test_returned_view_of_a_written_input():
    def function(x):
        y = x.swapaxes(0, 2)
        y.masked_fill_(y > 0, 2.0)
        return y

    check(function, (2, 3, 4))


def test_view_made_under_no_grad_has_no_history():
    def function(x):
        with torch.no_grad():
            view = x[0]
            inner = (x * 2)[0]
        return view, inner, x.sin()

    graph = firesteel.trace(function, *tensors((3, 4), grad=True), grad=True)
    (x,) = tensors((3, 4), seed=2, grad=True)
    view, inner, result = graph(x)
    assert view.grad_fn is None
    assert inner.grad_fn is None
    assert view._base is x
    result.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_views_of_inputs_are_views():
    def function(x):
        return x[1:], x.t(), x.view(-1)[2], x.detach()

    (x,) = tensors((3, 4))
    graph = firesteel.trace(function, x)
    (y,) = tensors((3, 4), seed=9)
    results = graph(y)
    assert_same(results, function(y))
    for result in results:
        assert result.is_set_to(result)
        assert result.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    y.zero_()
    assert all(result.abs().sum() == 0 for result in results)


def test_view_of_an_input_is_differentiable():
    def function(x):
        return x.t()[1:], x.view(-1) * 2

    check(function, (3, 4), grad=True)


def test_an_output_that_is_an_input_is_that_input():
    graph = firesteel.trace(lambda x, y: (y, x + 1, x), *tensors((3,), (4,)))
    x, y = tensors((3,), (4,), seed=2)
    first, second, third = graph(x, y)
    assert first is y
    assert third is x
    assert torch.equal(second, x + 1)


def test_outputs_that_share_memory():
    def function(x):
        y = x * 2
        return y, y.view(-1), y[0], y

    (x,) = tensors((3, 4), grad=True)
    graph = firesteel.trace(function, x, grad=True)
    a, b, c, d = graph(tensors((3, 4), seed=2, grad=True)[0])
    assert a is d
    assert b._base is a
    assert c._base is a
    with torch.no_grad():
        a.zero_()
    assert b.abs().sum() == 0
    check(function, (3, 4), grad=True)


def test_two_views_of_one_value():
    def function(x):
        y = x * 2
        return y[0], y[1]

    check(function, (3, 4), grad=True)


def test_one_tensor_given_twice():
    def function(x, y):
        x.add_(1)
        return x * y

    (a,) = tensors((3,))
    graph = firesteel.trace(function, a, a)
    ours, theirs = tensors((3,), seed=2)[0], tensors((3,), seed=2)[0]
    assert_same(graph(ours, ours), function(theirs, theirs))
    assert_same(ours, theirs)
    with pytest.raises(firesteel.InputMismatchError, match="one tensor in the trace and are two now"):
        graph(*tensors((3,), (3,)))


def test_inputs_that_share_memory():
    def function(x, y):
        y.mul_(3)
        return x + 1, y

    def arguments(seed):
        (x,) = tensors((4, 4), seed=seed)
        return x, x[1:3]

    graph = firesteel.trace(function, *arguments(0))
    ours, theirs = arguments(2), arguments(2)
    assert_same(graph(*ours), function(*theirs))
    assert_same(ours, theirs)


def test_writing_to_shared_memory_that_needs_grad_is_refused():
    def function(x, y):
        y.mul_(3)
        return x.sum() * y

    (x,) = tensors((4, 4))
    x = x.requires_grad_() * 1
    with pytest.raises(firesteel.MutationError, match="shares its memory"):
        firesteel.trace(function, x, x[1:3], grad=True)
