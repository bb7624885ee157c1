"""Blocks, exceptions, frames and lives of objects around graph breaks inside functions that are called."""

import contextlib
import sys
import traceback

import torch
from nested_programs import inner

import firesteel

CASES = []


def case(function):
    CASES.append(function)
    return function


# ---- blocks


@case
def within_no_grad(x, log):
    with torch.no_grad():
        y = inner(x * 2)
    return y + x


def no_grad_inside_of(x):
    with torch.no_grad():
        x = x * 2
        print("without gradients", torch.is_grad_enabled())
        x = x + 1
    print(torch.is_grad_enabled())
    return x


@case
def no_grad_inside(x, log):
    return no_grad_inside_of(x + 1) * x


@torch.no_grad()
def decorated_no_grad(x):
    x = x + 1
    print("in no_grad", torch.is_grad_enabled())
    return x * 2


@case
def under_no_grad(x, log):
    return decorated_no_grad(x) + x


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return 2

    def __exit__(self, kind, error, trace):
        self.log.append(("exit", kind and kind.__name__))
        return kind is ValueError


@case
def own_manager(x, log):
    with Manager(log) as scale:
        x = inner(x * scale)
    return x - 1


@case
def manager_inside(x, log):
    def function(y):
        with Manager(log) as scale:
            y = y * scale
            print("managed")
            y = y + 1
        return y.relu()

    return function(x) * 2


@contextlib.contextmanager
def generated(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


@case
def generated_manager(x, log):
    with generated(log) as scale:
        x = inner(x * scale)
    return x - 1


# ---- exceptions


def raises(x, kind, text):
    x = x + 1
    print("raises")
    if kind:
        raise kind(text)
    return x * 2


@case
def caught_outside(x, log):
    try:
        y = raises(x * 2, ValueError, "caught")
    except ValueError as error:
        log.append(str(error))
        y = x - 1
    return y * 2


@case
def finally_outside(x, log):
    try:
        return raises(x * 2, None, "") + 1
    finally:
        log.append("finally")


def fails(x):
    raise KeyError("from the break")


fails = firesteel.disable(fails)


def calls_failing(x, log, catches=False):
    x = x + 1
    try:
        x = fails(x)
    except ValueError:
        log.append("never")
    except KeyError as error:
        log.append(("inside", str(error), [f.name for f in traceback.extract_tb(error.__traceback__)]))
        if not catches:
            raise
    finally:
        log.append("finally inside")
    return x * 3


@case
def break_raises_and_is_caught_inside(x, log):
    return calls_failing(x * 2, log, True) + 1


@case
def break_raises_and_is_caught_outside(x, log):
    try:
        y = calls_failing(x * 2, log) + 1
    except KeyError as error:
        log.append([f.name for f in traceback.extract_tb(error.__traceback__)])
        y = x.sin()
    return y + 1


@case
def break_raises_through(x, log):
    y = x * 2
    return deeper_failing(y, log) + 1


def deeper_failing(x, log):
    with Manager(log):
        x = x + 1
        calls_failing(x, log)
    return x


@case
def swallowed_by_a_manager(x, log):
    with Manager(log):
        x = raises(x + 1, ValueError, "swallowed")
    return x * 2


@case
def raised_after_the_break(x, log):
    def function(y):
        y = y + 1
        print("then")
        y = y * 2
        raise IndexError(f"of {tuple(y.shape)}")

    try:
        function(x)
    except IndexError as error:
        log.append(str(error))
    return x + 1


@case
def raised_while_handling(x, log):
    try:
        raise ValueError("first")
    except ValueError:
        y = handles(x * 2, log)
    return y + 1


def handles(x, log):
    x = x + 1
    print("handling", sys.exc_info()[0].__name__)
    log.append(sys.exc_info()[0].__name__)
    return x


# ---- who looks at frames


@firesteel.disable
def names_of_frames(log):
    frame, names = sys._getframe(1), []
    while frame and frame.f_code.co_filename == __file__:
        names.append((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
        frame = frame.f_back
    log.append(names)


@firesteel.disable
def locals_of_caller(log):
    frame = sys._getframe(1)
    log.append(sorted(frame.f_locals))
    log.append(sorted(frame.f_back.f_locals))
    log.append(frame.f_locals["number"])


def looked_at(x, log):
    number = 7
    x = x + number
    names_of_frames(log)
    locals_of_caller(log)
    return x * number


@case
def frames_are_there(x, log):
    y = x * 2
    z = looked_at(y, log)
    return y + z


# ---- what lives across


def keeps_things(x, log, things):
    numbers = [1, 2, 3]
    iterator = iter(numbers)
    next(iterator)
    things["in"] = x
    pair = (x * 2, log)
    print("keeps")
    log.append(list(iterator))
    numbers.append(4)
    things["out"] = pair[0]
    return pair[0] + len(pair[1])


@case
def things_live_on(x, log):
    things = {"before": x + 1}
    alias = things
    y = keeps_things(x * 2, log, things)
    log.append(list(alias))
    return y + things["out"] + alias["in"]


def generates(x):
    for i in range(3):
        yield x + i


@case
def generator_lives_on(x, log):
    items = generates(x)
    y = next(items)
    z = inner(y)
    return z + next(items)


@case
def generator_breaks(x, log):
    def steps(y):
        for i in range(2):
            print("step", i)
            yield y + i

    return sum(steps(x * 2)) + 1


@case
def mutates_in_place(x, log):
    y = x.detach().clone()

    def function(z):
        z.add_(1)
        print("in place", float(z.sum()))
        z.mul_(2)
        return z

    w = function(y)
    return w + y


@case
def data_decides_inside(x, log):
    def function(y):
        y = y.sin()
        if y.sum() > 0:
            log.append("positive")
            return y * 2
        return y - 1

    return function(x * 2) + 3


@case
def item_inside(x, log):
    def function(y):
        return y * (y + 1).sum().item()

    return function(x * 2) + function(x)


class Finalized:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


@firesteel.disable
def a_finalized(log):
    return Finalized(log)


@case
def an_object_ends_in_time(x, log):
    def function(y):
        y = y + 1
        thing = a_finalized(log)
        log.append(type(thing).__name__)
        return y * 2

    z = function(x)
    log.append("after")
    print("break")
    return z + 1
