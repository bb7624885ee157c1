"""Every misuse: an error of a named type that shows the user's line, and nothing changed or crashed."""

import copy
import inspect
import io
import pickle
import re

import numpy as np
import pytest
import torch

import firesteel


def line_of(function, marker):
    """`file.py:41  source` as an error shows the line of `function` that holds `marker`."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [(first + i, line.strip()) for i, line in enumerate(lines) if marker in line]
    return re.compile(rf"{re.escape('test_bad_input.py')}:{found[0]}  {re.escape(found[1])}")


def assert_shows(error, function, marker):
    text = str(error)
    assert line_of(function, marker).search(text), text
    assert type(error).__module__ == "firesteel"
    assert isinstance(error, firesteel.Error)
    assert isinstance(error, RuntimeError)


READS = {
    "item": lambda x: x.sum().item(),
    "int": lambda x: int(x.sum()),
    "float": lambda x: float(x.sum()),
    "complex": lambda x: complex(x.sum()),
    "bool": lambda x: bool(x.sum()),
    "if": lambda x: 1 if x.sum() > 0 else 2,
    "and": lambda x: (x.sum() > 0) and 1,
    "index": lambda x: [1, 2, 3][x.sum().long()],
    "in": lambda x: 1.0 in x,
    "numpy": lambda x: x.numpy(),
    "numpy by force": lambda x: x.numpy(force=True),
    "asarray": lambda x: np.asarray(x),
    "array": lambda x: x.__array__(),
    "ufunc": lambda x: np.sin(x),
    "tolist": lambda x: x.tolist(),
    "data_ptr": lambda x: x.data_ptr(),
    "untyped_storage": lambda x: x.untyped_storage(),
    "storage": lambda x: x.storage(),
    "dlpack": lambda x: x.__dlpack__(),
    "numpy from_dlpack": lambda x: np.from_dlpack(x),
    "to_dlpack": lambda x: torch.utils.dlpack.to_dlpack(x),
    "apply_": lambda x: x.apply_(lambda v: v),
    "map_": lambda x: x.map_(x, lambda a, b: a),
    "deepcopy": lambda x: copy.deepcopy(x),
    "pickle": lambda x: pickle.dumps(x),
    "save": lambda x: torch.save(x, io.BytesIO()),
    "list of traced numbers": lambda x: torch.tensor([x.sum(), 1.0]),
    "size from data": lambda x: torch.zeros(x.sum().long()),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "equal": lambda x: torch.equal(x, x),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.filterwarnings("ignore")
def test_reading_data_while_traced(read):
    def f(x):
        y = x + 1
        read(y)
        return y

    with pytest.raises(firesteel.DataDependentError) as caught:
        firesteel.trace(f, torch.ones(2, 2))
    text = str(caught.value)
    assert re.search(r"test_bad_input\.py:\d+  \S", text), text
    assert "lambda x: " in text, text  # the line is quoted
    assert "inside: f (test_bad_input.py:" in text, text
    assert not firesteel.is_compiling()


def test_the_message_shows_line_carets_reason_and_remedy():
    def f(x):
        total = x.sum()
        value = total.item()
        return x * value

    with pytest.raises(firesteel.DataDependentError) as caught:
        firesteel.trace(f, torch.ones(2))
    assert_shows(caught.value, f, "total.item()")
    first, quoted, carets, *rest = str(caught.value).split("\n")
    assert "item()" in first
    start = quoted.index("total.item()")
    assert carets == " " * start + "^" * len("total.item()")
    assert any(line.startswith("  try: ") for line in rest)


def test_a_reader_is_named_as_the_user_called_it():
    with pytest.raises(firesteel.DataDependentError, match=r"\(numpy\(\)\)"):
        firesteel.trace(lambda x: x.numpy(), torch.ones(2))


def test_a_swallowed_read_still_fails():
    def f(x):
        try:
            return x * x.sum().item()
        except RuntimeError:
            return x

    with pytest.raises(firesteel.DataDependentError) as caught:
        firesteel.trace(f, torch.ones(2))
    assert_shows(caught.value, f, ".item()")


def test_user_code_can_catch_the_named_type():
    seen = []

    def f(x):
        try:
            x.tolist()
        except firesteel.DataDependentError as error:
            seen.append(error)
            raise
        return x

    with pytest.raises(firesteel.DataDependentError) as caught:
        firesteel.trace(f, torch.ones(2))
    assert seen == [caught.value]


def test_what_needs_no_data_works():
    shown = []

    def f(x):
        shown.append((repr(x), f"{x}", str([x])))
        rows = [row * 2 for row in x]
        assert len(x) == 3
        made = x.new_tensor([1.0, 2.0]) + x.new_zeros(2) + x.new([3.0, 4.0])
        parameter = torch.nn.Parameter(x)
        assert isinstance(parameter, torch.nn.Parameter)
        assert x.new(2, 5).shape == (2, 5)
        assert torch.tensor(3).item() == 3
        return torch.stack(rows) + made, copy.copy(len(rows)), x.shape, x.dtype

    graph = firesteel.trace(f, torch.ones(3, 2))
    assert shown == [("<traced tensor f32[3, 2]>", "<traced tensor f32[3, 2]>", "[<traced tensor f32[3, 2]>]")]
    x = torch.randn(3, 2)
    result, count, shape, dtype = graph(x)
    torch.testing.assert_close(result, x * 2 + torch.tensor([4.0, 6.0]))
    assert (count, shape, dtype) == (3, torch.Size([3, 2]), torch.float32)


def test_real_tensors_are_read_as_ever():
    """The hooks on torch's methods let every other tensor through, during a trace and after one."""
    weight = torch.tensor([1.0, 2.0])
    seen = []

    def f(x):
        seen.append((weight.data_ptr(), weight.untyped_storage().nbytes(), repr(weight.shape)))
        return x + weight

    firesteel.trace(f, torch.ones(2))
    assert seen == [(weight.data_ptr(), 8, "torch.Size([2])")]
    assert weight.tolist() == [1.0, 2.0]
    assert weight.numpy().sum() == 3.0
    assert torch.equal(torch.from_dlpack(weight.clone()), weight)
    assert torch.equal(pickle.loads(pickle.dumps(weight)), weight)
    assert torch.equal(copy.deepcopy(weight), weight)
    assert repr(weight) == "tensor([1., 2.])"
    assert weight.new_tensor([5]).dtype == torch.float32
    assert (float(weight[0]), int(weight[1]), bool(weight[0]), weight[1].item()) == (1.0, 2, True, 2.0)


