"""Tests as PyTorch's users write them: sizes that may be any at all, which one graph serves, 0 and 1 among them."""

from suite import passes


def test_marked_sizes(tmp_path):
    passes(
        """
    sizes = (0, 1, 2, 5, 11)

    def one_graph(self, function, *shape, sizes=sizes, backends=("eager", "aot_eager", "inductor")):
        for backend in backends:
            torch._dynamo.reset()
            counter = CompileCounterWithBackend(backend)
            compiled = torch.compile(function, backend=counter, fullgraph=True)
            for size in sizes:
                x = torch.randn(size, *shape, requires_grad=True)
                y = x.detach().clone().requires_grad_()
                torch._dynamo.decorators.mark_unbacked(x, 0)
                result, expected = compiled(x), function(y)
                self.assertEqual(result, expected)
                result.sum().backward()
                expected.sum().backward()
                self.assertEqual(x.grad, y.grad)
            if backend == "eager":  # others get it twice, the second time with sizes that PyTorch's tracing takes
                self.assertEqual(counter.frame_count, 1)

    def test_operators(self):
        weight = torch.randn(3, 4)
        self.one_graph(lambda x: x.sin() * 2 + 1, 3)
        self.one_graph(lambda x: (x @ weight).relu().sum(0), 3)
        self.one_graph(lambda x: torch.cat([x, x]).view(-1), 3)
        self.one_graph(lambda x: x.t().contiguous()[1:], 3)
        self.one_graph(lambda x: torch.softmax(x, 1), 3, sizes=(1, 2, 5))

    def test_layers(self):
        layer = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.ReLU())
        self.one_graph(layer, 3, sizes=(1, 2, 5))

    def test_sizes_as_numbers(self):
        def f(x):
            return torch.ones(x.shape[0], 2) + x.shape[0], x.new_zeros(x.shape), x.shape[0] * 2 + 1
        compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
        for size in self.sizes:
            x = torch.randn(size, 3)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            self.assertEqual(compiled(x), f(x))

    def test_equal_and_broadcast(self):
        counter = CompileCounter()
        compiled = torch.compile(lambda x, y: x + y, backend=counter, fullgraph=True)
        by_itself = torch.compile(lambda x, y: x + y, backend="eager", fullgraph=True)
        for size, other in ((4, 4), (1, 1), (2, 2), (1, 5), (5, 1)):
            x, y = torch.randn(size, 2), torch.randn(other, 2)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            torch._dynamo.decorators.mark_unbacked(y, 0)
            self.assertEqual(by_itself(x, y), x + y)
            if size == other:
                self.assertEqual(compiled(x, y), x + y)
        self.assertEqual(counter.frame_count, 1)

    def test_with_a_number(self):
        compiled = torch.compile(lambda x: x + ones, backend="eager", fullgraph=True)
        for size in (3, 1, 3):
            x = torch.randn(size)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            self.assertEqual(compiled(x), x + ones)

    def test_writes(self):
        def f(x):
            x.add_(1)
            return x * 2
        for backend in ("eager", "aot_eager"):
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            for size in self.sizes:
                x, y = torch.zeros(size, 2), torch.zeros(size, 2)
                torch._dynamo.decorators.mark_unbacked(x, 0)
                self.assertEqual((compiled(x), x), (f(y), y))

    def test_what_would_decide_is_an_error(self):
        def f(x):
            return x + 1 if x.shape[0] > 5 else x
        x = torch.randn(3)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        with self.assertRaises(torch._dynamo.exc.UserError):
            torch.compile(f, backend="eager", fullgraph=True)(x)

    def test_what_is_known_decides(self):
        def f(x):
            torch._check(x.shape[0] < 9)
            return x + 1 if x.shape[0] < 20 else x
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for size in (3, 1, 0):
            x = torch.randn(size)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            self.assertEqual(compiled(x), x + 1)
        x = torch.randn(30)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        with self.assertRaises(RuntimeError):
            compiled(x)

    def test_sources(self):
        class Box:
            pass
        def f(box):
            return box.held * 2
        for setting, sizes in (("dynamic_sources", (3, 4, 5)), ("unbacked_sources", (0, 1, 5))):
            counter = CompileCounter()
            compiled = torch.compile(f, backend=counter)
            with torch.compiler.config.patch(**{setting: "L['box'].held"}):
                for size in sizes:
                    box = Box()
                    box.held = torch.randn(size)
                    self.assertEqual(compiled(box), box.held * 2)
            self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )


def test_sizes_of_open_graphs(tmp_path):
    passes(
        """
    def test_mark_static_inside(self):
        def f(x):
            torch._dynamo.mark_static(x, 0)
            return x * 2
        calls = [(torch.ones(size, 3),) for size in (4, 5, 4)]
        self.assertEqual(counted(f, *calls, fullgraph=True, dynamic=True), [1, 2, 2])

    def test_marks_that_may_be_ignored(self):
        x = torch.ones(4, 3)
        torch._dynamo.mark_dynamic(x, 0)
        f = lambda x: x + torch.ones(4, 3)
        with self.assertRaises(torch.fx.experimental.symbolic_shapes.ConstraintViolationError):
            torch.compile(f, backend="eager")(x)
        with config.patch(allow_ignore_mark_dynamic=True):
            self.assertEqual(torch.compile(f, backend="eager")(x), x * 2)

    def test_a_whole_size_as_an_argument(self):
        counter = CompileCounter()
        compiled = torch.compile(lambda x: x.new_zeros(x.shape) + x, backend=counter, fullgraph=True, dynamic=True)
        for size in (2, 3, 5):
            x = torch.randn(size, size + 1)
            self.assertEqual(compiled(x), x)
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )
