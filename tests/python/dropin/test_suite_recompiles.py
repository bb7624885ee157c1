"""Tests as PyTorch's users write them: how often something is compiled, and what torch._dynamo.config says about it."""

from suite import passes


def test_changing_sizes_and_numbers(tmp_path):
    passes(
        """
    def test_a_changed_size_is_left_open(self):
        rows = [(torch.randn(n),) for n in (3, 4, 5, 6)]
        self.assertEqual(counted(lambda x: x + 1, *rows), [1, 2, 2, 2])
        self.assertEqual(counted(lambda x: x * 2, *rows, dynamic=True), [1, 1, 1, 1])
        self.assertEqual(counted(lambda x: x * 3, *rows, dynamic=False), [1, 2, 3, 4])

    def test_sizes_that_the_code_computes_with(self):
        def f(x):
            return (x.view(x.shape[0] * 2, -1) + x.size(0)).sum(0).expand(x.shape[0], -1)
        self.assertEqual(counted(f, *[(torch.randn(n, 2),) for n in (3, 4, 5, 16)]), [1, 2, 2, 2])

    def test_marks(self):
        marked = torch.randn(3)
        torch._dynamo.mark_dynamic(marked, 0)
        self.assertEqual(counted(lambda x: x + 1, (marked,), (torch.randn(4),), (torch.randn(5),)), [1, 1, 1])
        fixed = [torch.randn(3), torch.randn(4)]
        for tensor in fixed:
            torch._dynamo.mark_static(tensor, 0)
        self.assertEqual(counted(lambda x: x - 1, *[(t,) for t in fixed]), [1, 2])

    def test_numbers(self):
        self.assertEqual(counted(lambda x, n: x + n, *[(ones, n) for n in (2, 3, 4, 5)]), [1, 2, 2, 2])
        self.assertEqual(counted(lambda x, n: x * n, *[(ones, n) for n in (0, 1, 2, 3)]), [1, 2, 2, 2])
        self.assertEqual(counted(lambda x, n: x - n, *[(ones, n + 0.5) for n in (2, 3, 4)]), [1, 2, 2])

    def test_configured_otherwise(self):
        rows = [(torch.randn(n),) for n in (3, 4, 5)]
        with config.patch(automatic_dynamic_shapes=False):
            self.assertEqual(counted(lambda x: x + 1, *rows), [1, 2, 3])
        with config.patch(assume_static_by_default=False):
            self.assertEqual(counted(lambda x: x + 2, *rows), [1, 1, 1])
        with config.patch(specialize_int=True):
            self.assertEqual(counted(lambda x, n: x + n, *[(ones, n) for n in (2, 3, 4)]), [1, 2, 3])
            self.assertEqual(counted(lambda x, n: x - n, *[(ones, n + 0.5) for n in (2, 3, 4)]), [1, 2, 2])
        with config.patch(specialize_float=True):
            self.assertEqual(counted(lambda x, n: x * n, *[(ones, n + 0.5) for n in (2, 3, 4)]), [1, 2, 3])

    def test_numbers_and_places_are_open_from_the_first_call(self):
        calls = [(torch.randn(9, 9), n) for n in (2, 3, 7, 5)]
        self.assertEqual(counted(lambda x, n: x + n, *calls, dynamic=True, fullgraph=True), [1, 1, 1, 1])
        self.assertEqual(counted(lambda x, n: x[n] + x[:, n], *calls, dynamic=True, fullgraph=True), [1, 1, 1, 1])
        calls += [(ones, 1.5), (ones, 2.5)]
        self.assertEqual(counted(lambda x, n: x + n, *calls[3:], dynamic=True, fullgraph=True), [1, 2, 2])

    def test_lazy_modules_learn_their_sizes_first(self):
        torch.manual_seed(0)
        module, counter = torch.nn.LazyLinear(2), CompileCounter()
        compiled = torch.compile(module, backend=counter, fullgraph=True)
        self.assertEqual(compiled(ones), module(ones))
        self.assertEqual(compiled(torch.randn(4, 3)).shape, (4, 2))
        self.assertIs(type(module), torch.nn.Linear)
        self.assertEqual(counter.frame_count, 2)

    def test_graphs_with_open_sizes_trace_under_aot(self):
        def f(x, n, k):
            return (x.sin().reshape(x.shape[0] * 2, -1) * n + k).sum(1)
        for backend in ("aot_eager", "inductor"):
            counter = CompileCounterWithBackend(backend)
            compiled = torch.compile(f, backend=counter)
            for n in (3, 4, 5, 16):
                x = torch.randn(n, 2, requires_grad=True)
                y = x.detach().clone().requires_grad_()
                compiled(x, n, n + 0.5).sum().backward()
                f(y, n, n + 0.5).sum().backward()
                self.assertEqual(x.grad, y.grad)
            if backend == "aot_eager":
                self.assertEqual(counter.frame_count, 2)

    def test_a_backend_that_decides_about_sizes_gets_the_graph_again(self):
        asked = []
        def backend(module, examples):
            size = module.graph.find_nodes(op="placeholder")[0].meta["example_value"]
            asked.append("small" if size < 10 else "large")
            return module.forward
        compiled = torch.compile(lambda x: x * x.shape[0], backend=backend, dynamic=True)
        for n in (4, 5, 20, 6, 30):
            self.assertEqual(compiled(torch.ones(n)), torch.full((n,), float(n)))
        self.assertEqual(asked, ["small", "large"])

    def test_example_values_are_symbolic(self):
        recorded = EagerAndRecordGraphs()
        torch.compile(lambda x: x.relu() * 2, backend=recorded, dynamic=True)(torch.randn(4, 3))
        values = [node.meta["example_value"] for node in recorded.graphs[0].graph.nodes if node.op != "output"]
        self.assertEqual([type(value) for value in values[:2]], [torch.SymInt] * 2)
        self.assertEqual([type(value.shape[0]) for value in values[2:]], [torch.SymInt] * 3)
    """,
        tmp_path,
    )


