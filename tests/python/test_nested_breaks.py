"""Graph breaks inside functions that are called: the code on both sides is one piece with the caller's."""

import contextlib
import threading
import unittest

import breaking_blocks
import breaking_programs
import breaking_values
import nested_blocks
import nested_programs
import pytest
import torch
from against_eager import BACKENDS, Tape, check_calls
from nested_programs import COUNTED

import firesteel

CASES = nested_programs.CASES + nested_blocks.CASES
OTHERS = breaking_programs.CASES + breaking_blocks.CASES + breaking_values.CASES


@pytest.fixture(autouse=True)
def nested():
    before = firesteel._C._follow_inner_breaks(True)
    yield
    firesteel._C._follow_inner_breaks(before)


def inputs():
    torch.manual_seed(0)
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    return [a, a.abs() + 1, -a.abs() - 1, b.requires_grad_(), b]


def named(programs):
    return [pytest.param(program, id=program.__name__) for program in programs]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", named(CASES))
def test_calls_are_like_eager(program, backend):
    check_calls(program, inputs(), backend)


@pytest.mark.parametrize("every", [1, 2, 3, 5, 7, 11])
@pytest.mark.parametrize("program", named(CASES))
def test_breaks_anywhere_are_like_eager(program, every):
    for backend in BACKENDS:
        check_calls(program, inputs()[2:4], backend, every)


@pytest.mark.parametrize("every", [0, 2, 3, 7])
@pytest.mark.parametrize("program", named(OTHERS))
def test_other_programs_are_like_eager(program, every):
    check_calls(program, inputs()[2:4], "aot_eager", every)


class Count:
    """A backend that counts graphs and the operators in them."""

    def __init__(self):
        self.graphs = self.operators = 0

    def __call__(self, module, example_inputs):
        self.graphs += 1
        self.operators += sum(node.op.startswith("call") for node in module.graph.nodes)
        return module.forward


@pytest.mark.parametrize("name", COUNTED)
def test_as_many_graphs_as_pytorch_makes(name):
    import torch._dynamo.config

    program, x = COUNTED[name], torch.ones(3, 4)
    theirs, ours = Count(), Count()
    torch._dynamo.reset()
    with Tape(), torch._dynamo.config.patch(nested_graph_breaks=True):
        torch.compile(program, backend=theirs)(x, [])
    torch._dynamo.reset()
    with Tape():
        firesteel.compile(program, backend=ours)(x, [])
    assert ours.graphs == theirs.graphs
    # PyTorch computes `depth - 1` of the second in the graph.
    assert ours.operators == theirs.operators - (name == "up_and_down")


def compiled_in_pieces(program, *calls):
    """The compiled program after these calls, each like eager, with no frame left to CPython."""
    firesteel._C._reset()  # nothing is taken over from other tests
    firesteel.reset_counters()
    compiled = firesteel.compile(program, backend="eager")
    for args in calls:
        with Tape() as expected:
            wanted = program(*args)
        with Tape() as got:
            torch.testing.assert_close(compiled(*args), wanted)
        assert got.events == expected.events
    assert firesteel.counters()["fallbacks"] == {}
    return compiled


def graphs_of(compiled):
    return [entry["graph"] for entry in firesteel._C._entries(compiled) if entry["graph"]]


def test_one_graph_before_and_one_after():
    compiled = compiled_in_pieces(nested_programs.deepest, *[(torch.ones(2),)] * 3)
    before, after = graphs_of(compiled)
    names = ("operator.sub(", "operator.add(", "operator.mul(", "torch.Tensor.relu(")
    assert [before.count(name) for name in names] == [1, 2, 0, 0]
    assert [after.count(name) for name in names] == [0, 1, 1, 1]
    counters = firesteel.counters()
    assert counters["captured"] == 2
    assert counters["hits"] == 3
    assert counters["breaks"] == {"FS-C-FUNCTION": 3}


def test_without_it_the_call_breaks():
    firesteel._C._follow_inner_breaks(False)
    compiled = compiled_in_pieces(nested_programs.deepest, *[(torch.ones(2),)] * 2)
    assert len(graphs_of(compiled)) > 2


def test_what_changes_is_compiled_again():
    def inside(x, number, items):
        x = x * number
        print(number)
        return x + len(items)

    def function(x, number, items):
        return inside(x + 1, number, items) * number

    x = torch.ones(3)
    compiled = compiled_in_pieces(function, (x, 2, []), (x, 2, [1]), (x, 3, []), (torch.ones(5), 4, []), (x, 2, []))
    before = firesteel.counters()["captured"]
    with Tape():
        compiled(x, 2, [])
    assert firesteel.counters()["captured"] == before


def test_another_function_in_its_place():
    def first(x):
        x = x + 1
        print("first")
        return x * 2

    def second(x):
        x = x - 1
        print("second")
        return x * 3

    def function(x, inside):
        return inside(x * 2) + 1

    x = torch.ones(3)
    compiled_in_pieces(function, (x, first), (x, second), (x, first))


def test_a_loop_around_it_is_compiled_once():
    def inside(x, i):
        x = x + i
        print("turn", i)
        return x * 2

    def function(x, turns):
        for i in range(turns):
            x = inside(x, i).sin()
        return x

    compiled = compiled_in_pieces(function, (torch.ones(3), 8))
    captured = firesteel.counters()["captured"]
    assert captured <= 5
    with Tape():
        compiled(torch.ones(3), 8)
    assert firesteel.counters()["captured"] == captured


