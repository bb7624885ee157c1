"""Tests as PyTorch's users write them: one graph for Python of many kinds, and how many calls it holds."""

from suite import passes


def test_what_goes_through_iterables(tmp_path):
    passes(
        """
    def standard(self, f, count, ops=None, graphs=1):
        standard_test(self, f, count, expected_ops=ops, expected_frame_count=graphs)

    def test_reduce_starts_from_what_it_is_given(self):
        self.standard(lambda a, b: functools.reduce(operator.mul, [a, b, 2], a + 1), 2, 4)
        self.standard(lambda a: functools.reduce(lambda p, q: p + [q * 2], [a, a + 1], []), 1, 3)
        self.standard(lambda a: functools.reduce(lambda p, q: p + (q,), [a, a * 2], (a,)), 1, 1)
        self.standard(lambda a: functools.reduce(operator.add, [a, a], a.sum()), 1, 3)

    def test_fillings_stand_for_themselves(self):
        def f(a, b):
            return [x + y for x, y in itertools.zip_longest([a, b], [1], fillvalue=a)]
        self.standard(f, 2, 2)
        self.standard(lambda a: list(itertools.accumulate([a, a], operator.mul, initial=a + 1)), 1, 3)

    def test_a_callable_object_that_can_be_gone_through(self):
        class Both:
            def __call__(self, x):
                return x * 2
            def __iter__(self):
                return iter(())
        both = Both()
        self.standard(lambda a: list(map(both, [a, a + 1])), 1, 3)
        self.standard(lambda a: functools.reduce(lambda p, q: q(p), [both, both], a), 1, 2)

    def test_items_that_nobody_reads_are_not_taken(self):
        def f(x):
            largest, _ = x.max(0)
            first, second, *rest = torch.split(x, 2)
            return largest + second
        self.standard(f, 1, 5)

    def test_nothing_to_compute(self):
        self.standard(lambda: sum([0, 1.0, 2]), 0, 0, graphs=0)
        self.standard(lambda x: functools.reduce(lambda a, b: (a, b), [x], None), 1, 0, graphs=0)
    """,
        tmp_path,
    )


