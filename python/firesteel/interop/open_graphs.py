"""Graphs that leave sizes and numbers open, for backends that are functions: PyTorch's symbols stand for these.

A backend may decide something about a size (its kernels for small ones, say), which PyTorch notes as a guard on the
symbols. These are asked at every call; where one does not hold the backend gets the graph again, with other examples.
"""

import torch
import torch.fx
from torch._dynamo.source import ConstantSource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, ShapeEnv, StatelessSymbolicContext

from .graph_modules import without_assignment

_MOST = 8  # forms of one graph; then it runs as it is


class OpenGraph:
    """What runs in place of a graph with open sizes: the backend's work on it, once or a few times."""

    def __init__(self, builder, inputs):
        self.builder, self.inputs = builder, inputs
        self.forms = []  # a check of the arguments, or None, and what the backend made
        self.open_floats = self.any_sizes = True  # until the backend cannot do it

    def __call__(self, *args):
        for check, compiled in self.forms:
            if check is None or check(args):
                return compiled(*args)
        if len(self.forms) == _MOST:
            return self.builder.module().forward(*args)
        self.forms.insert(0, self._form_for(args))
        return self.forms[0][1](*args)

    def _form_for(self, args):
        try:
            return self._compile(args)
        except Exception:
            has_floats = self.open_floats and any(type(arg) is float for arg in args)
            has_any_sizes = self.any_sizes and any(dim < 0 for known in self.inputs for dim in known.dims)
            if not has_floats and not has_any_sizes:
                raise
            self.open_floats = self.any_sizes = False
            return self._compile(args)

    def _compile(self, args):
        module = self.builder.module()
        environment = ShapeEnv()
        fakes = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
        symbols = []
        # A size that is open from 0 on needs no form for each of 0 and 1; one that the code asks for is its tensor's.
        takes_any = self.any_sizes and not any(type(arg) is int for arg in args)
        with torch.no_grad():
            for known, arg in zip(self.inputs, args, strict=True):
                symbols.append(_symbolic(fakes, known, arg, self.open_floats, takes_any))
        plan = _bind_numbers(module, self.inputs, symbols, _bind_sizes(module, symbols))
        given = [step.symbol if isinstance(step, _Size) else symbols[step] for step in plan]
        _note_sizes(module, given, fakes)
        examples = [
            args[step] if isinstance(symbol, torch.Tensor) else symbol for step, symbol in zip(plan, given, strict=True)
        ]
        with tracing(TracingContext(fakes)):
            compiled = self.builder.hand_over(module, examples)

        def call(*args):
            return compiled(*[args[s.of].shape[s.dim] if isinstance(s, _Size) else args[s] for s in plan])

        sizes = [  # PyTorch's symbols are never 0 or 1
            (i, dim, symbol.shape[dim])
            for i, (known, symbol) in enumerate(zip(self.inputs, symbols, strict=True))
            for dim in known.dims
            if isinstance(symbol.shape[dim], int)
        ]
        return _check_of(environment, symbols, args, sizes), call


class _Size:
    """A size of an input that the graph gets beside it."""

    def __init__(self, symbol, of, dim):
        self.symbol, self.of, self.dim = symbol, of, dim


def _bind_sizes(module, symbols):
    """Gives each open size a placeholder before its tensor's; what the graph gets then: sizes and indices of inputs."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    plan, bound = [], {}
    for index, (node, symbol) in enumerate(zip(placeholders, symbols, strict=True)):
        for dim, size in enumerate(symbol.shape if isinstance(symbol, torch.Tensor) else ()):
            name = str(size)
            if isinstance(size, torch.SymInt) and name.isidentifier() and name not in bound:
                with module.graph.inserting_before(node):
                    bound[name] = module.graph.placeholder(name)
                bound[name].meta["example_value"] = size
                plan.append(_Size(size, index, dim))
        node.meta["example_value"] = symbol
        plan.append(index)
    return plan


class _Numbers:
    """What is known of numbers in a graph, by how they come about: the placeholders, and sizes that are fixed."""

    def __init__(self, graph, known):
        self.graph, self.known = graph, known

    def has(self, number):
        if type(number) is not tuple or number in self.known:
            return True
        function, *parts = number
        return getattr(function, "__module__", None) in ("_operator", "math") and all(map(self.has, parts))

    def make(self, number, trace):
        if type(number) is not tuple:
            return number
        if number in self.known:
            return self.known[number]
        function, *parts = number
        made = [self.make(part, trace) for part in parts]
        node = self.graph.call_function(without_assignment(function), tuple(made))
        values = [part.meta["example_value"] if isinstance(part, torch.fx.Node) else part for part in made]
        node.meta["example_value"], node.stack_trace = function(*values), trace
        return node


def _bind_numbers(module, inputs, symbols, plan):
    """Computes numbers in the graph where all that they are made of is there; what the graph gets then."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    sizes = {str(step.symbol): node for step, node in zip(plan, placeholders, strict=True) if isinstance(step, _Size)}
    known, numbers, replaced = {}, [], set()
    for step, node in zip(plan, placeholders, strict=True):
        if isinstance(step, _Size):
            continue
        path, number = inputs[step].path, inputs[step].number
        if number is None:
            for dim, size in enumerate(symbols[step].shape):
                known["size", path, dim] = sizes.get(str(size), size)
        elif number[0] == "number" and number not in known:
            known[number] = node
        else:
            numbers.append((step, number, node))
    made = _Numbers(module.graph, known)
    for step, number, node in numbers:
        if node.users and made.has(number):
            user = next(iter(node.users))
            with module.graph.inserting_before(user):
                node.replace_all_uses_with(made.make(number, user.stack_trace))
            module.graph.erase_node(node)
            replaced.add(step)
    module.recompile()
    return [step for step in plan if isinstance(step, _Size) or step not in replaced]


