"""Tests as PyTorch's users write them: numbers and sizes that data gives, and the flags for them."""

from suite import passes


def test_numbers_and_sizes_that_data_gives(tmp_path):
    passes(
        """
    numbers = [(torch.arange(4.0), torch.tensor(n)) for n in (5, 2, 0, 1, 7)]
    masks = [(torch.arange(4.0), torch.tensor(mask)) for mask in ([1, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0], [1] * 4)]

    def by_number(x, t):
        return x.sin() * t.item() + 1

    def by_mask(x, mask):
        return (x + 1)[mask > 0] * 2, (x * mask).nonzero() + 1

    def test_both_break_without_flags(self):
        counts = counted(Tests.by_number, *self.numbers[:1]) + counted(Tests.by_mask, *self.masks[:1])
        self.assertGreater(min(counts), 1)

    def test_scalar_outputs(self):
        with config.patch(capture_scalar_outputs=True):
            self.assertEqual(counted(Tests.by_number, *self.numbers), [1] * 5)
            self.assertGreater(counted(Tests.by_mask, *self.masks[:1])[0], 1)

    def test_dynamic_output_shapes(self):
        with config.patch(capture_dynamic_output_shape_ops=True):
            self.assertEqual(counted(Tests.by_mask, *self.masks), [1] * 4)
            self.assertGreater(counted(Tests.by_number, *self.numbers[:1])[0], 1)

    def test_whole_graphs_have_both(self):
        self.assertEqual(counted(Tests.by_number, *self.numbers, fullgraph=True), [1] * 5)
        self.assertEqual(counted(Tests.by_mask, *self.masks, fullgraph=True), [1] * 4)

    def test_the_flag_at_the_time_of_a_call(self):
        counter = CompileCounter()
        compiled = torch.compile(Tests.by_number, backend=counter)
        compiled(*self.numbers[0])
        before = counter.frame_count
        self.assertGreater(before, 1)
        torch._dynamo.reset()
        with config.patch(capture_scalar_outputs=True):
            for arguments in self.numbers:
                self.assertEqual(compiled(*arguments), Tests.by_number(*arguments))
        self.assertEqual(counter.frame_count, before + 1)

    def test_a_branch_on_a_number_breaks(self):
        def f(x, t):
            n = t.item()
            return x * n if n > 2 else x - n
        with config.patch(capture_scalar_outputs=True):
            compiled = torch.compile(f, backend="eager")
            for arguments in self.numbers:
                self.assertEqual(compiled(*arguments), f(*arguments))
        with self.assertRaises(Unsupported):
            torch.compile(f, backend="eager", fullgraph=True)(*self.numbers[0])

    def test_numbers_and_sizes_live_across_breaks(self):
        def f(x, t):
            n, part = t.item(), x[x > t]
            y = x * n + part.sum()
            torch._dynamo.graph_break()
            return y + n, part.shape[0], [n * 2, part * n]
        with config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
            for backend in ("eager", "aot_eager", "inductor"):
                compiled = torch.compile(f, backend=backend)
                for arguments in self.numbers:
                    self.assertEqual(compiled(*arguments), f(*arguments))

    def test_checks(self):
        def f(x, t):
            n = t.item()
            torch._check(n >= 0)
            torch._check(n <= x.shape[0])
            return x[:n] * 2
        with config.patch(capture_scalar_outputs=True):
            self.assertEqual(counted(f, *[row for row in self.numbers if row[1] <= 4]), [1] * 3)
            with self.assertRaises(RuntimeError):
                torch.compile(f, backend="eager")(torch.ones(2), torch.tensor(3))
    """,
        tmp_path,
    )


def test_floats_that_data_gives(tmp_path):
    passes(
        """
    import math

    functions = (
        int, abs, round, math.floor, math.ceil, math.trunc, math.sqrt, math.fabs, lambda v: v**2, lambda v: v**3,
        lambda v: int(v) + 1, lambda v: -v, lambda v: float(v), torch.sym_int,
        torch.sym_float,
    )

    def both(self, function, *tensors, backends=("eager", "aot_eager", "inductor")):
        for backend in backends:
            compiled = torch.compile(function, backend=backend, fullgraph=True)
            for tensor in tensors:
                found, expected = compiled(tensor), function(tensor)
                self.assertEqual(found, expected)
                self.assertEqual([type(one) for one in found], [type(one) for one in expected])
            torch._dynamo.reset()

    def test_functions_of_one(self):
        values = [torch.tensor(v, dtype=torch.float64) for v in (0.25, 2.5, 3.5, 7.0)]
        for function in self.functions:
            self.both(lambda x: (function(x.item()), x * function(x.item())), *values)

    def test_ints_of_tensors(self):
        self.both(lambda x: (int(x), x + int(x * 2)), *[torch.tensor(v) for v in (1.2, 2.7, -3.9)])

    def test_comparisons(self):
        values = [torch.tensor(v) for v in (1.0, 2.0, 3.0)]
        self.both(lambda x: (x.item() > 1.5, x.item() <= 2, x.item() == 3.0, 2 != x.item()), *values)

    def test_where_python_raises(self):
        import math

        def root(x):
            return x * math.sqrt(x.item())

        def whole(x):
            return x * int(x.item())

        for function, wrong in ((root, -1.0), (whole, math.nan), (whole, math.inf)):
            for backend in ("eager", "aot_eager", "inductor"):
                compiled = torch.compile(function, backend=backend, fullgraph=True)
                self.assertEqual(compiled(torch.tensor(4.0)), function(torch.tensor(4.0)))
                with self.assertRaises((ValueError, OverflowError)):
                    compiled(torch.tensor(wrong))
                torch._dynamo.reset()

    def test_a_branch_is_still_none(self):
        with self.assertRaises(Unsupported):
            torch.compile(lambda x: x + 1 if x.item() > 0.5 else x, backend="eager", fullgraph=True)(torch.tensor(1.0))
    """,
        tmp_path,
    )
