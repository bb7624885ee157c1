"""Tests as PyTorch's users write them: operators that no graph may hold, those that take functions, assertions."""

from suite import passes


def test_operators_without_the_tag(tmp_path):
    passes(
        """
    def test_they_break_the_graph_where_the_program_says_so(self):
        with torch.library._scoped_library("tagged", "FRAGMENT") as library:
            for name, tags in (("with_it", torch.Tag.pt2_compliant_tag), ("without_it", ())):
                torch.library.define(f"tagged::{name}", "(Tensor x) -> Tensor", lib=library, tags=tags)
                torch.library.impl(f"tagged::{name}", "CompositeImplicitAutograd", torch.sin, lib=library)
            ops = torch.ops.tagged
            def allowed(x):
                return ops.with_it(x) + ops.with_it.default(x) + torch.ops.aten.add(x, 1)
            for asked in (True, False):
                torch._dynamo.reset()
                with config.patch(only_allow_pt2_compliant_ops=asked):
                    self.assertEqual(torch.compile(allowed, backend="eager", fullgraph=True)(ones), allowed(ones))
                    for op in (ops.without_it, ops.without_it.default):
                        compiled = torch.compile(lambda x: op(x), backend="eager", fullgraph=True)
                        if asked:
                            self.assertRaisesRegex(Unsupported, "without_it", compiled, ones)
                        else:
                            self.assertEqual(compiled(ones), ones.sin())

    def test_overloads(self):
        with torch.library._scoped_library("tagged", "FRAGMENT") as library:
            tag = torch.Tag.pt2_compliant_tag
            torch.library.define("tagged::some.one", "(Tensor x) -> Tensor", lib=library, tags=tag)
            torch.library.define("tagged::some.two", "(Tensor x, int y) -> Tensor", lib=library)
            torch.library.impl("tagged::some.one", "CompositeImplicitAutograd", torch.sin, lib=library)
            torch.library.impl("tagged::some.two", "CompositeImplicitAutograd", lambda x, y: x + y, lib=library)
            with config.patch(only_allow_pt2_compliant_ops=True):
                some = torch.ops.tagged.some
                compiled = torch.compile(lambda x: some(x), backend="eager", fullgraph=True)
                self.assertEqual(compiled(ones), ones.sin())
                counter = CompileCounter()
                compiled = torch.compile(lambda x: some(x + 1, 2) * 2, backend=counter)
                self.assertEqual(compiled(ones), ones * 8)
                self.assertEqual(counter.frame_count, 2)
    """,
        tmp_path,
    )


def test_operators_that_take_functions(tmp_path):
    passes(
        """
    def test_map(self):
        from functorch.experimental.control_flow import map
        weight = torch.nn.Parameter(torch.randn(3))
        def f(xs, y):
            pairs = map(lambda x, y: (x * weight + y, {"k": x[0]}), xs, y)
            return pairs, map(lambda xs: xs[0] + xs[1]["a"], [xs, {"a": xs}])
        xs = torch.randn(4, 3)
        for backend in ("eager", "aot_eager"):
            torch._dynamo.reset()
            (first, second), sums = torch.compile(f, backend=backend, fullgraph=True)(xs, ones)
            self.assertEqual((first, second["k"], sums), (xs * weight + 1, xs[:, 0], xs * 2))
            weight.grad = None
            first.sum().backward()
            self.assertEqual(weight.grad, xs.sum(0))

    def test_scans(self):
        from torch._higher_order_ops import associative_scan, scan
        xs = torch.randn(4, 3)
        for dim, reverse in itertools.product((0, 1), (False, True)):
            def sums(xs):
                return scan(lambda c, x: (c + x, c * 2), xs.select(dim, 0) * 0, xs, dim=dim, reverse=reverse)
            def products(xs):
                return associative_scan(lambda a, b: a * b, xs, dim, reverse=reverse, combine_mode="generic")
            for f in (sums, products):
                self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(xs), f(xs))

    def test_wrap(self):
        from torch._higher_order_ops.wrap import wrap
        self.assertEqual(counted(lambda x: wrap(lambda a: a.sin() + 1, x), (ones,), fullgraph=True), [1])
    """,
        tmp_path,
    )


