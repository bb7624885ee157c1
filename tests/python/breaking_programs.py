"""Programs with graph breaks in expressions, loops and calls: each takes a tensor and a list to note events in."""

import math

import torch
from torch import nn

CASES = []


def case(function):
    CASES.append(function)
    return function


# ---- one break of each kind


@case
def prints(x, log):
    y = x * 2
    print("between")
    return y + 1


@case
def branches_on_data(x, log):
    y = x.sin()
    if y.sum() > 0:
        return y * 2
    log.append("negative")
    return y - 1


@case
def reads_an_item(x, log):
    total = (x * 3).sum().item()
    return x * 2 + math.floor(total)


@case
def calls_an_unknown_function(x, log):
    y = x + 1
    text = math.nextafter(1.0, 2.0)
    return y * text


@case
def two_breaks_on_a_line(x, log):
    return x * int(x.sum() > 0) + x.abs().max().item() * (print("second") or 2)


@case
def breaks_first_and_last(x, log):
    print("first")
    y = x.cos()
    print("last")
    return y


@case
def only_breaks(x, log):
    print("one")
    print("two")
    return x


@case
def notes_in_order(x, log):
    log.append("a")
    print("b")
    log.append("c")
    y = x + len(log)
    print("d")
    log.extend(["e", y.shape[0]])
    return y, list(log)


@case
def several_values_on_the_stack(x, log):
    return torch.stack([x + 1, x * 2, x - (print("in a call") or 3), x.exp()], dim=0).sum(0)


@case
def keyword_arguments_on_the_stack(x, log):
    return torch.sum(x + 1, dim=int(x.sum().item() > 0), keepdim=print("dim") is None)


@case
def a_conditional_expression(x, log):
    return (x * 2 if x.mean() > 0 else x * 3) + (1 if print("p") else 2)


@case
def chained_comparison_and_booleans(x, log):
    small = -1.0 < x.sum().item() < 1.0
    return x * small, (x.sum() > 0 and x.max() > 1) or log.append("neither")


@case
def formatted_text(x, log):
    log.append(f"{x.shape} {x.sum().item() > 0!r:>7}")
    return x + 1


@case
def asserts(x, log):
    y = x * 2
    assert y.shape == x.shape
    assert y.isfinite().all(), "not finite"
    return y + 1


# ---- loops


@case
def in_a_for_over_a_range(x, log):
    for i in range(4):
        x = x * 2 + i
        print(i)
        x = x - 1
    return x


@case
def in_a_for_over_a_list(x, log):
    total = x * 0
    for item in [x, x + 1, x * 2]:
        total = total + item
        if total.sum() > 1:
            log.append("large")
            continue
        total = total - 1
    else:
        log.append("else")
    return total


@case
def a_list_that_grows_while_it_is_walked(x, log):
    items = [x]
    for item in items:
        print(len(items))
        if len(items) < 4:
            items.append(item + 1)
    return items


@case
def in_a_for_over_zip_and_enumerate(x, log):
    for i, (a, b) in enumerate(zip([1, 2, 3], (x, x + 1, x * 2), strict=True)):
        x = x + a * b
        print(i, a)
    return x


@case
def in_a_for_over_a_dict(x, log):
    table = {"a": x, "b": x * 2}
    for key, value in table.items():
        print(key)
        x = x + value
    for key in table:
        log.append(key)
        print(key)
    for value in table.values():
        print("value")
        x = x + value
    return x, table


@case
def in_a_for_over_a_set(x, log):
    for n in {3}:
        print(n)
        x = x * n
    return x


@case
def in_a_for_over_a_reversed_list(x, log):
    for n in reversed([1, 2, 3]):
        print(n)
        x = x * 2 + n
    return x


@case
def in_a_for_over_text_and_slices(x, log):
    for letter in "abc"[1:]:
        print(letter)
        x = x + ord(letter)
    return x


@case
def in_nested_loops_with_break_and_continue(x, log):
    for i in range(3):
        for j in range(3):
            if j == 2:
                break
            if (x.sum() > 0) == bool(i % 2):
                continue
            x = x + i * j
            print(i, j)
        else:
            log.append("never")
    return x


@case
def in_a_while_on_data(x, log):
    n = 0
    while x.abs().sum() < 50 and n < 6:
        x = x * 2
        n += 1
    return x, n


@case
def in_a_while_with_a_walrus(x, log):
    while (n := len(log)) < 3:
        log.append(n)
        print(n)
        x = x + n
    return x


