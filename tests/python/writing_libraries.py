"""More programs that change what existed before: modules, data classes, tensors, and what libraries offer."""

import copy
import dataclasses
import enum
import functools
import itertools
import weakref
from typing import NamedTuple

import torch
from torch import nn
from writing_programs import Plain

CASES = []


def case(function):
    CASES.append(function)
    return function


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.calls = 0
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0))
        self.cache = None

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        self.cache = self.inner(x)
        return self.cache + self.mean


@case
def modules():
    torch.manual_seed(0)
    model = Running()
    return model, lambda: [model.calls, model.mean, model.steps, model.cache, dict(model.named_buffers())]


@case
def batch_norm():
    norm = nn.BatchNorm1d(4)
    return norm, lambda: [dict(norm.named_buffers()), norm.training]


@case
def modules_that_get_new_parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4))

    def step(x):
        model.scale = 2
        model.offset = x.detach()
        model.train(not model.training)
        return model(x) * model.scale

    return step, lambda: [model.training, model.scale, model.offset, list(model.state_dict())]


@dataclasses.dataclass
class Sample:
    x: torch.Tensor
    count: int = 0
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.names.append("made")


@dataclasses.dataclass(slots=True)
class SlottedSample:
    x: object
    count: int = 0


class Pair(NamedTuple):
    left: object
    right: object = 2


@case
def dataclasses_and_namedtuples():
    sample, slotted = Sample(None), SlottedSample(None)
    kept = []

    def step(x):
        sample.x, slotted.x = x, x * 2
        sample.count += 1
        slotted.count = sample.count
        other = dataclasses.replace(sample, count=7)
        pair = Pair(other, slotted)
        kept.append(pair._replace(right=Sample(x, 3)))
        return pair.left.x * kept[-1].right.count, Pair(x)

    return step, lambda: [sample, slotted, kept]


@case
def exceptions_that_are_kept():
    errors = []

    def step(x):
        try:
            {}[x.dim()]
        except KeyError as error:
            errors.append((type(error), error.args))
        errors.append(ValueError("made, not raised"))
        return x * len(errors)

    return step, lambda: errors


@case
def bound_methods_and_functions_kept():
    thing = Plain(calls=[])

    def step(x):
        def later(y, by=2):
            return x * y * by

        thing.later = later
        thing.append = thing.calls.append
        thing.append(x.dim())
        return thing.later(3)

    return step, lambda: [thing.calls, thing.later(1), thing.later.__defaults__, thing.append.__self__ is thing.calls]


@case
def classes_themselves():
    class Kind:
        count = 0

        @classmethod
        def up(cls):
            cls.count += 1
            return cls.count

    def step(x):
        Kind.count += 1
        return x * Kind.up()

    return step, lambda: Kind.count


@case
def partial_functions():
    kept = []

    def scaled(x, by, add=1):
        return x * by + add

    def step(x):
        partly = functools.partial(scaled, x, add=2)
        kept.append(partly)
        return partly(3)

    return step, lambda: [(partly.args, partly.keywords) for partly in kept]


@case
def enumerations():
    class Kind(enum.Enum):
        A = 1
        B = 2

    box = [Kind.A]

    def step(x):
        box[0] = Kind.B if box[0] is Kind.A else Kind.A
        return x * box[0].value, box[0].name

    return step, lambda: box[0].name


@case
def cached_functions():
    calls = []

    @functools.lru_cache
    def doubled(n):
        calls.append(n)
        return n * 2

    def step(x):
        return x * doubled(x.dim()) + doubled(3)

    return step, lambda: calls


@case
def iterators_from_outside():
    counting, items = itertools.count(), iter([1, 2, 3, 4, 5, 6])

    def forever():
        n = 0
        while True:
            n += 1
            yield n

    endless = forever()

    def step(x):
        return x * next(counting) + next(items), next(endless)

    return step, lambda: [repr(counting), items.__length_hint__()]


@case
def gradients_and_an_optimizer():
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (x.detach() * weight).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: [weight, weight.grad]