def test_assertions_about_tensors(tmp_path):
    passes(
        """
    def made(self, text):  # pytest writes assertions of its own into the functions of a test
        space = {"torch": torch}
        exec(text, space)
        return space["f"]

    def test_no_graph_break(self):
        f = self.made(
            "def f(x):\\n y = x.sin()\\n assert x[0] == 3\\n assert x.sum() > 0, 'a positive sum'\\n return x.cos() + y"
        )
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter)
        x = torch.tensor([3.0, 4.0])
        self.assertEqual(compiled(x), f(x))
        self.assertEqual(counter.frame_count, 1)
        with self.assertRaisesRegex(RuntimeError, "a positive sum"):
            compiled(torch.tensor([3.0, -4.0]))

    def test_as_in_python_where_the_program_says_so(self):
        f = self.made("def f(x):\\n assert x[0] == 3, 'three'\\n return x + 1")
        with config.patch(rewrite_assert_with_torch_assert=False):
            compiled = torch.compile(f, backend="eager")
            self.assertEqual(compiled(ones * 3), ones * 4)
            with self.assertRaisesRegex(AssertionError, "three"):
                compiled(ones)
    """,
        tmp_path,
    )


def test_operators_as_keys(tmp_path):
    passes(
        """
    def test_dicts_and_sets(self):
        add, sin = torch.ops.aten.add.Tensor, torch.ops.aten.sin.default
        rows, some = {add: 3, torch.sin: 4}, {add, sin}
        def f(x):
            x = x + rows[torch.ops.aten.add.Tensor] + rows[torch.sin]
            return x + (sin in some) + (torch.ops.aten.sin.out in some)
        self.assertEqual(counted(f, (ones,), (ones,), fullgraph=True), [1, 1])

    def test_deprecated_functions_of_torch(self):
        from torch.fx.experimental.symbolic_shapes import guard_size_oblivious
        def f(x):
            return x if guard_size_oblivious(x.shape[0] == 1) else x * 2
        self.assertEqual(counted(f, (ones,), (torch.ones(4),), fullgraph=True, dynamic=True), [1, 1])
    """,
        tmp_path,
    )


def test_what_no_graph_is_made_of(tmp_path):
    passes(
        """
    def test_torch_fx_is_told_so(self):
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        class Model(torch.nn.Module):
            def forward(self, x):
                return compiled(x)
        for model in (compiled, Model()):
            self.assertRaisesRegex(RuntimeError, "symbolically trace", torch.fx.symbolic_trace, model)
        self.assertEqual(compiled(ones), ones + 1)
        traced = torch.fx.symbolic_trace(torch.nn.ReLU())
        self.assertEqual(traced(ones), ones)

    def test_tracing_goes_on_after_an_export(self):
        exported, _ = torch._dynamo.export(lambda x: x + 1)(ones)
        self.assertEqual(exported(ones), ones + 1)
        backend = AotEagerAndRecordGraphs()
        self.assertEqual(torch.compile(lambda x: x.sin(), backend=backend)(ones), ones.sin())
        self.assertEqual(len(backend.fw_graphs), 1)

    def test_calls_of_loggers_that_are_ignored(self):
        log = logging.getLogger("ignored")
        def f(x):
            x = x + 1
            log.warning("%s", x)
            return x * 2
        counter = CompileCounter()
        with config.patch(ignore_logging_functions={logging.Logger.warning}):
            self.assertEqual(torch.compile(f, backend=counter)(ones), ones * 4)
        self.assertEqual(counter.frame_count, 1)
        counter = CompileCounter()
        with self.assertLogs("ignored"):
            self.assertEqual(torch.compile(f, backend=counter)(ones), ones * 4)
        self.assertEqual(counter.frame_count, 2)
    """,
        tmp_path,
    )