def numbers(n):
    log = []
    for i in range(n):
        log.append(i)
        yield i
    log.append("end")


@case
def in_a_for_over_a_generator(x, log):
    for n in numbers(3):
        x = x * 2 + n
        print(n)
    return x


@case
def a_generator_that_breaks_inside(x, log):
    def halves(y):
        for i in range(3):
            print("in", i)
            yield y / (i + 1)

    total = x
    for part in halves(x):
        log.append("out")
        total = total + part
    return total


@case
def a_generator_with_send_and_return(x, log):
    def talk():
        got = yield x + 1
        log.append(got)
        yield x * got
        return "done"

    talking = talk()
    first = next(talking)
    print("started")
    second = talking.send(3)
    try:
        next(talking)
    except StopIteration as stop:
        log.append(stop.value)
    return first + second


@case
def a_generator_expression(x, log):
    return sum(x * n for n in (1, 2, 3)), [print(n) for n in (1, 2)]


@case
def in_comprehensions(x, log):
    rows = [row * (2 if row.sum() > 0 else 3) for row in x]
    table = {i: row + 1 for i, row in enumerate(rows) if print(i) is None}
    kinds = {row.sum().item() > 0 for row in rows}
    return rows, table, sorted(kinds)


@case
def callbacks_of_c_functions(x, log):
    order = sorted(range(3), key=lambda i: x[i].sum().item())
    doubled = list(map(lambda n: x * n, order))  # noqa: C417
    kept = list(filter(lambda t: t.sum() > 0, doubled))
    return order, doubled, len(kept)


# ---- calls


@case
def breaks_in_nested_calls(x, log):
    def low(y, n):
        y = y * n
        print("low", n)
        return y + 1

    def middle(y):
        return low(y, 2) + low(y, 3)

    return middle(x) * 2


@case
def closures_and_nonlocal(x, log):
    count = 0
    kept = [x]

    def step(y):
        nonlocal count
        count += 1
        print(count)
        kept.append(y)
        return y * count

    for _ in range(3):
        x = step(x)
    return x, count, kept


@case
def functions_made_before_a_break(x, log):
    scale = 3

    def times(y, by=2, *, add=x):
        return y * by * scale + add

    partly = lambda y: times(y, 5)  # noqa: E731
    print("made")
    return times(x), partly(x), times(x, add=1)


@case
def recursion(x, log):
    def down(y, n):
        if n == 0:
            print("bottom")
            return y
        return down(y + n, n - 1) * 2

    return down(x, 3)


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def moved(self, by):
        print("moving")
        return Point(self.x + by, self.y * by)

    def __add__(self, other):
        print("adding")
        return Point(self.x + other.x, self.y + other.y)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.x = self.y


@case
def objects_live_across_breaks(x, log):
    a = Point(x, 2)
    b = a.moved(3)
    print(b.y)
    with a + b as c:
        print("inside")
    return c.x, c.y, [a, b]


@case
def star_arguments(x, log):
    def take(*args, **named):
        print(len(args), sorted(named))
        return sum(args) + named["a"]

    rest = [x, x * 2]
    return take(*rest, 1, **{"a": x, "b": 2})  # noqa: PIE804


@case
def pattern_matching(x, log):
    match {"shape": tuple(x.shape), "kind": [1, 2, 3]}:
        case {"shape": (3, columns), "kind": [first, *rest]}:
            print(columns, first)
            return x * columns + sum(rest)
    return None


@case
def deleted_names(x, log):
    y = x + 1
    print("before")
    del x
    z = y * 2
    del y
    print("after")
    try:
        return y  # noqa: F821
    except UnboundLocalError as error:
        log.append(str(error))
    return z


@case
def in_place_across_a_break(x, log):
    y = x.detach() * 1
    view = y[0]
    y.add_(1)
    print("between")
    view.mul_(2)
    y[1:] = 5
    return y, view, y.sum().item()


@case
def random_numbers_across_a_break(x, log):
    torch.manual_seed(3)
    a = torch.rand(3)
    print("between")
    return a, torch.nn.functional.dropout(x, 0.5), torch.randn(2)


LAYERS = nn.ModuleList([nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(0.0)])


@case
def modules_in_a_loop(x, log):
    for layer in LAYERS:
        x = layer(x)
        print(type(layer).__name__)
        x = torch.relu(x) + 1
    return x
