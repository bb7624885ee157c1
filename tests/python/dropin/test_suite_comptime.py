"""Tests as PyTorch's users write them: functions that are called while code is captured, to look at what is known."""

from suite import passes


def test_contexts(tmp_path):
    passes(
        """
    from torch._dynamo.comptime import comptime

    def test_what_is_known(self):
        seen, comptime = [], self.comptime
        def f(x):
            y, n = x * 2, 3
            @comptime
            def _(ctx):
                x, n = ctx.get_local("x"), ctx.get_local("n")
                seen.append((n.as_python_constant(), n.is_python_constant(), ctx.get_local("y").size(0), x.is_proxy()))
            return y + n
        self.assertEqual(counted(f, (ones,), (ones,), fullgraph=True), [1, 1])
        self.assertEqual(seen, [(3, True, 3, True)])

    def test_breaks(self):
        comptime = self.comptime
        def f(x):
            x = x * 2
            comptime(lambda ctx: ctx.graph_break())
            return x + 3
        def g(x):
            x = x * 2
            comptime.graph_break()
            return x + 3
        for function in (f, g):
            self.assertEqual(counted(function, (ones,)), [2])

    def test_open_sizes(self):
        comptime = self.comptime
        def asserts(x):
            comptime.assert_static(x.shape[0])
            return x + 1
        def settles(x):
            comptime.force_static(x.shape[0])
            comptime.assert_static(x.shape[0])
            return x + 1
        calls = [(torch.ones(3),), (torch.ones(4),)]
        self.assertEqual(counted(asserts, *calls, fullgraph=True, dynamic=False), [1, 2])
        self.assertEqual(counted(settles, *calls, fullgraph=True, dynamic=True), [1, 2])
        with self.assertRaises(AssertionError):
            torch.compile(asserts, backend="eager", fullgraph=True, dynamic=True)(ones)

    def test_prints(self):
        import io
        comptime, out = self.comptime, io.StringIO()
        def f(x):
            y = x.sin()
            comptime.print(x)
            comptime(lambda ctx: ctx.print_locals())
            comptime.print_graph()
            comptime.print_bt()
            comptime.print_guards()
            comptime.print_disas()
            comptime.print_value_stack()
            return comptime.print_value_stack_and_return(y) + 1
        with contextlib.redirect_stdout(out):
            self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), ones.sin() + 1)
        for text in ("a tensor of torch.float32, [3]", "y = ", "sin"):
            self.assertIn(text, out.getvalue())
        self.assertEqual(f(ones), ones.sin() + 1)
    """,
        tmp_path,
    )
