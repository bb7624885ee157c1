"""The border to torch.fx, loaded when a backend is a function: a captured graph becomes a GraphModule.

The native side knows nothing of torch.fx: it tells a Builder about inputs and calls, in order (callable_runner.cpp).
"""

import builtins
import contextlib
import dataclasses
import functools
import itertools
import linecache
import operator
import pathlib
import re
import types

import torch
import torch.fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from .. import _C, _progress, _python_forms
from .._backends import BackendError
from . import dropin, exceptions, mode_blocks, origins

# What fx writes into code by itself.
_PLAIN = (int, float, bool, complex, str, bytes, type(None), type(...), torch.dtype, torch.device, torch.layout)
_PLAIN += (torch.memory_format, torch.Size)


_OPERATORS = (
    "add",
    "and_",
    "floordiv",
    "lshift",
    "matmul",
    "mod",
    "mul",
    "or_",
    "pow",
    "rshift",
    "sub",
    "truediv",
    "xor",
)
_AS_OPERATORS = {abs: operator.abs, pow: operator.pow}
_WITHOUT_ASSIGNMENT = {getattr(operator, f"i{name.rstrip('_')}"): getattr(operator, name) for name in _OPERATORS}


class NestedCall:
    """Calls a function whose arguments hold what no fx node can: registered classes, sets, modules."""

    def __init__(self, function, spec, constants):
        self.function, self.spec, self.constants = function, spec, constants
        self.__name__ = self.__qualname__ = _function_name(function)
        self.__module__ = __name__

    def __call__(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if constant is _TENSOR else constant for constant in self.constants]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


class NamedCall:
    """Calls a function that the text of fx cannot name: `apply` of a class, a lambda."""

    def __init__(self, function):
        self.function = function
        self.__name__ = self.__qualname__ = _function_name(function)
        self.__module__ = __name__

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


_TENSOR = object()
_NOT_SHOWN = ("/torch/nn/modules/", "/torch/_dynamo/external_utils.py", "/torch/_dynamo/polyfills/")
_NOT_SHOWN += (f"{pathlib.Path(__file__).parent.parent}/",)


@dataclasses.dataclass
class Input:
    """An input of a graph: its name, the way to it as PyTorch writes it, dimensions whose sizes are left open.

    `number` tells of a number how it comes about: ("size", path, dimension), ("number", path), a number itself, or
    (function, first[, second]) of these. Sizes of
    dimensions `apart` are equal to others by chance alone.
    """

    name: str
    path: str
    dims: frozenset
    number: object
    apart: frozenset


