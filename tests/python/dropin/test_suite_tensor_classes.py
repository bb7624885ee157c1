"""Tests as PyTorch's users write them: classes of tensors, modes, hooks on tensors, loops over rows."""

from suite import passes


def test_classes_with_torch_function(tmp_path):
    passes(
        """
    def kind(self):
        class Scaled(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is torch.add or func is torch.Tensor.add:
                    func = torch.mul
                return super().__torch_function__(func, types, args, kwargs or {})
        return Scaled

    def test_one_graph_without_traces_of_the_class(self):
        Scaled = self.kind()
        def f(x, y):
            return torch.add(x, y).sin(), x + y, 2 - x, x.shape, x.as_subclass(torch.Tensor) + y
        for backend in ("eager", "aot_eager", "inductor"):
            torch._dynamo.reset()
            counter = CompileCounterWithBackend(backend)
            x, y = torch.randn(3).as_subclass(Scaled), torch.randn(3)
            got, wanted = torch.compile(f, backend=counter, fullgraph=True)(x, y), f(x, y)
            for one, other in zip(got, wanted):
                self.assertIs(type(one), type(other))
                self.assertEqual(one, other)
            self.assertEqual((counter.frame_count, counter.op_count), (1, 5))

    def test_another_class_is_another_graph(self):
        Scaled, counter = self.kind(), CompileCounter()
        compiled = torch.compile(lambda x: x + 3 if isinstance(x, Scaled) else x - 3, backend=counter, fullgraph=True)
        self.assertEqual(compiled(ones), ones - 3)
        self.assertEqual(compiled(ones.as_subclass(Scaled)).as_subclass(torch.Tensor), ones * 3)
        compiled(ones + 1)
        self.assertEqual(counter.frame_count, 2)

    def test_parameters_of_a_class_of_their_own(self):
        class Own(torch.nn.Parameter):
            pass
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = Own(torch.ones(3))
            def forward(self, x):
                return x * self.weight if isinstance(self.weight, Own) else x
        for backend in ("eager", "aot_eager", "inductor", CompileCounter()):
            model = Model()
            torch.compile(model, backend=backend, fullgraph=True)(ones * 4).sum().backward()
            self.assertEqual(model.weight.grad, ones * 4)

    def test_blocks_of_a_mode(self):
        from torch.overrides import TorchFunctionMode
        class Swapped(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return (torch.sub if func is torch.add else func)(*args, **(kwargs or {}))
        def f(x):
            with Swapped():
                y = torch.add(x, 2)
            with torch.device("cpu"):
                return torch.add(y, 1) + torch.zeros(3)
        counter = CompileCounter()
        self.assertEqual(torch.compile(f, backend=counter, fullgraph=True)(ones), ones - 1)
        self.assertEqual((counter.frame_count, counter.op_count), (1, 4))
    """,
        tmp_path,
    )


def test_hooks_on_tensors_inside(tmp_path):
    passes(
        """
    def test_on_what_is_computed(self):
        def f(x, factor):
            y = x * 3
            y.register_hook(lambda gradient: gradient * factor)
            return y * 2
        for backend in ("eager", "aot_eager", "inductor", CompileCounter()):
            x = torch.ones(3, requires_grad=True)
            torch.compile(f, backend=backend, fullgraph=True)(x, ones * 5).sum().backward()
            self.assertEqual(x.grad, ones * 30)

    def test_handles(self):
        def f(x):
            first, second = x.register_hook(lambda g: g * 2), x.register_hook(lambda g: g + 1)
            first.remove()
            return x * 3, second
        for backend in ("eager", "aot_eager", CompileCounterWithBackend("aot_eager")):
            x = torch.ones(3, requires_grad=True)
            result, handle = torch.compile(f, backend=backend, fullgraph=True)(x)
            result.sum().backward(retain_graph=True)
            self.assertEqual(x.grad, ones * 4)
            handle.remove()
            result.sum().backward()
            self.assertEqual(x.grad, ones * 7)

    def test_a_backend_that_traces_calls_them(self):
        def f(x):
            y = x * 3
            y.register_hook(lambda gradient: gradient * 2)
            return y * 2
        x = torch.ones(3, requires_grad=True)
        torch.compile(f, backend=CompileCounterWithBackend("aot_eager"), fullgraph=True)(x).sum().backward()
        self.assertEqual(x.grad, ones * 12)
    """,
        tmp_path,
    )


def test_loops_over_rows(tmp_path):
    passes(
        """
    def test_map_scan_and_associative_scan(self):
        from functorch.experimental.control_flow import map as map_rows
        from torch._higher_order_ops.associative_scan import associative_scan
        from torch._higher_order_ops.scan import scan
        weight = torch.randn(3, 3)
        def f(x):
            rows = map_rows(lambda row, y: {"a": row.sin() + y, "b": row @ weight}, x, x[0])
            last, steps = scan(lambda total, row: (total + row, total * row), torch.zeros(3), x, reverse=True)
            return rows, last, steps, associative_scan(lambda a, b: a * b, x, 1, combine_mode="generic")
        x = torch.randn(4, 3, requires_grad=True)
        wanted = {"a": x.sin() + x[0], "b": x @ weight}
        total, steps = torch.zeros(3), []
        for row in reversed(x.unbind()):
            steps.insert(0, total * row)
            total = total + row
        for backend in ("eager", "aot_eager", "inductor", CompileCounter(), CompileCounterWithBackend("aot_eager")):
            torch._dynamo.reset()
            rows, last, got, products = torch.compile(f, backend=backend, fullgraph=True)(x)
            self.assertEqual((rows, last, got, products), (wanted, total, torch.stack(steps), x.cumprod(1)))
            gradient = torch.autograd.grad(last.sum() + got.sum() + products.sum(), x)
            theirs = torch.autograd.grad(
                total.sum() + torch.stack(steps).sum() + x.cumprod(1).sum(), x, retain_graph=True)
            self.assertEqual(gradient, theirs)

    def test_loops_on_data_for_backends_that_trace(self):
        from torch._higher_order_ops.while_loop import while_loop
        def f(i, x):
            return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2 + ones), (i, x))
        for backend in ("eager", "aot_eager", CompileCounterWithBackend("aot_eager")):
            i, x = torch.compile(f, backend=backend, fullgraph=True)(torch.tensor(3), ones)
            self.assertEqual((i, x), (torch.tensor(5), ones * 7))
    """,
        tmp_path,
    )


def test_what_is_set_on_classes(tmp_path):
    passes(
        """
    def test_contexts_that_keep_their_state_on_the_class(self):
        class Level:
            now = 0
            def __init__(self, level):
                self.level = level
            def __enter__(self):
                self.before, Level.now = Level.now, self.level
            def __exit__(self, *error):
                Level.now = self.before
        def f(x):
            with Level(3):
                x = x + Level.now
                with Level(5):
                    x = x * Level.now
            return x + Level.now
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        for _ in range(3):
            self.assertEqual(compiled(ones), ones * 20)
        self.assertEqual((Level.now, counter.frame_count), (0, 1))

    def test_counts(self):
        class Base:
            calls = 0
        class Own(Base):
            def __call__(self, x):
                type(self).calls += 1
                Base.last = self.calls
                return x * self.calls + Own.last
        own = Own()
        compiled = torch.compile(lambda x: own(x), backend="eager", fullgraph=True)
        for turn in (1, 2, 3):
            self.assertEqual(compiled(ones), ones * turn * 2)
            self.assertEqual((Base.calls, Own.calls, Base.last), (0, turn, turn))

    def test_a_break_comes_after_what_was_set(self):
        class Seen:
            value = None
        def f(x):
            Seen.value = x + 1
            torch._dynamo.graph_break()
            y = Seen.value * 2
            Seen.value = 4
            raise ValueError(y)
        with self.assertRaises(ValueError) as raised:
            torch.compile(f, backend="eager")(ones)
        self.assertEqual(raised.exception.args[0], ones * 4)
        self.assertEqual(Seen.value, 4)

    def test_setting_by_a_method_of_another_class(self):
        class Namespace(dict):
            __getattr__ = dict.__getitem__
            __setattr__ = dict.__setitem__
        def f(x):
            space = Namespace(a=x)
            space.b = x * 2
            return space.a + space.b, list(space)
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), f(ones))
    """,
        tmp_path,
    )


def test_where_nodes_come_from(tmp_path):
    passes(
        """
    def test_modules_and_functions(self):
        class Inner(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 3)
            def forward(self, x):
                return torch.sin(self.linear(x)).cos()
        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.Sequential(Inner(), torch.nn.ReLU())
            def forward(self, x):
                return self.layers(x) + 1
        recorded, module = EagerAndRecordGraphs(), Outer()
        torch.compile(module, backend=recorded)(torch.ones(2, 3))
        found = {}
        for node in recorded.graphs[0].graph.nodes:
            if node.op.startswith("call"):
                (_, target), = node.meta["source_fn_stack"]
                stack = list(node.meta.get("nn_module_stack", {}).values())
                found[node.target] = target, [path for path, _ in stack], [kind for _, kind in stack]
        layers = "L['self'].layers"
        Linear, ReLU, Sequential = torch.nn.Linear, torch.nn.ReLU, torch.nn.Sequential
        self.assertEqual(found, {
            torch._C._nn.linear:
                (Linear, [layers, f"{layers}.0", f"{layers}.0.linear"], [Sequential, Inner, Linear]),
            torch.sin: (torch.sin, [layers, f"{layers}.0"], [Sequential, Inner]),
            "cos": ("cos", [layers, f"{layers}.0"], [Sequential, Inner]),
            torch.nn.functional.relu: (ReLU, [layers, f"{layers}.1"], [Sequential, ReLU]),
            operator.add: (operator.add, [], [])})

    def test_partitions_by_source(self):
        from torch.fx.passes.utils.source_matcher_utils import get_source_partitions
        layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
        recorded = EagerAndRecordGraphs()
        torch.compile(lambda x: layers(x), backend=recorded)(torch.ones(2, 3))
        found = get_source_partitions(recorded.graphs[0].graph, [torch.nn.Linear, torch.nn.ReLU])
        self.assertEqual([len(found[kind]) for kind in (torch.nn.Linear, torch.nn.ReLU)], [2, 1])
    """,
        tmp_path,
    )