def test_writes_come_before_the_break():
    state = {"count": 0, "seen": []}

    @firesteel.disable
    def look():
        return dict(state, seen=list(state["seen"]))

    def inside(x):
        state["count"] += 1
        state["seen"].append(x.shape[0])
        noted = look()
        state["count"] += 10
        return x + 1, noted

    def function(x):
        state["seen"].append("outer")
        y, noted = inside(x * 2)
        state["seen"].append("end")
        return y, noted

    compiled = firesteel.compile(function, backend="eager")
    for turn in (1, 2):
        y, noted = compiled(torch.ones(3))
        assert noted == {"count": 11 * turn - 10, "seen": ["outer", 3, "end"] * (turn - 1) + ["outer", 3]}
        torch.testing.assert_close(y, torch.full((3,), 3.0))
        assert turn > 1 or len(graphs_of(compiled)) == 2
    assert state == {"count": 22, "seen": ["outer", 3, "end"] * 2}


def test_threads_have_frames_of_their_own():
    barrier = threading.Barrier(4)

    @firesteel.disable
    def meet():
        barrier.wait()

    def inside(x):
        y = x + 1
        meet()
        return y * 2

    def function(x):
        z = inside(x * 3)
        meet()
        return z - x

    compiled = firesteel.compile(function, backend="eager")
    results = {}

    def work(i):
        for _ in range(3):
            results[i] = compiled(torch.full((2,), float(i)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        torch.testing.assert_close(results[i], torch.full((2,), (i * 3.0 + 1) * 2 - i))


def test_an_error_leaves_nothing_behind():
    @firesteel.disable
    def fails(x):
        if x is not None:
            raise ValueError("once")

    def inside(x, given):
        x = x + 1
        fails(given)
        return x * 2

    def function(x, given):
        return inside(x, given) - 1

    compiled = firesteel.compile(function, backend="eager")
    for given in (None, 1, None):
        if given:
            with pytest.raises(ValueError, match="once"):
                compiled(torch.ones(2), given)
        else:
            torch.testing.assert_close(compiled(torch.ones(2), given), torch.full((2,), 3.0))


def test_training_through_it():
    model = nested_programs.Stack()
    twin = nested_programs.Stack()
    twin.load_state_dict(model.state_dict())
    compiled = firesteel.compile(model, backend="aot_eager")
    x = torch.randn(3, 4)
    with Tape():
        for network in (compiled, twin):
            network(x).square().sum().backward()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_the_setting_of_pytorch_is_followed():
    import torch._dynamo.config as config

    from firesteel.interop import dynamo_config

    with config.patch(nested_graph_breaks=False):
        dynamo_config._allowance("f", 0, "")
        assert firesteel._C._follow_inner_breaks(True) is False
    with config.patch(nested_graph_breaks=True):
        dynamo_config._allowance("f", 0, "")
        assert firesteel._C._follow_inner_breaks(True) is True


def test_a_call_in_a_try_breaks_itself():
    """An error of a graph must come where the handler expects it: no piece goes in or out there."""

    def inside(x, index):
        x = x + 1
        print("inside")
        return x.index_select(0, index)

    def function(x, index):
        try:
            y = inside(x * 2, index)
        except IndexError:
            return x
        return y.sin()

    def late(x, index):
        with contextlib.suppress(ZeroDivisionError):
            y = inside(x * 2, index)
        return y.index_select(0, index + 5)

    x, good, bad = torch.ones(3), torch.tensor([1]), torch.tensor([7])
    compiled = firesteel.compile(function, backend="eager")
    with Tape():
        torch.testing.assert_close(compiled(x, good), function(x, good))
        assert compiled(x, bad) is x
        with pytest.raises(IndexError):
            firesteel.compile(late, backend="eager")(x, good)


class Held:
    """As unittest's subTest: a generator that waits in a block when the piece ends, and has work left for its end."""

    def __init__(self):
        self.open, self.log = None, []

    @contextlib.contextmanager
    def part(self, name):
        before, self.open = self.open, name
        try:
            with self.inner():
                yield
                self.log.append(f"after {name}")
        finally:
            print("finally")
            self.open = before

    @contextlib.contextmanager
    def inner(self):
        try:
            yield
        except KeyError:
            self.log.append("KeyError")
        else:
            self.log.append("well")

    def loop(self, x, names):
        for name in names:
            with self.part(name):
                print(name)
                x = x * 2
        return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_generators_that_wait_when_the_piece_ends(backend):
    def function(held, x):
        return held.loop(x + 1, ["a", "b"]) - 1

    compiled = firesteel.compile(function, backend=backend)
    for _ in range(3):
        held, expected = Held(), Held()
        x = torch.ones(3)
        with Tape() as ours:
            found = compiled(held, x)
        with Tape() as theirs:
            torch.testing.assert_close(found, function(expected, x))
        assert ours.events == theirs.events
        assert (held.open, held.log) == (expected.open, expected.log)


class Parts(unittest.TestCase):
    def each(self, x):
        for part in range(3):
            with self.subTest(part=part):
                print(part)
                x = x * 2
        return x

    def runTest(self):  # noqa: N802
        self.result = firesteel.compile(lambda self, x: self.each(x + 1), backend="eager")(self, torch.ones(2))


def test_parts_of_a_test():
    case, outcome = Parts(), unittest.TestResult()
    with Tape() as tape:
        case(outcome)
    assert outcome.wasSuccessful()
    torch.testing.assert_close(case.result, torch.full((2,), 16.0))
    assert [text for _, text in tape.events if text.strip()] == ["0", "1", "2"]
