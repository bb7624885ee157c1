"""Tests as PyTorch's users write them: what is done with numbers that data gives, and Python's random numbers."""

from suite import passes


def test_numbers_that_data_gives(tmp_path):
    passes(
        """
    def serves(self, f, *calls):
        for backend in ("eager", "aot_eager", "inductor"):
            torch._dynamo.reset()
            counter = CompileCounterWithBackend(backend) if backend == "eager" else backend
            with config.patch(capture_scalar_outputs=True):
                compiled = torch.compile(f, backend=counter, fullgraph=True)
                for arguments in calls:
                    self.assertEqual(compiled(*arguments), f(*arguments))
            if backend == "eager":
                self.assertEqual(counter.frame_count, 1)

    def test_places(self):
        x = torch.randn(3, 4)
        places = [(x, torch.tensor(i)) for i in (0, 2, 1)]
        self.serves(lambda x, i: x[i.item()], *places)
        self.serves(lambda x, i: (x[i.item(), 1], x[:, i.item()], x[1:, i.item()]), *places)
        compiled = torch.compile(lambda x, i: x[i.item()], backend="aot_eager", fullgraph=True)
        self.assertEqual(compiled(*places[0]), x[0])
        self.assertEqual(compiled(x, torch.tensor(-1)), x[-1])
        self.assertRaises(IndexError, compiled, x, torch.tensor(7))

    def test_tensors_of_such_numbers(self):
        def f(x):
            a, b = x.tolist()
            return torch.tensor([a, b]), torch.tensor(a), torch.tensor([[a, 2], [b, a]], dtype=torch.float64), a + b
        self.serves(f, (torch.tensor([2, 3]),), (torch.tensor([5, 7]),))
        self.serves(lambda x: torch.tensor([x.item(), 1.5]), (torch.tensor(2.5),), (torch.tensor(4.0),))

    def test_bounds(self):
        def f(x):
            n, m = x.tolist()
            torch._constrain_as_size(n, min=2, max=10)
            torch.sym_constrain_range_for_size(m, min=2)
            torch.sym_constrain_range(m, max=20)
            return torch.ones(n, m)
        self.serves(f, (torch.tensor([2, 3]),), (torch.tensor([9, 7]),))
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(torch.tensor([2, 3])), torch.ones(2, 3))
        self.assertRaises(RuntimeError, compiled, torch.tensor([30, 3]))
    """,
        tmp_path,
    )


def test_random_numbers_of_python(tmp_path):
    passes(
        """
    import random

    def test_one_graph_draws_anew_at_each_call(self):
        random = self.random
        def f(x):
            return x * random.random() + random.randint(1, 9), x + random.uniform(2, 3) - random.randrange(5)
        for backend in ("eager", "aot_eager", "inductor"):
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            random.seed(1)
            found, after = [compiled(ones) for _ in range(3)], random.getstate()
            random.seed(1)
            self.assertEqual(found, [f(ones) for _ in range(3)])
            self.assertEqual(after, random.getstate())

    def test_one_graph_is_compiled(self):
        random = self.random
        counter = CompileCounter()
        compiled = torch.compile(lambda x: x + random.random(), backend=counter, fullgraph=True)
        for _ in range(3):
            compiled(ones)
        self.assertEqual(counter.frame_count, 1)

    def test_a_break_elsewhere(self):
        random = self.random
        def f(x):
            x = x + random.random()
            return x - 1 if random.random() > 0.5 else x + random.randint(1, 9)
        compiled = torch.compile(f, backend="eager")
        random.seed(1)
        found = [compiled(ones) for _ in range(5)]
        random.seed(1)
        self.assertEqual(found, [f(ones) for _ in range(5)])

    def test_generators_made_inside(self):
        random = self.random
        def f(x):
            made = random.Random(5)
            state = made.getstate()
            first = made.random()
            made.setstate(state)
            return x + first - made.random() + made.randint(1, 9) + made.choice([1, 2, 3])
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual([compiled(ones), compiled(ones)], [f(ones), f(ones)])
        unseeded = torch.compile(lambda x: x + random.Random().random(), backend="eager")
        self.assertNotEqual(unseeded(ones), unseeded(ones))
    """,
        tmp_path,
    )
