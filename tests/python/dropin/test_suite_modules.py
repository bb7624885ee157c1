"""Tests as PyTorch's users write them: lazy modules, checkpoints, hooks, and exceptions in one graph."""

from suite import passes


def test_lazy_modules(tmp_path):
    passes(
        """
    def test_layers_find_their_shapes(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = torch.nn.LazyLinear(10), torch.nn.LazyLinear(1)
            def forward(self, x):
                return self.second(self.first(x).relu())
        for backend in (CompileCounter(), CompileCounterWithBackend("aot_eager")):
            model, x = Model(), torch.randn(5, 4)
            compiled = torch.compile(model, backend=backend, fullgraph=True)
            self.assertEqual(compiled(x), model(x))
            compiled(x + 1)
            self.assertEqual(backend.frame_count, 1)
            self.assertIs(type(model.first), torch.nn.Linear)
            self.assertEqual(model.second.weight.shape, (1, 10))
            compiled(x).sum().backward()
            self.assertEqual(model.first.weight.grad.shape, (10, 4))

    def test_norms_behind_layers(self):
        model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d(), torch.nn.LazyLinear(2))
        counter = CompileCounter()
        compiled = torch.compile(model, backend=counter, fullgraph=True)
        compiled(torch.randn(5, 3))
        compiled(torch.randn(5, 3))
        self.assertEqual((counter.frame_count, type(model[1])), (1, torch.nn.BatchNorm1d))

    def test_those_of_a_program(self):
        class Scale(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.ones(1))
            def forward(self, x):
                return x * self.scale
        class LazyScale(torch.nn.modules.lazy.LazyModuleMixin, Scale):
            cls_to_become = Scale
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.UninitializedParameter()
            def initialize_parameters(self, x):
                if self.has_uninitialized_params():
                    with torch.no_grad():
                        self.scale.materialize(x.shape)
                        self.scale.fill_(3)
        module, counter = LazyScale(), CompileCounter()
        result = torch.compile(lambda: module(torch.ones(2, 3)), backend=counter, fullgraph=True)()
        self.assertEqual(result, torch.full((2, 3), 3.0))
        self.assertIs(type(module), Scale)
        self.assertEqual(counter.frame_count, 1)

    def test_one_that_looks_at_data_is_initialized_by_its_call(self):
        class Centered(torch.nn.Module):
            def forward(self, x):
                return x - self.center
        class LazyCentered(torch.nn.modules.lazy.LazyModuleMixin, Centered):
            cls_to_become = Centered
            def __init__(self):
                super().__init__()
                self.center = torch.nn.UninitializedParameter(requires_grad=False)
            def initialize_parameters(self, x):
                if self.has_uninitialized_params():
                    with torch.no_grad():
                        self.center.materialize(x.shape[1:])
                        self.center.copy_(x.mean(0))
        x = torch.randn(5, 4)
        plain, module = LazyCentered(), LazyCentered()
        self.assertEqual(torch.compile(lambda x: module(x * 2), backend="aot_eager")(x), plain(x * 2))
        self.assertEqual(module.center, plain.center)

    def test_norms_without_parameters(self):
        module, counter = torch.nn.LazyBatchNorm3d(affine=False, track_running_stats=False), CompileCounter()
        compiled = torch.compile(lambda x: module(x), backend=counter, fullgraph=True)
        x = torch.randn(2, 3, 4, 4, 4)
        self.assertEqual([compiled(x), compiled(x)], [module(x)] * 2)
        self.assertIs(type(module), torch.nn.BatchNorm3d)
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )


def test_checkpoints(tmp_path):
    passes(
        """
    def compare(self, f, *inputs, fullgraph=True, graphs=1):
        def run(f):
            leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
            torch.manual_seed(0)
            result = f(*leaves)
            result.sum().backward()
            return result, [x.grad for x in leaves], torch.get_rng_state()
        wanted = run(f)
        for backend in ("aot_eager", "inductor", CompileCounter()):
            torch._dynamo.reset()
            self.assertEqual(run(torch.compile(f, backend=backend, fullgraph=fullgraph)), wanted)
        self.assertEqual(backend.frame_count, graphs)

    def inputs(self):
        return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)

    def test_functions(self):
        from torch.utils.checkpoint import checkpoint
        def inner(x, y, *, scale=1):
            return torch.sigmoid(x @ y) * scale
        self.compare(lambda x, y: checkpoint(inner, x.sin(), y, use_reentrant=False), *self.inputs())
        self.compare(lambda x, y: checkpoint(inner, x.sin(), y, use_reentrant=True), *self.inputs())
        self.compare(lambda x, y: checkpoint(inner, x, y, use_reentrant=False, scale=3).cos(), *self.inputs())

    def test_random_numbers(self):
        from torch.utils.checkpoint import checkpoint
        def inner(x):
            return torch.nn.functional.dropout(x.sin(), 0.5)
        self.compare(lambda x: checkpoint(inner, x, use_reentrant=False).cos(), self.inputs()[0])

    def test_modules(self):
        from torch.utils.checkpoint import checkpoint, checkpoint_sequential
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
        self.compare(lambda x: checkpoint(module, x, use_reentrant=False) * 2, self.inputs()[0])
        self.compare(lambda x: checkpoint_sequential(module, 2, x, use_reentrant=False), self.inputs()[0])

    def test_what_cuts_the_history_stays(self):
        from torch.utils.checkpoint import checkpoint
        weight = torch.randn(4, 4, requires_grad=True)
        def f(x):
            return checkpoint(lambda x: x @ weight, x, use_reentrant=True)
        x = torch.randn(4, 4)
        self.assertFalse(torch.compile(f, backend="aot_eager")(x).requires_grad)

    def test_those_with_contexts_break(self):
        from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        def contexts():
            return create_selective_checkpoint_contexts([torch.ops.aten.mm.default])
        def f(x):
            return checkpoint(lambda x: (x @ x).sin(), x + 1, use_reentrant=False, context_fn=contexts)
        self.compare(f, self.inputs()[0], fullgraph=False)
    """,
        tmp_path,
    )


def test_python_in_one_graph(tmp_path):
    passes(
        """
    def one_graph(self, f, *arguments):
        for backend in ("aot_eager", CompileCounter()):
            torch._dynamo.reset()
            got = torch.compile(f, backend=backend, fullgraph=True)(*arguments)
            self.assertEqual(got, f(*arguments))
        self.assertEqual(backend.frame_count, 1)

    def test_links_of_exceptions(self):
        def f(x):
            error, other = ValueError(1, 2), KeyError("k")
            error.__context__ = TypeError("t")
            other.__cause__ = error
            other.__context__ = other
            return x + 1, other
        for backend in ("eager", "aot_eager"):
            _, error = torch.compile(f, backend=backend, fullgraph=True)(ones)
            self.assertEqual(repr((error, error.__cause__, error.__cause__.__context__)),
                             "(KeyError('k'), ValueError(1, 2), TypeError('t'))")
            self.assertTrue(error.__suppress_context__)
            self.assertIs(error.__context__, error)
            self.assertIsNone(error.__cause__.__cause__)

    def test_asserted_exceptions(self):
        def f(x):
            with self.assertRaises(KeyError) as caught:
                {}["k"]
            with self.assertRaisesRegex(ValueError, "a+"):
                raise ValueError("caab")
            self.assertEqual({"a": [1]}, {"a": [1]})
            self.assertCountEqual([1, 2], [2, 1])
            self.assertRaises(StopIteration, next, iter(()))
            return x + len(caught.exception.args)
        self.one_graph(f, ones)

    def test_tensors_by_the_names_of_their_types(self):
        def f(x):
            return (torch.Tensor([1, 2]), torch.LongTensor([[3]]), torch.FloatTensor(2, 3).shape, torch.Tensor().shape,
                    torch.tensor([x.sum(), 2.5]), torch.tensor([[x.sum(), x.mean()], [1, 2]]),
                    torch.tensor((x[0], True)),
                    torch.tensor([torch.tensor(2), True]), torch.BoolTensor([0, 1]), torch.DoubleTensor(x.shape).dtype)
        self.one_graph(f, ones)
        def gradient(x):
            return torch.tensor([x.sum(), 1.0]).requires_grad
        self.one_graph(lambda x: (x * 2, gradient(x)), ones.clone().requires_grad_())

    def test_operators_that_assign(self):
        def f(x):
            numbers, y = [1], x.clone()
            operator.iadd(numbers, [2])
            operator.setitem(numbers, 0, 5)
            table = {"a": 1, "b": 2}
            operator.delitem(table, "a")
            return operator.imul(y, 3), y, numbers, table, operator.ior({1}, {2}), operator.ipow(2, 5)
        self.one_graph(f, ones)

    def test_recurrent_layers_compiled_by_themselves(self):
        for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
            layer, x = kind(4, 4), torch.randn(2, 3, 4)
            self.one_graph(layer, x)
            counter = CompileCounter()
            compiled = torch.compile(layer, backend=counter)
            compiled(x)
            self.assertEqual(counter.frame_count, 1)
            layer.weight_ih_l0 = torch.nn.Parameter(torch.ones_like(layer.weight_ih_l0))
            self.assertEqual(compiled(x), layer(x))

    def test_breaks_in_blocks_of_generators(self):
        @contextlib.contextmanager
        def without_gradients():
            before = torch.is_grad_enabled()
            try:
                yield torch._C._set_grad_enabled(False)
            finally:
                torch._C._set_grad_enabled(before)
        def f(x):
            with without_gradients():
                y = x + 1
                torch._dynamo.graph_break()
                return y * 2
        counter = CompileCounter()
        result = torch.compile(f, backend=counter)(ones.clone().requires_grad_())
        self.assertEqual(result, f(ones))
        self.assertFalse(result.requires_grad)
        self.assertTrue(torch.is_grad_enabled())
        self.assertEqual(counter.frame_count, 2)

    def test_what_is_allowed_and_what_is_not_asked_for(self):
        class Sine(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.sin()
            @staticmethod
            def backward(ctx, gradient):
                return gradient * 2
        self.assertIs(torch._dynamo.allow_in_graph(Sine), Sine)
        self.one_graph(lambda x: Sine.apply(x), ones)
        counter = CompileCounter()
        options = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
        self.assertEqual(torch.compile(lambda x: x + 1, backend=counter, options=options)(ones), ones + 1)
        self.assertEqual(counter.frame_count, 1)
        def f(x):
            return x + 1
        compiled = torch.compile(f, backend="eager")
        self.assertIs(compiled._torchdynamo_orig_callable, f)

    def test_small_things(self):
        import enum
        class Colour(enum.Enum):
            RED = 1
            BLUE = 2
        def f(x):
            Pair = collections.namedtuple("Pair", "first second")
            pair = Pair(x + 1, 2)
            kinds = x.is_meta, x.is_xla, x.is_sparse_csr, x.__class__ is torch.Tensor
            x.__setitem__(0, 3.0)
            return pair.first * pair.second, kinds, len(Colour), x.__getitem__(1), int.from_bytes(b"a", "big"), \\
                torch.broadcast_shapes((1, 2), (3, 1))
        x, y = ones.clone(), ones.clone()
        self.assertEqual(torch.compile(f, backend="aot_eager", fullgraph=True)(x), f(y))
        self.assertEqual(x, y)
    """,
        tmp_path,
    )
