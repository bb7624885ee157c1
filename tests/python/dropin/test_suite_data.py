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
