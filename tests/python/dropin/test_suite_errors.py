"""Tests as PyTorch's users write them: exceptions that leave a function of one graph, and tensors of other objects."""

from suite import passes


def test_exceptions_that_leave_a_graph(tmp_path):
    passes(
        """
    def raised(self, function, *args):
        try:
            torch.compile(function, backend="eager", fullgraph=True)(*args)
        except Exception as error:
            return error
        self.fail("nothing was raised")

    def test_they_are_of_both_kinds(self):
        class Own(Exception):
            def __init__(self, code, text):
                super().__init__(text)
                self.code = code
        def own(x):
            raise Own(7, "mine") from KeyError("cause")
        cases = [
            (lambda x: x + ["a"].index("b"), ValueError), (lambda x: {} | 1, TypeError),
            (lambda x: {}["k"], KeyError), (lambda x: (1).none, AttributeError), (own, Own),
            (lambda x: [][3], IndexError), (lambda x: next(iter([])), StopIteration),
        ]
        for function, kind in cases:
            try:
                function(ones)
            except kind as error:
                expected = error
            got = self.raised(function, ones)
            self.assertIsInstance(got, kind)
            self.assertIsInstance(got, Unsupported)
            self.assertEqual((got.args, str(got)), (expected.args, str(expected)))
            self.assertEqual(type(got).__name__, kind.__name__)
        self.assertEqual(self.raised(own, ones).code, 7)
        self.assertIsInstance(self.raised(own, ones).__cause__, KeyError)
        self.assertEqual(self.raised(lambda x: (1).none, ones).name, "none")

    def test_without_a_whole_graph_they_are_themselves(self):
        def f(x):
            x = x + 1
            raise ValueError("mine")
        with self.assertRaises(ValueError) as caught:
            torch.compile(f, backend="eager")(ones)
        self.assertIs(type(caught.exception), ValueError)

    def test_operators_that_fail(self):
        self.assertIsInstance(self.raised(lambda x: x @ torch.ones(7, 7), ones), torch._dynamo.exc.TorchRuntimeError)
    """,
        tmp_path,
    )


def test_tensors_of_other_objects(tmp_path):
    passes(
        """
    def test_closures_of_one_code(self):
        def adder(value):
            def add(x):
                return x + value
            return add
        counter = CompileCounter()
        def f(x, function):
            return function(x + 1) - 1
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        for function in (adder(5), adder(5), adder(torch.randn(3)), adder(torch.randn(3))):
            self.assertEqual(compiled(ones, function), f(ones, function))
        self.assertEqual(counter.frame_count, 2)

    def test_modules_of_one_class(self):
        counter = CompileCounter()
        compiled = torch.compile(lambda m, x: m(x).sum(), backend=counter, fullgraph=True)
        for model in (torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)):
            compiled(model, ones).backward()
            mine = model.weight.grad.clone()
            model.weight.grad = None
            model(ones).sum().backward()
            self.assertEqual(mine, model.weight.grad)
        self.assertEqual(counter.frame_count, 1)

    def test_a_buffer_that_is_written_to(self):
        class Count(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.n = torch.nn.Buffer(torch.zeros(1))
            def forward(self, x):
                self.n.add_(1)
                return x + self.n
        counter = CompileCounter()
        compiled = torch.compile(lambda m, x: m(x), backend=counter, fullgraph=True)
        for model in (Count(), Count()):
            self.assertEqual(compiled(model, ones), ones + 1)
            self.assertEqual(compiled(model, ones), ones + 2)
            self.assertEqual(model.n, torch.full((1,), 2.0))
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )


def test_masks_and_the_context_of_a_backend(tmp_path):
    passes(
        """
    def test_a_mask_with_gradients(self):
        def f(x, mask, y):
            x = x.clone()
            x[mask] = y
            return x.sum()
        compiled = torch.compile(f, backend=CompileCounterWithBackend("aot_eager"))
        x, y = torch.randn(4, requires_grad=True), torch.randn(2, requires_grad=True)
        compiled(x, torch.tensor([True, False, True, False]), y).backward()
        self.assertEqual(x.grad, torch.tensor([0.0, 1.0, 0.0, 1.0]))
        self.assertEqual(y.grad, torch.ones(2))

    def test_a_backend_finds_its_context(self):
        seen = []
        def backend(module, examples):
            seen.append(torch._guards.TracingContext.try_get().fake_mode)
            return module.forward
        torch.compile(lambda x: x + 1, backend=backend)(ones)
        self.assertIsNotNone(seen[0])
        self.assertIsNone(torch._guards.TracingContext.try_get())
    """,
        tmp_path,
    )


def test_names_and_forms(tmp_path):
    passes(
        """
    def test_a_number_that_a_tensor_is_added_to(self):
        def f(y):
            one, other = 1, 2
            one += y
            other -= y
            return one, other
        counter = CompileCounter()
        self.assertEqual(torch.compile(f, backend=counter, fullgraph=True)(ones), f(ones))
        self.assertEqual(counter.op_count, 2)

    def test_compile_inside_compiled_code(self):
        def inner(x, scale=None):
            return x * (2 if scale is None else scale)
        def f(x):
            @torch.compile
            def other(x):
                return x + 1
            return other(torch.compile(inner, backend="eager")(x, scale=3))
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), ones * 3 + 1)

    def test_methods_of_a_compiled_module(self):
        class Model(torch.nn.Module):
            def forward(self, x):
                return x + 1
            def step(self, x):
                return self(x) * 2
        counter = CompileCounter()
        model = Model()
        compiled = torch.compile(model, backend=counter)
        model.step = compiled.dynamo_ctx(model.step)
        self.assertEqual(model.step(ones), (ones + 1) * 2)
        self.assertEqual(counter.frame_count, 1)

    def test_what_was_compiled_is_forgotten(self):
        counter = CompileCounter()
        def f(x):
            return x + 1
        compiled = torch.compile(f, backend=counter)
        compiled(ones)
        torch._dynamo.reset_code(f.__code__)
        self.assertEqual(compiled(ones), ones + 1)
        self.assertEqual(counter.frame_count, 2)

    def test_breaks_by_comptime(self):
        from torch._dynamo.comptime import comptime
        def f(x):
            y = x * 2
            comptime.graph_break()
            return y + 1
        counter = CompileCounter()
        self.assertEqual(torch.compile(f, backend=counter)(ones), ones * 2 + 1)
        self.assertEqual(counter.frame_count, 2)

    def test_settings_that_exclude_each_other(self):
        with config.patch(suppress_errors=True, fail_on_recompile_limit_hit=True), self.assertRaises(AssertionError):
            torch.compile(lambda: None, backend="eager")

    def test_descriptors_places_and_distributions(self):
        shape = torch.Tensor.shape
        def f(x, kind):
            made = kind(logits=x.sum(-1), validate_args=False)
            return shape.__get__(x), x.reshape(-1, x.shape[torch.tensor(1)]), made.logits + made.probs
        class Own(torch.distributions.Categorical):
            pass
        x = torch.randn(2, 3, 4)
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(x, Own), f(x, Own))
    """,
        tmp_path,
    )