@case
def parameters_given_new_data():
    parameter = nn.Parameter(torch.ones(4))

    def step(x):
        parameter.data = parameter.data * 2
        with torch.no_grad():
            parameter.add_(1)
        parameter.requires_grad_(not parameter.requires_grad)
        return x @ parameter

    return step, lambda: parameter


@case
def attributes_of_tensors():
    tensor = torch.ones(3)

    def step(x):
        tensor.note = getattr(tensor, "note", 0) + 1
        return x * tensor.note

    return step, lambda: tensor.note


@case
def views_of_one_tensor():
    base = torch.zeros(3, 4)
    view, buffer = base[1], torch.zeros(3, 4)

    def step(x):
        view.add_(x[0].detach())
        base.mul_(2)
        torch.add(x.detach(), 1, out=buffer)
        return view.clone(), base.sum(), buffer * 2

    return step, lambda: [base, view, buffer]


@case
def hooks_put_on_and_taken_off():
    module, seen = nn.Identity(), []

    def step(x):
        handle = module.register_forward_hook(lambda module, args, result: seen.append(1))
        y = module(x)
        handle.remove()
        return y * len(seen)

    return step, lambda: [seen, len(module._forward_hooks)]


@case
def weak_references():
    thing = Plain(a=1)
    reference, table = weakref.ref(thing), weakref.WeakKeyDictionary()

    def step(x):
        table[thing] = table.get(thing, 0) + 1
        return x * table[thing], reference() is thing

    return step, lambda: table[thing]


@case
def keys_that_hash_themselves():
    class Key:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return self.value == other.value

        def __hash__(self):
            return hash(self.value)

    table = {}

    def step(x):
        key = Key(x.dim())
        table[key] = table.get(key, 0) + 1
        return x * table[Key(2)]

    return step, lambda: [(key.value, value) for key, value in table.items()]


@case
def deep_copies():
    base = {"a": [torch.ones(2)], "b": 1}

    def step(x):
        deep, flat = copy.deepcopy(base), copy.copy(base)
        deep["b"] += 1
        flat["x"] = x
        return deep, flat

    return step, lambda: base


@case
def special_methods_that_write():
    class Eager:
        def __init__(self):
            self.count = 0

        def __call__(self, x):
            self.count += 1
            return x * self.count

        def __bool__(self):
            self.count += 1
            return True

        def __len__(self):
            return self.count

        def __iter__(self):
            return iter(range(self.count))

        def __contains__(self, item):
            return item == self.count

    thing = Eager()

    def step(x):
        y = thing(x)
        if thing:
            y = y + len(thing)
        return [y * i for i in thing], 2 in thing

    return step, lambda: thing.count


@case
def default_dtype():
    def step(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        wide = torch.ones(3)
        torch.set_default_dtype(before)
        return wide, torch.ones(2) + x.sum()

    return step, torch.get_default_dtype


# ---- aliasing


@case
def two_names_of_one_list():
    one = [1]
    two = one
    box = {"list": one}

    def step(x):
        one.append(2)
        two.append(3)
        box["list"].append(len(one))
        return x * len(two)

    return step, lambda: [one, two, box]


@case
def made_objects_in_several_places():
    kept = Plain(first=None, second=None, every=[])

    def step(x):
        made = Plain(x=x, me=None)
        made.me = made
        kept.first = kept.second = made
        kept.every.append(made)
        kept.every.append([made, made.x])
        return made.x + 1

    return step, lambda: kept


@case
def swapped_contents():
    a, b = [1, 2], [3]
    box = Plain(a=a, b=b)

    def step(x):
        box.a, box.b = box.b, box.a
        box.a.append(box.b[0])
        box.both = (box.a, box.b)
        return x * len(box.a)

    return step, lambda: [a, b, box]


@case
def tensors_kept_and_changed():
    state = Plain(total=torch.zeros(3), seen=[])

    def step(x):
        state.total += x.detach().sum(1)
        state.seen.append(state.total)
        state.copy = state.total.clone()
        return state.total * 2

    return step, lambda: state