def _symbolic(fakes, known, arg, open_floats, takes_any):
    """The fake of a tensor, or the symbol of a number."""
    environment, source, dims = fakes.shape_env, ConstantSource(known.path), known.dims
    if isinstance(arg, torch.Tensor):
        any_size = DimDynamic.UNBACKED if takes_any else DimDynamic.DUCK
        kinds = [
            (DimDynamic.DYNAMIC if d in known.apart else DimDynamic.DUCK) if d in dims
            else any_size if d - arg.dim() in dims else DimDynamic.STATIC
            for d in range(arg.dim())
        ]  # fmt: skip
        context = StatelessSymbolicContext(kinds) if dims else None
        return fakes.from_tensor(arg, static_shapes=not dims, symbolic_context=context, source=source)
    if type(arg) is int:
        # A size that the code computes mostly is that of a tensor.
        kind = DimDynamic.DUCK if known.number[0] == "size" else DimDynamic.DYNAMIC
        return environment.create_symintnode(
            environment.create_symbol(arg, source, kind, positive=None, do_not_specialize_zero_one=True),
            hint=arg,
            source=source,
        )
    if type(arg) is float and open_floats:
        symbol = environment.create_unspecified_symbol(arg, source, DimDynamic.DYNAMIC)
        return environment.create_symfloatnode(symbol, hint=arg, source=source)
    return arg


def _note_sizes(module, symbols, fakes):
    """Writes into the nodes what PyTorch's users find there, where all that is called are torch's own functions."""
    for node in module.graph.nodes:
        if node.op == "call_function" and not _may_be_called(node):
            return

    class Noting(torch.fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            if node.op.startswith("call"):
                node.meta["example_value"] = result
            return result

    # Of the inputs only copies may be changed by what runs here.
    copies = [s.detach().requires_grad_(s.requires_grad) if isinstance(s, torch.Tensor) else s for s in symbols]
    try:
        with fakes:
            Noting(module).run(*copies)
    except Exception:  # the values that the capture has found stay
        return


def _may_be_called(node):
    """False for functions of the user's, and for those that switch a mode."""
    owner = (getattr(node.target, "__module__", None) or "torch").split(".")[0]
    return owner in ("torch", "_operator", "builtins", "math") and "example_value" in node.meta


def _check_of(environment, symbols, args, sizes):
    """What tells whether the form fits other arguments; None: it always does."""
    plain = [i for i, symbol in enumerate(symbols) if isinstance(symbol, (int, float)) and not isinstance(symbol, bool)]
    fixed = [(i, type(args[i]), args[i]) for i in plain]
    places = [i for i, symbol in enumerate(symbols) if i not in plain and not isinstance(symbol, bool)]
    text = environment.produce_guards_expression([symbols[i] for i in places], ignore_static=True)
    if not text and not fixed and not sizes:
        return None
    code = compile(text or "True", "<sizes of a graph>", "eval")
    names = [(f"t{at}", i) for at, i in enumerate(places)]

    def check(args):
        if any(type(args[i]) is not kind or args[i] != value for i, kind, value in fixed):
            return False
        if any(args[i].shape[dim] != size for i, dim, size in sizes):
            return False
        return bool(eval(code, SYMPY_INTERP, {"L": {name: args[i] for name, i in names}}))

    return check
