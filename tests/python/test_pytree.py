"""Nested arguments and results: every container and constant, kept, rebuilt and compared."""

import enum
import math
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest
import torch
import torch.utils._pytree as torch_pytree

import firesteel

Point = namedtuple("Point", ["x", "y"])


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class Config:
    norm: str


class Box:
    def __init__(self, content, label):
        self.content, self.label = content, label

    def __repr__(self):
        return f"Box({self.content!r}, {self.label!r})"


class Odd:
    """Registered with a flatten function that each test chooses."""

    flatten = None


torch_pytree.register_dataclass(Batch)
torch_pytree.register_constant(Config)
torch_pytree.register_pytree_node(
    Box, lambda box: ([box.content], box.label), lambda children, label: Box(children[0], label)
)
torch_pytree.register_pytree_node(Odd, lambda odd: Odd.flatten(odd), lambda children, context: Odd())


def tensor():
    return torch.randn(2)


CONTAINERS = {
    "list": lambda: [tensor(), tensor()],
    "tuple": lambda: (tensor(), tensor()),
    "empty": lambda: ([], (), {}),
    "dict": lambda: {"b": tensor(), "a": tensor()},
    "dict with odd keys": lambda: {1: tensor(), ("a", 2): tensor(), None: tensor(), 2.5: tensor()},
    "OrderedDict": lambda: OrderedDict(b=tensor(), a=tensor()),
    "defaultdict": lambda: defaultdict(list, {"a": [tensor()]}),
    "deque": lambda: deque([tensor(), tensor()], maxlen=3),
    "namedtuple": lambda: Point(tensor(), [tensor()]),
    "structseq": lambda: torch.max(torch.randn(2, 3), dim=0),
    "dataclass": lambda: Batch(tensor(), None, 2.0),
    "dataclass with mask": lambda: Batch(tensor(), tensor()),
    "registered class": lambda: Box([tensor()], "left"),
    "deep": lambda: [({"a": deque([Point(tensor(), Box(tensor(), 1))])},)],
}


