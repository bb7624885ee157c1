"""Tests as PyTorch's users write them: guards that a program leaves out, by what it is told of each."""

from suite import passes


def test_filters(tmp_path):
    passes(
        """
    scale = 3

    def filtered(self, function, keep, *calls):
        counter = CompileCounter()
        compiled = torch.compile(function, backend=counter, options={"guard_filter_fn": keep})
        return [compiled(*arguments) for arguments in calls], counter.frame_count

    def test_what_a_filter_is_told(self):
        told = []
        def keep(guards):
            told.extend(guards)
            return [True] * len(guards)
        for backend in ("eager", "inductor"):
            compiled = torch.compile(lambda x, n: x + n, backend=backend, options={"guard_filter_fn": keep})
            self.assertEqual(compiled(ones, 3), ones + 3)
        tensor = next(one for one in told if one.name == "L['x']" and one.guard_type == "TENSOR_MATCH")
        self.assertIs(tensor.value, ones)
        self.assertTrue(tensor.has_value)
        self.assertFalse(tensor.is_global)
        self.assertTrue(any("EQUALS_MATCH" in one.derived_guard_types for one in told if one.name == "L['n']"))

    def test_all_are_kept_or_left_out(self):
        def f(x, n):
            return x + n
        results, frames = self.filtered(f, torch.compiler.skip_all_guards_unsafe, (ones, 3), (ones, 4))
        self.assertEqual((results, frames), ([ones + 3, ones + 3], 1))
        results, frames = self.filtered(f, lambda guards: [True] * len(guards), (ones, 3), (ones, 4))
        self.assertEqual((results, frames), ([ones + 3, ones + 4], 2))

    def test_globals_and_numbers(self):
        global amount
        amount = 3
        def f(x):
            return x + amount
        counter = CompileCounter()
        skips = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
        compiled = torch.compile(f, backend=counter, options=skips)
        compiled(ones)
        amount = 5
        self.assertEqual((compiled(ones), counter.frame_count), (ones + 3, 1))
        no_numbers = lambda guards: [one.guard_type != "CONSTANT_MATCH" for one in guards]
        results, frames = self.filtered(lambda x, n: x * n, no_numbers, (ones, 3), (ones, 4), (ones.double(), 4))
        self.assertEqual((results, frames), ([ones * 3, ones * 3, ones.double() * 4], 2))

    def test_modules(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale, self.inner = 3, torch.nn.Linear(3, 3)
            def forward(self, x):
                return self.inner(x) * self.scale
        for name in ("keep_tensor_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe"):
            model, counter = Model(), CompileCounter()
            options = {"guard_filter_fn": getattr(torch.compiler, name)}
            compiled = torch.compile(model, backend=counter, options=options)
            expected = compiled(ones)
            model.scale = 5
            self.assertEqual((compiled(ones), counter.frame_count), (expected, 1))

    def test_a_filter_that_counts_wrong(self):
        with self.assertRaises(ValueError):
            self.filtered(lambda x: x + 1, lambda guards: [], (ones,))
    """,
        tmp_path,
    )


def test_what_is_compiled_of_a_function(tmp_path):
    passes(
        """
    def test_entries(self):
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list as entries
        def f(x, n):
            x = x.sin()
            torch._dynamo.graph_break()
            return x + n
        self.assertEqual(entries(f), [])
        compiled = torch.compile(f, backend="eager", dynamic=False)
        for size, count in ((2, 1), (3, 2), (2, 2)):
            compiled(torch.ones(size), 1)
            self.assertEqual(len(entries(f)), count)
            self.assertEqual(len(entries(f.__code__)), count)
        self.assertIs(entries(f)[0].code, f.__code__)
        self.assertIn("Tensor x", str(entries(f)[0].guard_manager))
        torch._dynamo.reset()
        self.assertEqual(entries(f), [])

    def test_they_go_with_the_function(self):
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list as entries
        def made():
            layer = torch.nn.Linear(3, 3)
            def f(x):
                return layer(x)
            torch.compile(f, backend="eager")(ones)
            return f.__code__
        self.assertEqual(entries(made()), [])
    """,
        tmp_path,
    )