@pytest.mark.parametrize(
    "read", [torch.Tensor.numpy, torch.Tensor.tolist, torch.utils.dlpack.to_dlpack, torch.Tensor.item]
)
def test_reading_a_captured_tensor_is_refused_too(read):
    """Its values would be frozen into the graph, and stale once it changes."""
    weight = torch.ones(1)

    def f(x):
        read(weight)
        return x

    with pytest.raises(firesteel.DataDependentError) as caught:
        firesteel.trace(f, torch.ones(1))
    assert_shows(caught.value, f, "read(weight)")


@pytest.mark.parametrize(
    ("make", "path", "name"),
    [
        (lambda: object(), "result", "object"),
        (lambda: {"a": [1, 2, io.StringIO()]}, 'result["a"][2]', "StringIO"),
        (lambda: (torch.ones(1), lambda: 1), "result[1]", "function"),
        (lambda: (i for i in range(3)), "result", "generator"),
        (lambda: torch.nn.Linear(1, 1), "result", "Linear"),
        (lambda: np.ones(2), "result", "ndarray"),
        (lambda: [type("Strange", (), {})()], "result[0]", "Strange"),
    ],
    ids=["object", "nested", "function", "generator", "module", "array", "own class"],
)
def test_returning_what_is_no_tensor(make, path, name):
    def f(x):
        x.add(1)
        return make()

    with pytest.raises(firesteel.OutputTypeError) as caught:
        firesteel.trace(f, torch.ones(2))
    assert_shows(caught.value, f, "return make()")
    assert path in str(caught.value)
    assert re.search(rf"\b{name}\b", str(caught.value))


def test_an_argument_that_is_no_tensor_nor_constant():
    class Settings:
        pass

    def call():
        firesteel.trace(lambda x, y: x, torch.ones(1), {"cfg": [Settings()]})

    with pytest.raises(firesteel.TraceError) as caught:
        call()
    assert_shows(caught.value, call, "Settings()]}")
    text = str(caught.value)
    assert 'args[1]["cfg"][0] is a Settings' in text
    for way in ("register_pytree_node", "register_dataclass", "register_constant"):
        assert way in text


