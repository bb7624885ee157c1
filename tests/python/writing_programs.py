"""Programs that change what existed before the call: each gives a step to call, and a look at all that it changes."""

import collections
import sys

import torch

CASES = []


def case(function):
    CASES.append(function)
    return function


class Plain:
    kind = "class"

    def __init__(self, **values):
        self.__dict__.update(values)


class Slotted:
    __slots__ = ("a", "b")


class Mixed(Slotted):
    pass


class Clamped:
    """A data descriptor written in Python."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        setattr(instance, self.name, min(value, 3))

    def __delete__(self, instance):
        delattr(instance, self.name)


class Guarded:
    level = Clamped()

    def __init__(self):
        self._size, self.history = 1, []
        self.level = 0

    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, value):
        self.history.append(self._size)
        self._size = value

    @size.deleter
    def size(self):
        self._size = 0


class Recording:
    def __init__(self):
        object.__setattr__(self, "seen", [])

    def __setattr__(self, name, value):
        self.seen.append(name)
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self.seen.append("del " + name)
        super().__delattr__(name)

    def __setitem__(self, key, value):
        self.seen.append(key)
        self.__dict__[key] = value

    def __getattr__(self, name):
        if name.startswith("missing"):
            return len(name)
        raise AttributeError(name)


# ---- attributes


@case
def attributes():
    thing = Plain(count=0, last=None)

    def step(x):
        thing.count += 1
        thing.last = x * thing.count
        thing.fresh = [thing.last]
        return thing.last + thing.count

    return step, lambda: thing


@case
def attributes_deleted_and_set_again():
    thing = Plain(a=1, b=2)

    def step(x):
        del thing.a
        thing.a = x
        thing.b, thing.c = thing.a, thing.b
        if hasattr(thing, "d"):
            del thing.d
        else:
            thing.d = 1
        return x + 1

    return step, lambda: thing


@case
def class_attributes_hidden_by_the_instance():
    thing = Plain()

    def step(x):
        before = thing.kind
        thing.kind = before + "!"
        return x, before

    return step, lambda: thing


@case
def slots():
    thing, mixed = Slotted(), Mixed()
    thing.a, mixed.a = 0, 0

    def step(x):
        thing.a += 1
        thing.b = x * thing.a
        mixed.b, mixed.c = thing.b, thing
        if thing.a == 2:
            del mixed.a
        return thing.b

    return step, lambda: [thing, mixed]


@case
def properties_and_descriptors():
    thing = Guarded()

    def step(x):
        thing.size = thing.size + 2
        thing.level = thing.level + 2
        if thing.size > 5:
            del thing.size
        return x * thing.level

    return step, lambda: thing


@case
def setattr_of_ones_own():
    thing = Recording()

    def step(x):
        thing.a = x
        thing["b"] = x.shape[0]
        thing.a = thing.b
        setattr(thing, "c" + str(thing.b), thing.missing)
        del thing.a
        return x * thing.missing_too

    return step, lambda: thing


@case
def augmented_assignment_of_everything():
    thing = Plain(number=1, text="a", items=[1], table={"k": 1}, kinds={1}, pair=(1,))

    def step(x):
        thing.number -= 3
        thing.text += "b"
        thing.items += [2]
        thing.items *= 2
        thing.table |= {"l": thing.number}
        thing.table["k"] += 1
        thing.kinds |= {thing.number}
        thing.pair += (x,)
        return x * thing.number

    return step, lambda: thing


@case
def dunder_dict():
    thing = Plain(a=1)

    def step(x):
        thing.__dict__["b"] = x
        thing.__dict__.update(c=2, a=thing.a + 1)
        vars(thing).pop("c")
        return x + thing.a

    return step, lambda: thing


# ---- names

TOTAL = 0
FRESH = None


@case
def globals_of_a_module():
    space = sys.modules[__name__].__dict__
    space.update(TOTAL=0, FRESH=None)

    def step(x):
        global TOTAL, FRESH
        TOTAL += 1
        FRESH = [x, TOTAL]
        return x * TOTAL

    return step, lambda: [space["TOTAL"], space["FRESH"]]


@case
def nonlocal_names():
    count, kept = 0, None

    def step(x):
        nonlocal count, kept
        count += 2
        previous, kept = kept, x * count
        return kept if previous is None else previous

    return step, lambda: [count, kept]


@case
def nonlocal_of_two_functions():
    count = 0

    def add(by):
        nonlocal count
        count += by
        return count

    def step(x):
        nonlocal count
        first = add(1)
        count *= 2
        return x * add(3) + first

    return step, lambda: count


@case
def function_attributes():
    def helper(x):
        helper.calls += 1
        return x * helper.calls

    helper.calls = 0

    def step(x):
        return helper(x) + helper(x)

    return step, lambda: helper.calls


# ---- containers


@case
def list_methods():
    items = [5, 3, 4]

    def step(x):
        items.append(len(items))
        items.extend([1, 2])
        items.insert(1, 9)
        items.remove(2)
        last = items.pop()
        first = items.pop(0)
        items.sort()
        items.reverse()
        items[0] = first
        items[1:2] = [7, 8]
        del items[-1]
        items.extend([last])
        return x * sum(items), items.index(7), items.count(1), list(items)

    return step, lambda: items


@case
def lists_of_tensors():
    items = []

    def step(x):
        items.append(x)
        items.append(x * 2)
        if len(items) > 4:
            items[0], items[1] = items[1], items[0]
            del items[2]
        return sum(items)

    return step, lambda: items


@case
def lists_cleared_and_filled():
    items = [1]

    def step(x):
        old = list(items)
        items.clear()
        items.extend(n + 1 for n in old)
        items.append(0)
        return x + len(items), old

    return step, lambda: items


@case
def dict_methods():
    table = {"a": 1, "z": 26}

    def step(x):
        table["b"] = table.get("b", 0) + 1
        table.setdefault("c", []).append(x.shape[0])
        table.update({"d": x}, e=5)
        table.pop("e")
        table.pop("nothing", None)
        del table["z"]
        table["z"] = table["b"]
        key, value = table.popitem()
        table[key] = value
        return x * table["b"], list(table), next(iter(table.values())), "a" in table

    return step, lambda: table


@case
def dicts_keep_their_order():
    table = {"a": 1, "b": 2, "c": 3}

    def step(x):
        first = next(iter(table))
        table[first] = table.pop(first)
        table[x.dim()] = x
        return x, list(table)

    return step, lambda: table


@case
def dict_keys_of_all_kinds():
    table = {}

    def step(x):
        for key in (1, 1.5, "s", None, (1, "t"), torch.float32, True, frozenset([1]), int):
            table[key] = table.get(key, 0) + 1
        return x * len(table)

    return step, lambda: [(str(key), value) for key, value in table.items()]


@case
def set_methods():
    kinds = {1, 2, 3}

    def step(x):
        kinds.add(len(kinds) + 10)
        kinds.discard(1)
        kinds.update([20, 21])
        kinds.remove(20)
        kinds.difference_update({21})
        kinds.symmetric_difference_update({2, 4})
        return x * len(kinds), 3 in kinds, sorted(kinds)

    return step, lambda: kinds


@case
def deques():
    recent, all_of_them = collections.deque([0], maxlen=3), collections.deque()

    def step(x):
        recent.append(x.shape[0])
        recent.appendleft(len(recent))
        all_of_them.append(x)
        all_of_them.extend([1, 2])
        all_of_them.popleft()
        all_of_them.rotate(1)
        return x * recent[0], len(all_of_them)

    return step, lambda: [recent, all_of_them]


@case
def ordered_dicts():
    table = collections.OrderedDict(a=1, b=2)

    def step(x):
        table["c"] = x
        table.move_to_end("a")
        table["b"] += 1
        table.pop("c")
        return x * table["b"], list(table)

    return step, lambda: table


@case
def ordered_dicts_moved_to_the_front():
    table = collections.OrderedDict(a=1, b=2, c=3)

    def step(x):
        table.move_to_end(next(reversed(table)), last=False)
        table.popitem(last=False)
        table["n"] = x
        return x + 1, list(table)

    return step, lambda: table


@case
def default_dicts():
    lists, counts = collections.defaultdict(list), collections.defaultdict(int)

    def step(x):
        lists["a"].append(x)
        lists[x.dim()]
        counts["b"] += 2
        counts["n"] += counts["b"]
        return x * counts["n"], "missing" in lists

    return step, lambda: [lists, counts]


@case
def counters_and_chains():
    words = collections.Counter("ab")

    def step(x):
        words["a"] += 1
        words.update("bc")
        return x * words["a"], words["nothing"]

    return step, lambda: words


class Bag(list):
    def put(self, item):
        self.append(item)
        return self


class Table(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, len(self)))


@case
def subclasses_of_containers():
    bag, table = Bag([1]), Table()
    bag.name = "b"

    def step(x):
        bag.put(x).put(len(bag))
        bag.name += "!"
        table["k"] = bag[1]
        return x * len(bag)

    return step, lambda: [bag, table]


@case
def nested_containers():
    tree = {"left": [{"value": 1}], "right": ([], {})}

    def step(x):
        tree["left"][0]["value"] += 1
        tree["right"][0].append(tree["left"][0])
        tree["right"][1][len(tree["right"][0])] = x
        tree["new"] = {"back": tree}
        return x * tree["left"][0]["value"]

    return step, lambda: tree
