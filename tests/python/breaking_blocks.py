"""Programs with graph breaks in `with` and `try`: each takes a tensor and a list to note events in."""

import contextlib

import torch

CASES = []


def case(function):
    CASES.append(function)
    return function


# ---- with


class Noted:
    def __init__(self, log, swallow=()):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(("exit", kind, None if error is None else error.args, trace is None))
        return kind is not None and issubclass(kind, self.swallow)


@contextlib.contextmanager
def noted(log, x):
    log.append("before")
    try:
        yield x + 1
    except ValueError as error:
        log.append(error.args)
    finally:
        log.append("after")


@case
def in_no_grad(x, log):
    with torch.no_grad():
        y = x * 2
        print(torch.is_grad_enabled())
        y = y + 1
    return y + x, torch.is_grad_enabled()


@case
def in_enable_grad_inside_no_grad(x, log):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
            print("inner")
        c = x * a.sum().item()
    return a, b, c


@case
def in_set_grad_enabled(x, log):
    with torch.set_grad_enabled(bool(x.sum() > 0)):
        y = x * 2
        print(y.requires_grad)
    return y


@case
def in_autocast(x, log):
    x = x * 1  # of leaves autocast keeps the casts, and sums their gradients, from `with` to `with`: not across pieces
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        print(y.dtype)
        y = y @ x
    return y, x @ x.T


@case
def in_a_with_of_ones_own(x, log):
    with Noted(log) as here:
        y = x + len(here.log)
        print("inside")
        y = y * 2
    return y - x


@case
def in_a_contextmanager(x, log):
    with noted(log, x) as y:
        y = y * 2
        print("inside")
        y = y + 1
    return y - x


@case
def two_context_managers(x, log):
    with Noted(log) as a, noted(a.log, x) as y, torch.no_grad():
        print("inside")
        return y * 2, torch.is_grad_enabled()


@case
def a_return_out_of_a_with_in_a_loop(x, log):
    for i in range(3):
        with Noted(log):
            print(i)
            x = x * 2
            if i == 1:
                return x
    return None


@case
def an_exception_swallowed_by_a_with(x, log):
    with Noted(log, ValueError):
        print("inside")
        raise ValueError("swallowed")
    with noted(log, x) as y:
        print("again")
        raise ValueError("too")
    with contextlib.suppress(KeyError):
        print({}["missing"])
    return x + 1, y


@case
def exit_stacks(x, log):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Noted(log))
        stack.callback(log.append, "callback")
        print("inside")
        x = x * 2
    with contextlib.nullcontext(x) as y:
        print("null")
    return y


# ---- try


@case
def in_try_except_else_finally(x, log):
    try:
        y = x * 2
        print("try")
        y = y + 1
    except ValueError:
        log.append("except")
    else:
        print("else")
        log.append("else")
    finally:
        print("finally")
        log.append("finally")
    return y


@case
def in_a_handler(x, log):
    try:
        {}["key"]
    except KeyError as error:
        print("handling")
        log.append(error.args)
        x = x * 2
        print(repr(error))
    return x + 1


@case
def a_break_raises_what_is_caught(x, log):
    try:
        y = x + 1
        int("no number")
    except (TypeError, ValueError) as error:
        log.append(str(error))
        y = x - 1
    return y * 2


@case
def handlers_inside_handlers(x, log):
    try:
        try:
            print("first")
            raise ValueError(1)
        except ValueError as error:
            print("second")
            raise KeyError(2) from error
        finally:
            print("third")
            x = x + 1
    except KeyError as error:
        log.append((error.args, error.__cause__.args))
        x = x * 2
    return x


@case
def finally_with_return_in_a_loop(x, log):
    for i in range(3):
        try:
            print(i)
            x = x * 2
            if i == 1:
                continue
            if i == 2:
                return x
        finally:
            log.append(i)
            x = x + 1
            print("finally", i)
    return x


@case
def an_exception_leaves_after_a_break(x, log):
    y = x * 2
    log.append("before")
    print(y.shape)
    raise ValueError("text", 3)


@case
def an_exception_on_data(x, log):
    y = x * 2
    log.append("before")
    if y.sum() > 0:
        raise IndexError("positive")
    return y


@case
def an_exception_in_a_nested_call(x, log):
    def inner(y):
        print("inner")
        log.append("inner")
        return y.reshape(5, 5)

    def outer(y):
        z = y + 1
        return inner(z) * 2

    return outer(x)


@case
def an_exception_in_a_with_and_a_finally(x, log):
    try:
        with Noted(log), torch.no_grad():
            print("inside")
            x = x + 1
            raise RuntimeError("leaves")
    finally:
        log.append("finally")
        print("finally")


@case
def an_exception_raised_from_another(x, log):
    try:
        print("first")
        x.view(5, 5)
    except RuntimeError as error:
        log.append("handled")
        raise LookupError("second") from error


@case
def a_bare_raise(x, log):
    try:
        y = x + 1
        print("first")
        raise OSError(2, "text")
    except OSError:
        log.append(y.shape)
        print("again")
        raise


@case
def a_generator_that_raises(x, log):
    def failing():
        yield x
        print("about to")
        raise ZeroDivisionError("inside")

    for part in failing():
        x = x + part
    return x