def test_tensor_subclasses_with_overrides_are_refused_by_name():
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs)

    logged = torch.ones(2).as_subclass(Logged)
    with pytest.raises(firesteel.TraceError, match=r"args\[0\] is a Logged, .*__torch_function__"):
        firesteel.trace(lambda x: x + 1, logged)
    graph = firesteel.trace(lambda x: x + 1, torch.ones(2))
    with pytest.raises(firesteel.InputMismatchError, match="Logged"):
        graph(logged)


MISMATCHES = {
    "dtype": lambda: [torch.ones(2, 3, dtype=torch.float64), torch.ones(3)],
    "shape": lambda: [torch.ones(2, 4), torch.ones(3)],
    "rank": lambda: [torch.ones(2, 3, 1), torch.ones(3)],
    "device": lambda: [torch.ones(2, 3, device="meta"), torch.ones(3)],
    "strides": lambda: [torch.ones(3, 2).t(), torch.ones(3)],
}


@pytest.mark.parametrize("arguments", MISMATCHES.values(), ids=MISMATCHES)
def test_calling_with_other_tensors(arguments):
    graph = firesteel.trace(lambda x, y: x + y, torch.ones(2, 3), torch.ones(3))
    given = arguments()

    def call():
        return graph(*given)

    with pytest.raises(firesteel.InputMismatchError) as caught:
        call()
    assert_shows(caught.value, call, "graph(*given)")
    torch.testing.assert_close(graph(torch.ones(2, 3), torch.ones(3)), torch.full((2, 3), 2.0))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "traced with 1 positional arguments, and is called with 0"),
        ((torch.ones(2), torch.ones(2)), {}, "traced with 1 positional arguments, and is called with 2"),
        ((torch.ones(2),), {}, "kwargs was traced with the keys ('k',), and is called with ()"),
        ((torch.ones(2),), {"j": 1}, "kwargs was traced with the keys ('k',), and is called with ('j',)"),
        ((torch.ones(2),), {"k": 2}, 'kwargs["k"] was traced as 1 (int), and is called with 2 (int)'),
        (([torch.ones(2)],), {"k": 1}, "args[0] was traced as a tensor, and is called with a list of 1"),
        ((None,), {"k": 1}, "args[0] was traced as a tensor, and is called with None"),
        ((np.ones(2),), {"k": 1}, "args[0] was traced as a tensor, and is called with a ndarray"),
    ],
)
def test_calling_with_another_structure(args, kwargs, message):
    graph = firesteel.trace(lambda x, k: x * k, torch.ones(2), k=1)

    def call():
        return graph(*args, **kwargs)

    with pytest.raises(firesteel.InputMismatchError) as caught:
        call()
    assert message in str(caught.value)
    assert_shows(caught.value, call, "graph(*args")


def test_escaped_tensors_say_so_and_never_crash():
    escaped = []

    def f(x):
        escaped.append(x)
        escaped.append(x.view(-1) * 2)
        return x + 1

    firesteel.trace(f, torch.ones(2, 2, requires_grad=True))
    for tensor in escaped:
        assert firesteel.is_traced(tensor)
        assert repr(tensor).endswith("grad, its trace has ended>")
        assert tensor.shape.numel() == 4

        def touch(tensor=tensor):
            return tensor + 1

        with pytest.raises(firesteel.EscapedTensorError) as caught:
            touch()
        assert_shows(caught.value, touch, "tensor + 1")
        assert "trace of `f`" in str(caught.value)
        reads = [torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.data_ptr, torch.Tensor.untyped_storage]
        reads += [pickle.dumps, list, torch.clone, np.asarray, torch.sum, torch.utils.dlpack.to_dlpack]
        for read in reads:
            with pytest.raises(firesteel.EscapedTensorError):
                read(tensor)
    with pytest.raises(firesteel.EscapedTensorError):
        torch.ones(2, 2) + escaped[0]
    real = torch.ones(2, 2)
    with pytest.raises(RuntimeError):
        real.add_(escaped[0])
    assert torch.equal(real, torch.ones(2, 2))
    with pytest.raises((firesteel.TraceError, firesteel.InputMismatchError)):
        firesteel.trace(lambda x: x + 1, escaped[0])


def test_a_trace_puts_no_traced_tensor_into_a_real_one():
    parameter = torch.nn.Parameter(torch.ones(2))

    def data(x):
        parameter.data = x * 2
        return x

    def grad(x):
        parameter.grad = x * 2
        return x

    def swap(x):
        torch.utils.swap_tensors(parameter, x * 2)
        return x

    for function, marker in ((data, ".data ="), (grad, ".grad ="), (swap, "swap_tensors")):
        with pytest.raises(firesteel.MutationError) as caught:
            firesteel.trace(function, torch.ones(2))
        assert_shows(caught.value, function, marker)
        assert not firesteel.is_traced(parameter)
        assert parameter.grad is None
        assert torch.equal(parameter.detach(), torch.ones(2))