def test_names_and_forms_of_graphs(tmp_path):
    passes(
        """
    def text_of(self, f, *arguments, **options):
        recorded = EagerAndRecordGraphs()
        torch.compile(f, backend=recorded, fullgraph=True, **options)(*arguments)
        (module,) = recorded.graphs
        return torch._dynamo.testing.normalize_gm(module.print_readable(print_output=False))

    def test_inputs_are_named_after_their_places(self):
        def f(x, others):
            return x.relu() * others["k"][0]
        text = self.text_of(f, ones, {"k": (ones + 1,)})
        self.assertIn('L_x_: "f32[3]", L_others_k_0_: "f32[3]"', text)
        self.assertIn("l_x_.relu()", text)

    def test_parameters(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 3)
            def forward(self, x):
                return self.layer(x)
        text = self.text_of(Model(), ones)
        self.assertIn("L_self_modules_layer_parameters_weight_", text)

    def test_open_sizes_are_inputs(self):
        text = self.text_of(lambda x: x.view(x.shape[0], -1) * 2, torch.randn(4, 3), dynamic=True)
        self.assertRegex(text, r'self, (s\\d+): "Sym\\(\\1\\)", (s\\d+): "Sym\\(\\2\\)", L_x_: "f32\\[\\1, \\2\\]"')

    def test_functions_compiled_by_one_backend_share_graphs(self):
        def f(x):
            return x.sin()
        counter = CompileCounter()
        first, second = torch.compile(f, backend=counter), torch.compile(f, backend=counter)
        self.assertEqual(first(ones), second(ones))
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )


def test_what_pytorch_compiles_by_itself(tmp_path):
    passes(
        """
    def choose(self, x):
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,)) * 2

    def test_cond_in_eager_code_and_in_compiled_code(self):
        wanted = [ones.sin() * 2, (-ones).cos() * 2]
        self.assertEqual([self.choose(ones), self.choose(-ones)], wanted)
        for backend in ("eager", "aot_eager", "inductor", EagerAndRecordGraphs()):
            compiled = torch.compile(self.choose, backend=backend)
            self.assertEqual([compiled(ones), compiled(-ones)], wanted)

    def test_its_gradient(self):
        x, y = (ones.clone().requires_grad_() for _ in range(2))
        torch.compile(self.choose, backend="eager")(x).sum().backward()
        (y.sin() * 2).sum().backward()
        self.assertEqual(x.grad, y.grad)

    def test_loops(self):
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop
        def f(x):
            _, doubled = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
            return doubled + scan(lambda sum, one: (sum + one, sum + one), x * 0, torch.stack([x, x]))[0]
        self.assertEqual(f(ones), ones * 10)
        self.assertEqual(torch.compile(f, backend="eager")(ones), ones * 10)

    def test_backwards_that_pytorch_compiles(self):
        from torch._dynamo import compiled_autograd
        weight = torch.randn(3, 3, requires_grad=True)
        def backward():
            weight.grad = None
            (ones @ weight).relu().square().sum().backward()
            return weight.grad
        wanted = backward()
        for backend in ("eager", "aot_eager"):
            for compiler in (torch.compile(backend=backend), lambda graph: torch.compile(graph, backend=backend)):
                with compiled_autograd._enable(compiler):
                    self.assertEqual(backward(), wanted)

    def test_dynamo_exports(self):
        module, _ = torch._dynamo.export(lambda x: x.sin() + 1)(ones)
        self.assertEqual(module(ones), ones.sin() + 1)
        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))
        for exported in (torch._dynamo.export(Net())(ones)[0], torch.export.export(Net(), (ones,)).module()):
            self.assertEqual([exported(ones), exported(-ones)], [ones.sin(), (-ones).cos()])
        exported = torch.export.export(torch.nn.Linear(3, 3), (ones,))
        self.assertEqual(exported.module()(ones).shape, (3,))

    def test_functions_of_autograd_on_backends_of_users(self):
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.save_for_backward(x)
                ctx.n = n
                return x.sin() * n
            @staticmethod
            def backward(ctx, gradient):
                (x,) = ctx.saved_tensors
                return gradient * x.cos() * ctx.n, None
        for backend in ("eager", "aot_eager", EagerAndRecordGraphs(), AotEagerAndRecordGraphs(), CompileCounter()):
            x = ones.clone().requires_grad_()
            torch.compile(lambda x: Twice.apply(x, 3).sum() * 2, backend=backend, fullgraph=True)(x).backward()
            self.assertEqual(x.grad, ones.cos() * 6)
    """,
        tmp_path,
    )


def test_functions_of_autograd_with_modules(tmp_path):
    body = """
    def test_modules_in_forward(self):
        class Residual(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, layers):
                with torch.no_grad():
                    for layer in layers:
                        x = x + layer(x)
                ctx.save_for_backward(x.detach())
                return x
            @staticmethod
            def backward(ctx, gradient):
                return gradient * 2, None
        layers = [torch.nn.Linear(3, 3), torch.nn.ReLU()]
        def function(x):
            return Residual.apply(x, layers).sum()
        for backend in (CompileCounter(), "eager", "aot_eager"):
            torch._dynamo.reset()
            x, y = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
            compiled = torch.compile(function, backend=backend, fullgraph=True)
            self.assertEqual(compiled(x), function(y))
            compiled(x).backward()
            function(y).backward()
            self.assertEqual(x.grad, y.grad)
            layers[0].weight = torch.nn.Parameter(torch.ones(3, 3))
            self.assertEqual(compiled(x), function(x))

    def test_each_module_for_itself(self):
        class Applied(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, module):
                return module(x)
            @staticmethod
            def backward(ctx, gradient):
                return gradient, None
        modules = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.ReLU()
        for backend in (CompileCounter(), "eager", "aot_eager"):
            compiled = torch.compile(lambda x, module: Applied.apply(x, module), backend=backend, fullgraph=True)
            for module in modules * 2:
                self.assertEqual(compiled(ones, module), module(ones))
    """
    assert passes(body, tmp_path) == 2
