"""Programs that keep all kinds of values alive across a graph break."""

import torch

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def iterators(x, log):
    pairs, counted, mapped = zip([1, 2, 3], [x, x, x], strict=True), enumerate([x, x + 1], 5), map(str, [1, 2, 3])
    entries, backwards = iter({"a": x, "b": x + 1}.items()), reversed((x, x * 2))
    for iterator in (pairs, counted, mapped, entries, backwards):
        next(iterator)
    print("between")
    return [list(iterator) for iterator in (pairs, counted, mapped, entries, backwards)]


@case
def generators(x, log):
    parts = (x * n for n in range(3))
    first = next(parts)
    print("between")
    return first, list(parts)


@case
def views_of_dicts(x, log):
    table = {"a": 1}
    keys, values = table.keys(), table.values()
    print("between")
    table["b"] = x
    return list(keys), len(values)


@case
def functions_bound_late(x, log):
    late, early = [lambda y: y * n for n in range(3)], [lambda y, n=n: y * n for n in range(3)]  # noqa: B023
    print("between")
    return [f(x) for f in late + early]


@case
def classes(x, log):
    class Kind:
        factor = 2

        def apply(self, y):
            return y * self.factor

    class Special(Kind):
        def apply(self, y):
            print("inside")
            return super().apply(y) + 1

    print("between")
    return Special().apply(x), Special.__name__


@case
def exceptions(x, log):
    try:
        raise ValueError("kept", 1)
    except ValueError as error:
        kept = error
    made = KeyError("made")
    print("between")
    return type(kept), kept.args, kept.__traceback__ is not None, made.args


@case
def numbers_and_texts(x, log):
    large, odd = 10**30, (1j * 2, 0.1 + 0.2, float("inf"), -0.0, float("nan"))
    text = f"{x.shape[0]:>4}"
    print("between")
    return x * float(large), large + 1, odd, text.join("ab"), {x.dim(), "a", (1, 2)} == {2, "a", (1, 2)}


@case
def slices_and_unpacked_parts(x, log):
    part, (first, *rest) = slice(0, 2), x.unbind(0)
    print("between")
    return x[part], first, rest, x[..., None].shape, x.max(0)


@case
def two_names_of_one_tensor(x, log):
    a = b = x * 2
    view = a.view(-1)[1:]
    print("between")
    view.add_(3)
    return a is b, b, view


@case
def autograd_inside(x, log):
    leaf = x.detach().requires_grad_()
    loss = (leaf**2).sum()
    print("between")
    return torch.autograd.grad(loss, leaf)


@case
def grad_mode_left_off(x, log):
    torch.set_grad_enabled(False)
    y = x * 2
    print("between")
    torch.set_grad_enabled(True)
    return y * x, y.requires_grad


@case
def inference_mode(x, log):
    with torch.inference_mode():
        y = x * 2
        print("between")
        y = y + 1
    return y.is_inference(), y.tolist()


@case
def lazy_conjugates(x, log):
    y = torch.view_as_complex(torch.stack([x, x], -1)).conj()
    print(y.is_conj())
    return y.is_conj(), y.resolve_conj().is_conj(), y.imag.is_neg()