def test_limits(tmp_path):
    passes(
        """
    lengths = [(ones, "a" * n) for n in range(6)]

    def f(x, text):
        return x + len(text)

    def test_the_limit_at_the_time_of_a_call(self):
        counter = CompileCounter()
        compiled = torch.compile(Tests.f, backend=counter)
        with config.patch(recompile_limit=2), self.assertWarnsRegex(RuntimeWarning, "runs eagerly from now on"):
            for arguments in self.lengths:
                self.assertEqual(compiled(*arguments), Tests.f(*arguments))
        self.assertEqual(counter.frame_count, 2)

    def test_its_older_name(self):
        with config.patch(cache_size_limit=3), self.assertWarns(RuntimeWarning):
            self.assertEqual(counted(Tests.f, *self.lengths), [1, 2, 3, 3, 3, 3])

    def test_no_limit_to_speak_of(self):
        with config.patch(recompile_limit=2**63 - 1):
            self.assertEqual(counted(Tests.f, *[(ones, "a" * n) for n in range(12)])[-1], 12)

    def test_failing_at_the_limit(self):
        compiled = torch.compile(Tests.f, backend="eager")
        with config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
            compiled(ones, "a")
            with self.assertRaises(torch._dynamo.exc.FailOnRecompileLimitHit):
                compiled(ones, "ab")
        whole = torch.compile(Tests.f, backend="eager", fullgraph=True)
        with config.patch(recompile_limit=1):
            whole(ones, "a")
            with self.assertRaises(torch._dynamo.exc.FailOnRecompileLimitHit):
                whole(ones, "ab")

    def test_no_recompiles(self):
        compiled = torch.compile(Tests.f, backend="eager")
        with config.patch(error_on_recompile=True):
            compiled(ones, "a")
            compiled(ones + 1, "a")
            with self.assertRaisesRegex(torch._dynamo.exc.RecompileError, "text"):
                compiled(ones, "ab")
        self.assertEqual(compiled(ones, "ab"), ones + 2)

    def test_backends_that_fail(self):
        def failing(module, examples):
            raise ValueError("boom")
        with self.assertRaises(torch._dynamo.exc.BackendCompilerFailed) as caught:
            torch.compile(Tests.f, backend=failing)(ones, "a")
        self.assertIsInstance(caught.exception.inner_exception, ValueError)
        with config.patch(suppress_errors=True), self.assertWarnsRegex(RuntimeWarning, "boom"):
            self.assertEqual(torch.compile(Tests.f, backend=failing)(ones, "a"), ones + 1)
    """,
        tmp_path,
    )