class Builder:
    """Makes the GraphModule of one captured piece of code and hands it to the user's backend."""

    def __init__(self, backend, keywords, name):
        self.backend, self.keywords, self.name = backend, keywords, name
        self.graph = torch.fx.Graph()
        environment = ShapeEnv(assume_static_by_default=True)
        self.fakes = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
        self.examples = []
        self.origins = origins.Origins()
        self.inputs = []
        self.modules = []  # given to functions that are not looked into
        self.outputs = 0

    def input(self, path, example, open_dims, number, apart=()):
        """A tensor, some of its sizes left open, or a number that changes from call to call, and how it comes about."""
        wanted, others = re.sub(r"[^a-zA-Z0-9]+", "_", path), {known.name for known in self.inputs}
        names = itertools.chain([wanted], map(f"{wanted}_{{}}".format, itertools.count()))
        unique = next(name for name in names if name not in others)
        node = self.graph.placeholder(unique, torch.Tensor if isinstance(example, torch.Tensor) else None)
        self.inputs.append(Input(unique, path, frozenset(open_dims), number, frozenset(apart)))
        node.meta["example_value"] = example
        if isinstance(example, torch.Tensor):
            with torch.no_grad():
                node.meta["example_value"] = self.fakes.from_tensor(example, static_shapes=True)
        self.examples.append(example)
        return node

    def call(self, function, args, kwargs, ways, types, lines, names, modules):
        """Adds a call; gives the node of each tensor in its result, `ways` leading there and `types` describing it.

        `lines` led to the call, from the innermost out. Nodes are named after the variables that were the first to hold
        what they give.
        """
        if function is _C._set_torch_function_state:  # nothing in a graph asks for them
            return []
        trace = _stack_trace(lines)
        known = len(self.graph.nodes)
        if function is _python_forms.rows:
            nodes = [self._row(args[0], way[0], described, trace) for way, described in zip(ways, types, strict=True)]
        else:
            nodes = self._nodes_of_call(function, args, kwargs, ways, types, trace)
        self.origins.note(itertools.islice(reversed(self.graph.nodes), len(self.graph.nodes) - known), modules)
        for node, name in zip(nodes, names, strict=True):
            if name:
                node._rename(name)
        return nodes

    def _nodes_of_call(self, function, args, kwargs, ways, types, trace):
        node = self._call_node(function, args, kwargs)
        values = [self._example(*described) if described else None for described in types]
        made = {(): node}
        nodes = [self._walk(made, way, trace) for way in ways]
        for found, value in zip(nodes, values, strict=True):
            found.meta["example_value"] = value
        if nodes and nodes[0] is not node and all(len(way) == 1 and way[0] >= 0 for way in ways):
            node.meta["example_value"] = tuple(values)
        for found in (node, *nodes):
            found.stack_trace = trace
        return nodes

    def compile(self, outputs):
        """Calls the backend with the finished graph; gives what it made of it."""
        self.graph.output(tuple(outputs))
        self.graph.lint()
        self._drop_unread_items()
        self._drop_idle_switches()
        mode_blocks.join_switches(self.graph)
        self._place_inputs()
        examples, fakes, self.outputs = self.examples, self.fakes, len(outputs)
        self.fakes = self.examples = None
        if any(known.dims for known in self.inputs) or not all(
            isinstance(example, torch.Tensor) for example in examples
        ):
            from .open_graphs import OpenGraph

            return OpenGraph(self, self.inputs)
        graph, self.graph = self.graph, None
        with tracing(TracingContext(fakes)):
            return self.hand_over(self._module_of(graph), examples)

    def module(self):
        """A module of its own that holds the graph."""
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(self.graph, {}))
        return self._module_of(graph)

    def _module_of(self, graph):
        module = torch.fx.GraphModule(torch.nn.Module(), graph, class_name="GraphModule")
        module.meta["name"] = self.name
        for index, held in enumerate(self.modules):  # their parameters are the graph's to whoever traces it
            module.add_module(f"module_{index}", held)
        return module

    def hand_over(self, module, examples):
        """What the backend makes of the graph."""
        try:
            with _kept_random_state(), _progress.waiting_for(f"the backend {self._shown()} is compiling"):
                _C._forget_custom_forms()  # the backend may be of PyTorch's, which has its own
                compiled = self.backend(module, examples, **self.keywords)
        except Exception as error:
            if not dropin.is_installed():
                raise
            return exceptions.of_backend(self.backend, error, module)
        if not callable(compiled):
            raise BackendError(
                f"the backend {self._shown()} returned {_described(compiled)} for the graph of `{self.name}`\n"
                "  try: return a callable that takes the graph's tensors, such as graph_module.forward"
            )
        return compiled

    def _drop_unread_items(self):
        """Items that nobody reads are no nodes: of what a function gives, and of tensors."""
        for node in reversed(self.graph.nodes):
            if node.op == "call_function" and node.target is operator.getitem and not node.users:
                self.graph.erase_node(node)

    def _drop_idle_switches(self):
        """Switches of the gradient mode that change nothing, or that the next one makes void."""
        mode, pending = torch.is_grad_enabled(), None
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target is torch._C._set_grad_enabled:
                if pending:
                    self.graph.erase_node(pending)
                pending = node
            elif pending and node.op != "placeholder":
                if pending.args[0] == mode:
                    self.graph.erase_node(pending)
                mode, pending = pending.args[0], None

    def _place_inputs(self):
        """An input stands where it is read first."""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                node.stack_trace = next((user.stack_trace for user in node.users), None)

    def refuse(self, result):
        """Raises for what a call of the backend's callable returned."""
        wanted = f"a tuple of {self.outputs} tensors" if self.outputs != 1 else "a tuple of 1 tensor"
        raise BackendError(
            f"what the backend {self._shown()} made of `{self.name}` returned {_described(result)}, not {wanted}\n"
            "  try: return all outputs of the graph in their order, also where there is only one"
        )

    def _shown(self):
        return f"`{getattr(self.backend, '__qualname__', None) or type(self.backend).__qualname__}`"

    def _call_node(self, function, args, kwargs):
        if not (_fits(args) and _fits(kwargs)):
            leaves, spec = pytree.tree_flatten((args, kwargs))
            constants = [_TENSOR if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves]
            given = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Module)]
            self.modules += [leaf for leaf in given if not any(leaf is known for known in self.modules)]
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
            return self.graph.call_function(NestedCall(function, spec, constants), tuple(tensors))
        if type(function) is type(abs):
            function = _AS_OPERATORS.get(function, function)
            if args and not isinstance(args[0], torch.fx.Node):  # fx writes `1 += x` otherwise
                function = without_assignment(function)
        if function is getattr and args[1] == "data":
            function, args = torch._C._autograd._get_data_attr, args[:1]
        name = getattr(function, "__name__", None)
        if args and isinstance(args[0], torch.fx.Node) and (method := _tensor_method(function, name)):
            return self.graph.call_method(method, args, kwargs)
        if name == "<lambda>" or isinstance(getattr(function, "__self__", None), type):  # or a method of a class
            function = NamedCall(function)
        return self.graph.call_function(function, args, kwargs)

    def _row(self, tensor, index, described, trace):
        node = self.graph.call_function(operator.getitem, (tensor, index))
        node.meta |= {"item": index, "example_value": self._example(*described)}
        node.stack_trace = trace
        return node

    def _walk(self, made, way, trace):
        """The node at the end of a way into a result: indices, ~index into the values of a dict."""
        if way in made:
            return made[way]
        node = self._walk(made, way[:-1], trace)
        if way[-1] < 0:
            values = self.graph.call_method("values", (node,))
            node = self.graph.call_function(builtins.list, (values,))
            values.stack_trace = node.stack_trace = trace
        step = ~way[-1] if way[-1] < 0 else way[-1]
        made[way] = self.graph.call_function(operator.getitem, (node, step))
        made[way].meta["item"] = step
        return made[way]

    def _example(self, sizes, strides, dtype, device, requires_grad):
        with self.fakes, torch.inference_mode(False):
            value = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
        return value.requires_grad_() if requires_grad else value