@pytest.mark.parametrize(
    "error", [KeyError("k"), KeyboardInterrupt(), SystemExit(3), AssertionError(), StopIteration()]
)
def test_what_the_function_raises_arrives_as_itself(error):
    def f(x):
        x.add(1)
        raise error

    with pytest.raises(type(error)) as caught:
        firesteel.trace(f, torch.ones(2))
    assert caught.value is error
    assert caught.traceback[-1].name == "f"
    assert caught.traceback[-1].lineno + 1 == inspect.getsourcelines(f)[1] + 2
    assert not firesteel.is_compiling()
    assert len(firesteel.trace(lambda x: x + 1, torch.ones(2)).nodes) == 1


def test_errors_of_torch_arrive_as_torch_raises_them():
    def f(x):
        return x @ torch.ones(7)

    with pytest.raises(RuntimeError) as eager:
        f(torch.ones(2, 3))
    with pytest.raises(RuntimeError) as traced:
        firesteel.trace(f, torch.ones(2, 3))
    assert type(traced.value) is type(eager.value)
    with pytest.raises(IndexError):
        firesteel.trace(lambda x: x.sum(5), torch.ones(2))


def test_misuse_of_trace_itself():
    with pytest.raises(TypeError, match="first argument"):
        firesteel.trace()
    with pytest.raises(TypeError, match="callable"):
        firesteel.trace(3, torch.ones(1))
    with pytest.raises(TypeError, match="True or False"):
        firesteel.trace(lambda x: x, torch.ones(1), grad="yes")
    with pytest.raises(TypeError, match="required positional argument"):
        firesteel.trace(lambda x: x)


def test_a_failed_trace_leaves_inputs_and_captured_tensors_alone():
    buffer = torch.zeros(2)

    def f(x):
        x.add_(1)
        buffer.add_(x)
        raise ValueError

    x = torch.zeros(2)
    with pytest.raises(ValueError):  # noqa: PT011
        firesteel.trace(f, x)
    assert torch.equal(x, torch.zeros(2))
    assert torch.equal(buffer, torch.zeros(2))


def test_the_error_classes_form_the_table():
    assert firesteel.Error.__mro__[1] is RuntimeError
    for name in ("TraceError", "InputMismatchError", "GraphFormatError", "InternalError"):
        assert getattr(firesteel, name).__mro__[1] is firesteel.Error
        assert getattr(firesteel, name).__module__ == "firesteel"
        assert getattr(firesteel, name).__doc__
    for name in ("DataDependentError", "EscapedTensorError", "OutputTypeError", "MutationError"):
        assert getattr(firesteel, name).__mro__[1] is firesteel.TraceError


@pytest.mark.parametrize(
    "options",
    [{"stride": ()}, {"stride": 0}, {"stride": -1}, {"padding": ()}, {"padding": (1, 1)}, {"groups": 0}],
    ids=str,
)
@pytest.mark.parametrize("function", [torch.conv1d, torch.conv_transpose1d], ids=lambda f: f.__name__)
def test_convolutions_that_cannot_be(function, options):
    x, weight = torch.randn(2, 3, 4), torch.randn(3, 3, 1)
    with pytest.raises(RuntimeError) as expected:
        function(x, weight, **options)
    with pytest.raises(RuntimeError) as caught:
        firesteel.compile(lambda x, weight: function(x, weight, **options), backend="aot_eager")(x, weight)
    assert str(caught.value) == str(expected.value)


def test_each_error_names_its_own_line():
    """The same mistake in two functions: each error shows the line of its own."""

    class Pair:
        pass

    opaque = firesteel.nonstrict_trace(lambda pair: torch.ones(3))

    def first(x):
        return opaque(Pair()) + x

    def second(x):
        return opaque(Pair()) * x

    for function, line in (
        (first, "opaque(Pair()) + x"),
        (second, "opaque(Pair()) * x"),
        (first, "opaque(Pair()) + x"),
    ):
        with pytest.raises(firesteel.TraceError) as met:
            firesteel.compile(function)(torch.ones(3))
        assert line in str(met.value)