def test_compiled_anew_in_a_loop(tmp_path):
    passes(
        """
    def test_what_was_compiled_serves_again(self):
        def whole(x):
            return x.sin() + x.cos()
        def in_pieces(x):
            a = x.sin()
            torch._dynamo.graph_break()
            return a + x.cos()
        for function, graphs in ((whole, 1), (in_pieces, 2)):
            for backend in (EagerAndRecordGraphs(), "eager"):
                counter = CompileCounterWithBackend(backend)
                for _ in range(3):
                    self.assertEqual(torch.compile(function, backend=counter)(ones), function(ones))
                self.assertEqual(counter.frame_count, graphs)

    def test_nothing_else_is_kept_alive(self):
        import weakref
        held = torch.ones(3)
        reference = weakref.ref(held)
        torch.compile(lambda x: x + held, backend="eager")(ones)
        del held
        self.assertIsNone(reference())
    """,
        tmp_path,
    )


def test_calls_that_mean_the_same(tmp_path):
    passes(
        """
    def test_however_they_are_written(self):
        def f(x, y=None, *, k=3):
            return x + k if y is None else x * y + k
        for first in ((ones,), (ones, None)):
            counter = CompileCounter()
            compiled = torch.compile(f, backend=counter)
            for args, named in (
                (first, {}), ((ones,), {"y": None}), ((), {"x": ones}), ((ones, None), {"k": 3}), ((ones,), {})
            ):
                same(compiled(*args, **named), ones + 3)
            self.assertEqual(counter.frame_count, 1)
            same(compiled(ones, ones * 3), ones * 3 + 3)
            same(compiled(y=ones * 2, x=ones), ones * 2 + 3)
            self.assertEqual(counter.frame_count, 2)
            same(compiled(ones, k=5), ones + 5)
            with self.assertRaises(TypeError):
                compiled(ones, x=ones)
            with self.assertRaises(TypeError):
                compiled(y=ones)

    def test_defaults_are_looked_at(self):
        def f(x, y=2):
            return x + y
        compiled = torch.compile(f, backend="eager")
        same(compiled(ones, 2), ones + 2)
        same(compiled(ones), ones + 2)
        f.__defaults__ = (7,)
        same(compiled(ones), ones + 7)
        same(compiled(ones, 2), ones + 2)
        same(compiled(x=ones), ones + 7)
    """,
        tmp_path,
    )


def test_what_changes_at_the_second_call(tmp_path):
    passes(
        """
    def test_sizes_that_are_equal_by_chance(self):
        squares = [(torch.randn(n, m),) for n, m in ((3, 3), (4, 4), (5, 6))]
        self.assertEqual(counted(lambda x: x + 1, *squares), [1, 2, 2])
        pairs = [(torch.randn(n), torch.randn(m)) for n, m in ((4, 4), (5, 5), (6, 7))]
        self.assertEqual(counted(lambda x, y: x.sum() + y.sum(), *pairs), [1, 2, 2])
        self.assertEqual(counted(lambda x, y: x.sum() - y.sum(), *pairs, dynamic=True), [1, 1, 2])

    def test_another_number_of_dimensions(self):
        shapes = ((3,), (3, 3), (4,), (4, 4), (5,), (5, 6))
        self.assertEqual(counted(lambda x: x + 1, *[(torch.randn(s),) for s in shapes]), [1, 2, 3, 3, 3, 3])

    def test_parts_of_slices_and_sizes(self):
        rows = torch.randn(9)
        self.assertEqual(counted(lambda x, s: x[s] + 1, *[(rows, slice(0, n)) for n in (3, 4, 5)]), [1, 2, 2])
        self.assertEqual(counted(lambda x, s: x.expand(s), *[(ones, torch.Size([n, 3])) for n in (2, 4, 5)]), [1, 2, 2])
        steps = [slice(1, n, 2) for n in (5, 7, 9)] + [slice(None, 5)]
        self.assertEqual(counted(lambda x, s: x[s] * 2, *[(rows, s) for s in steps])[:3], [1, 2, 2])

    def test_ints_of_modules_and_globals(self):
        class Counting(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.step = 2

            def forward(self, x):
                self.step += 1
                return x * self.step

        def counts():
            counter = CompileCounter()
            compiled, found = torch.compile(Counting(), backend=counter), []
            for step in (3, 4, 5):
                self.assertEqual(compiled(ones), ones * step)
                found.append(counter.frame_count)
            return found

        self.assertEqual(counts(), [1, 2, 3])
        with config.patch(allow_unspec_int_on_nn_module=True):
            self.assertEqual(counts(), [1, 2, 2])
    """,
        tmp_path,
    )