def without_assignment(function):
    """`operator.add` for `operator.iadd`."""
    return _WITHOUT_ASSIGNMENT.get(function, function)


def _function_name(function):
    name = getattr(function, "__name__", "function")
    return "function" if name == "<lambda>" else name


def _fits(value):
    """True for what the arguments of an fx node may hold."""
    if isinstance(value, torch.fx.Node) or type(value) in _PLAIN:
        return True
    if isinstance(value, slice):
        return _fits(value.start) and _fits(value.stop) and _fits(value.step)
    if type(value) in (tuple, list):
        return all(map(_fits, value))
    return type(value) is dict and all(isinstance(key, str) and _fits(item) for key, item in value.items())


# Methods under other names than their functions have: `__pow__`.
_RENAMED_METHODS = {
    function: name
    for name, function in vars(torch.Tensor).items()
    if isinstance(function, types.FunctionType) and function.__name__ != name
}


def _tensor_method(function, name):
    if isinstance(name, str) and getattr(torch.Tensor, name, None) is function:
        return name
    return _RENAMED_METHODS.get(function) if isinstance(function, types.FunctionType) else None


def _stack_trace(lines):
    return "".join(map(_line_of_trace, reversed(lines)))


@functools.lru_cache(4096)
def _line_of_trace(place):
    """Empty for what PyTorch leaves out: its modules, and what it and we put in the place of other functions."""
    file, line, function = place
    if any(folder in file for folder in _NOT_SHOWN):
        return ""
    return f'  File "{file}", line {line}, in {function}\n    {linecache.getline(file, line).strip()}\n'


def _described(value):
    if isinstance(value, (tuple, list)):
        items = ", ".join(type(item).__name__ for item in value[:8]) + (", …" if len(value) > 8 else "")
        return f"a {type(value).__name__} of {len(value)}: ({items})"
    return f"a {type(value).__name__}" if value is not None else "None"


@contextlib.contextmanager
def _kept_random_state():
    """A backend may run the graph on examples; the program's random numbers stay as they were."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        yield
