"""Tests as PyTorch's users write them: the controls under torch._dynamo's names, with the graphs that come of them."""

from suite import passes


def test_breaks_and_disabled_code(tmp_path):
    passes(
        """
    def graphs(self, f, *arguments):
        counter = CompileCounter()
        torch.compile(f, backend=counter)(*arguments)
        return counter.frame_count, counter.op_count

    def test_graph_break(self):
        def f(x):
            x = x.cos()
            torch._dynamo.graph_break()
            return x.sin() + 1
        self.assertEqual(self.graphs(f, ones), (2, 3))

    def test_skip_frame(self):
        def f(x):
            x = x + 1
            torch._dynamo.graph_break()
            x = x * 2
            torch._dynamo.skip_frame()
            return x - 1
        self.assertEqual(self.graphs(f, ones), (1, 1))

    def test_disable(self):
        def below(x):
            return x + 1
        @torch._dynamo.disable(recursive=False)
        def aside(x):
            assert not torch.compiler.is_compiling()
            return below(x.sigmoid())
        @torch._dynamo.disable
        def far_aside(x):
            return below(x.sigmoid())
        self.assertEqual(self.graphs(lambda x: aside(x.tan()), ones), (2, 2))
        self.assertEqual(self.graphs(lambda x: far_aside(x.tan()), ones), (1, 1))

    def test_allow_and_disallow(self):
        torch._dynamo.disallow_in_graph(torch.sub)
        try:
            self.assertEqual(self.graphs(lambda x: torch.add(torch.sub(torch.add(x, 1), 1), 1), ones), (2, 2))
        finally:
            torch._dynamo.allow_in_graph(torch.sub)
        self.assertEqual(self.graphs(lambda x: torch.add(torch.sub(torch.add(x, 1), 1), 1), ones), (1, 3))
        with self.assertRaises(RuntimeError):
            torch._dynamo.disallow_in_graph(lambda x: x)

    def test_errors_on_breaks(self):
        counter = CompileCounter()
        @torch._dynamo.error_on_graph_break(True)
        @torch.compile(backend=counter)
        def allowed(x):
            x = x + 1
            with torch._dynamo.error_on_graph_break(False):
                torch._dynamo.graph_break()
                x = x + 2
                torch._dynamo.graph_break()
            return x + 4
        self.assertEqual(allowed(ones), ones + 7)
        self.assertEqual(counter.frame_count, 3)

        @torch.compile(backend=counter)
        def refused(x):
            x = x + 1
            with torch._dynamo.error_on_graph_break(True):
                torch._dynamo.graph_break()
            return x
        with self.assertRaises(Unsupported):
            refused(ones)
        self.assertEqual(counter.frame_count, 3)

        @torch.compile(backend="eager", fullgraph=True)
        def whole(x):
            with torch._dynamo.error_on_graph_break(False):
                torch._dynamo.graph_break()
            return x
        with self.assertRaises(Unsupported):
            whole(ones)

    def test_one_compiled_function_inside_another(self):
        @torch.compile(backend="eager")
        def inner(x):
            torch._dynamo.graph_break()
            return x + 1
        with self.assertRaises(Unsupported):
            torch.compile(lambda x: inner(x), backend="eager", fullgraph=True)(ones)
        self.assertEqual(torch.compile(lambda x: inner(x), backend="eager")(ones), ones + 1)

    def test_regions(self):
        @torch.compiler.nested_compile_region
        def region(x, *, times):
            return x.sin() * times
        def f(x):
            return region(region(x, times=2), times=3)
        counter = CompileCounter()
        self.assertEqual(torch.compile(f, backend=counter, fullgraph=True)(ones), (ones.sin() * 2).sin() * 3)
        self.assertEqual(counter.frame_count, 1)
        x = ones.clone().requires_grad_()
        torch.compile(f, fullgraph=True)(x).sum().backward()
        self.assertEqual(x.grad, 6 * (ones.sin() * 2).cos() * ones.cos())

    def test_stances(self):
        @torch.compile(backend="eager", dynamic=False)
        def f(x, n):
            return x + n + (1 if torch.compiler.is_compiling() else 2)
        self.assertEqual(f(ones, 1), ones + 2)
        with torch.compiler.set_stance("eager_on_recompile"):
            self.assertEqual(f(ones, 1), ones + 2)
            self.assertEqual(f(ones, 2), ones + 4)
        with torch.compiler.set_stance("fail_on_recompile"), self.assertRaises(RuntimeError):
            f(ones, 3)
        counter = CompileCounter()
        with torch.compiler.set_stance("default", force_backend=counter):
            f(ones, 1)
        self.assertEqual(counter.frame_count, 1)

    def test_stances_and_changing_sizes(self):
        counter = CompileCounter()
        f = torch.compile(lambda x, y, z: x * y * z[0], backend=counter)
        with torch.compiler.set_stance("eager_then_compile"):
            for n in (2, 3, 4, 5):
                f(n, torch.randn(n), {0: torch.randn(n)})
        self.assertLessEqual(counter.frame_count, 2)

    def test_stances_set_where_they_must_not_be(self):
        @torch.compile(backend="eager")
        def captured(x):
            with torch.compiler.set_stance("force_eager"):
                return x + 1
        with self.assertRaises(AssertionError):
            captured(ones)
        @torch.compile(backend="eager")
        def aside(x):
            return torch._dynamo.disable(set_and_add)(x)
        def set_and_add(x):
            with torch.compiler.set_stance("force_eager"):
                return x + 1
        self.assertEqual(aside(ones), ones + 1)
    """,
        tmp_path,
    )


def test_values_of_opaque_types(tmp_path):
    passes(
        """
    def test_they_are_compared_by_value(self):
        class State(torch._opaque_base.OpaqueBase):
            def __init__(self, n):
                self.n = n
            def __eq__(self, other):
                return isinstance(other, State) and self.n == other.n
            def __hash__(self):
                return hash(self.n)
            def __repr__(self):
                return f"State({self.n})"
            def __fx_repr__(self):
                return repr(self), {"State": State}
        torch._library.opaque_object.register_opaque_type(State, typ="value")

        @torch._dynamo.nonstrict_trace
        def opaque(x, state):
            torch._dynamo.graph_break()
            return x * state.n
        counter = CompileCounterWithBackend("aot_eager")
        f = torch.compile(lambda x, state: opaque(x, state) + 1, backend=counter, fullgraph=True)
        for n, count in ((4, 1), (4, 1), (5, 2)):
            self.assertEqual(f(ones, State(n)), ones * n + 1)
            self.assertEqual(counter.frame_count, count)
    """,
        tmp_path,
    )