def leaves(value):
    return [leaf for leaf in torch_pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_containers_pass_through(make):
    torch.manual_seed(0)
    seen = []

    def f(value):
        seen.append(value)
        return torch_pytree.tree_map_only(torch.Tensor, lambda t: t * 2, value)

    graph = firesteel.trace(f, make())
    assert type(seen[0]) is type(make())
    fresh = make()
    result = graph(fresh)
    assert type(result) is type(fresh)
    assert torch_pytree.tree_structure(result) == torch_pytree.tree_structure(fresh)
    torch.testing.assert_close(leaves(result), [leaf * 2 for leaf in leaves(fresh)])


def test_details_of_containers_are_kept():
    graph = firesteel.trace(lambda d, q: (d, q), defaultdict(list, a=tensor()), deque([tensor()], maxlen=5))
    d, q = graph(defaultdict(list, a=tensor()), deque([tensor()], maxlen=5))
    assert d.default_factory is list
    assert q.maxlen == 5


CONSTANTS = [
    None,
    True,
    3,
    -(2**70),
    2.5,
    -0.0,
    math.nan,
    math.inf,
    1 + 2j,
    "text",
    "ünïcode ✓",
    b"bytes",
    Color.RED,
    torch.float16,
    torch.device("cpu"),
    torch.Size([2, 3]),
    torch.channels_last,
    torch.strided,
    slice(1, None, 2),
    range(4),
    ...,
    frozenset({1, 2}),
    {1, 2.5},
    Config("l2"),
]


@pytest.mark.parametrize("constant", CONSTANTS, ids=repr)
def test_constants_pass_through_and_compare_equal(constant):
    seen = []

    def f(x, c):
        seen.append(c)
        return x + 1, c

    graph = firesteel.trace(f, tensor(), constant)
    x = tensor()
    result, given_back = graph(x, constant)
    torch.testing.assert_close(result, x + 1)
    for value in (seen[0], given_back):
        assert type(value) is type(constant)
        assert value == constant or value != value


@pytest.mark.parametrize(
    ("traced", "given"),
    [
        (1, True),
        (1, 1.0),
        (1, 2),
        (0.0, -0.0),
        (1.0, math.nan),
        ("a", "b"),
        ("a", b"a"),
        (None, 0),
        (Color.RED, Color.BLUE),
        (torch.float32, torch.float64),
        (torch.Size([1]), torch.Size([2])),
        (slice(1), slice(2)),
        (slice(1), slice(True)),
        (range(3), range(4)),
        (Config("l1"), Config("l2")),
        (Box(1, "a"), Box(1, "b")),
    ],
    ids=repr,
)
def test_another_constant_is_a_mismatch(traced, given):
    graph = firesteel.trace(lambda x, c: x + 1, tensor(), traced)
    with pytest.raises(firesteel.InputMismatchError, match=r"args\[1\]"):
        graph(tensor(), given)


def test_a_constant_mismatch_shows_path_and_both_values():
    graph = firesteel.trace(lambda x, cfg: x * cfg["k"][0], tensor(), {"k": [2]})
    with pytest.raises(firesteel.InputMismatchError) as caught:
        graph(tensor(), {"k": [3]})
    assert 'args[1]["k"][0] was traced as 2 (int), and is called with 3 (int)' in str(caught.value)


STRUCTURES = {
    "length": ([1], [1, 2], "args[0] was traced as a list of 1, and is called with a list of 2"),
    "kind": ([1], (1,), "args[0] was traced as a list of 1, and is called with a tuple of 1"),
    "keys": ({"a": 1}, {"b": 1}, "args[0] was traced with the keys ('a',), and is called with ('b',)"),
    "key order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "args[0] was traced with the keys ('a', 'b')"),
    "class": (Point(1, 2), (1, 2), "args[0] was traced as a Point, and is called with a tuple of 2"),
    "field": (Point(1, 2), Point(1, 3), "args[0].y was traced as 2 (int), and is called with 3 (int)"),
    "tensor for number": (1, torch.ones(1), "args[0] was traced as 1 (int), and is called with a tensor"),
    "number for tensor": (torch.ones(1), 1, "args[0] was traced as a tensor, and is called with 1 (int)"),
    "dataclass field": (Batch(torch.ones(1), None, 1.0), Batch(torch.ones(1), None, 2.0), "args[0].scale"),
    "object": ([1], object(), "args[0] was traced as a list of 1, and is called with an object"),
    "deque limit": (deque([1], maxlen=2), deque([1], maxlen=3), "args[0]"),
    "default factory": (defaultdict(list), defaultdict(dict), "args[0]"),
}


@pytest.mark.parametrize(("traced", "given", "message"), STRUCTURES.values(), ids=STRUCTURES)
def test_another_structure_is_a_mismatch(traced, given, message):
    graph = firesteel.trace(lambda value: torch.ones(1), traced)
    with pytest.raises(firesteel.InputMismatchError) as caught:
        graph(given)
    assert message in str(caught.value)


def test_a_set_handed_out_is_a_copy():
    graph = firesteel.trace(lambda x: (x + 1, {1, 2}), tensor())
    graph(tensor())[1].add(3)
    assert graph(tensor())[1] == {1, 2}


def test_errors_of_a_flatten_function_are_its_own():
    def fail(odd):
        raise ZeroDivisionError("in flatten")

    Odd.flatten = staticmethod(fail)
    with pytest.raises(ZeroDivisionError, match="in flatten"):
        firesteel.trace(lambda odd: torch.ones(1), Odd())


@pytest.mark.parametrize("result", [None, 3, ([],), ([], 1, 2), (5, None), ("ab", None), [[], None]], ids=repr)
def test_a_flatten_function_that_returns_nonsense_is_named(result):
    Odd.flatten = staticmethod(lambda odd: result)
    with pytest.raises(firesteel.TraceError, match="flatten function registered for Odd"):
        firesteel.trace(lambda odd: torch.ones(1), Odd())
    with pytest.raises(firesteel.OutputTypeError, match="flatten function registered for Odd"):
        firesteel.trace(lambda x: Odd(), torch.ones(1))


def test_errors_of_an_unflatten_function_are_its_own():
    class Fragile:
        pass

    def rebuild(children, context):
        raise LookupError("in unflatten")

    torch_pytree.register_pytree_node(Fragile, lambda value: ([], None), rebuild)
    with pytest.raises(LookupError, match="in unflatten"):
        firesteel.trace(lambda value: torch.ones(1), Fragile())


def test_a_list_that_holds_itself_is_a_recursion_error():
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        firesteel.trace(lambda value: torch.ones(1), loop)
    with pytest.raises(RecursionError):
        firesteel.trace(lambda x: loop, torch.ones(1))
    graph = firesteel.trace(lambda value: torch.ones(1), [[1]])
    with pytest.raises(firesteel.InputMismatchError):
        graph(loop)


def test_a_container_that_changes_while_it_is_read():
    victim = [torch.ones(1), None, torch.ones(1)]

    def shrink(odd):
        victim.clear()
        return [], None

    Odd.flatten = staticmethod(shrink)
    victim[1] = Odd()
    graph = firesteel.trace(lambda value: value[0] + value[2], victim)
    assert len(graph.nodes) == 1


def test_a_module_argument_is_known_by_identity():
    model = torch.nn.Linear(2, 2)
    graph = firesteel.trace(lambda m, x: m(x), model, tensor())
    x = tensor()
    torch.testing.assert_close(graph(model, x), model(x))
    with pytest.raises(firesteel.InputMismatchError, match=r"args\[0\]"):
        graph(torch.nn.Linear(2, 2), x)
