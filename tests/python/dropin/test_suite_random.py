"""Tests as PyTorch's users write them: numbers of Python's random module in one graph."""

from suite import passes


def test_random_numbers(tmp_path):
    passes(
        """
    import random
    globals()["random"] = random

    def drawn(self, f, seed=5, **options):
        "What three calls give that start with that seed."
        random.seed(seed)
        return [f(ones) for _ in range(3)], random.random()

    def test_each_call_draws(self):
        def f(x):
            y = x * random.uniform(1, 2) + random.randint(1, 6)
            return y - random.randrange(10), random.random(), random.gauss(0, 1), random.randint(0, 99)
        for backend in ("eager", "aot_eager", "inductor"):
            torch._dynamo.reset()
            self.assertEqual(self.drawn(torch.compile(f, backend=backend, fullgraph=True)), self.drawn(f))
        counter = CompileCounter()
        self.assertEqual(self.drawn(torch.compile(f, backend=counter, fullgraph=True)), self.drawn(f))
        self.assertEqual(counter.frame_count, 1)

    def test_other_draws_end_the_graph(self):
        def f(x):
            items = [1, 2, 3]
            random.shuffle(items)
            return x * random.choice(items) + 1, items
        self.assertEqual(self.drawn(torch.compile(f, backend="eager")), self.drawn(f))
        with self.assertRaises(Unsupported):
            torch.compile(f, backend="eager", fullgraph=True)(ones)

    def test_generators_made_inside(self):
        def f(x):
            own, other = random.Random(3), random.Random(4)
            other.setstate(own.getstate())
            items = [1, 2, 3, 4]
            own.shuffle(items)
            return x * own.random() + own.randint(1, 9), other.uniform(0, 1), items
        self.assertEqual(self.drawn(torch.compile(f, backend="eager", fullgraph=True)), self.drawn(f))

    def test_numbers_that_change(self):
        def seeded(x, n):
            return x * random.Random(n).random()
        def seeded_again(x, n):
            own = random.Random(3)
            own.seed(n)
            return x + own.random()
        def bounded(x, n):
            return x + random.Random(3).uniform(0, n)
        for f in (seeded, seeded_again, bounded):
            for dynamic in (None, True):
                torch._dynamo.reset()
                compiled = torch.compile(f, backend="eager", fullgraph=True, dynamic=dynamic)
                for n in (30, 400, 5000, 6):
                    self.assertEqual(compiled(ones, n), f(ones, n))

    def test_generators_given_back(self):
        class Holder:
            def __init__(self):
                self.own = random.Random(7)
        def f(x):
            holder = Holder()
            holder.own.random()
            return x * holder.own.random(), holder
        for options in ({}, {"fullgraph": True}):
            result, holder = torch.compile(f, backend="eager", **options)(ones)
            wanted, kept = f(ones)
            self.assertEqual(result, wanted)
            self.assertEqual(holder.own.random(), kept.own.random())

    def test_chance_is_no_seed(self):
        def f(x):
            return x + random.Random().random()
        compiled = torch.compile(f, backend="eager")
        self.assertFalse(same(compiled(ones), compiled(ones)))
    """,
        tmp_path,
    )


def test_generators_from_outside(tmp_path):
    """One graph draws from the very generator at each call; another one in its place is compiled for."""
    passes(
        """
    import random
    globals()["random"] = random

    def test_as_an_argument(self):
        def f(x, g):
            return x * g.random() + g.uniform(0, 2) + g.randint(0, 100) - g.gauss(0, 1)
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        ours, theirs = random.Random(3), random.Random(3)
        for _ in range(3):
            self.assertEqual(compiled(ones, ours), f(ones, theirs))
        self.assertEqual(counter.frame_count, 1)
        self.assertEqual(ours.getstate(), theirs.getstate())
        other, like_it = random.Random(4), random.Random(4)
        self.assertEqual(compiled(ones, other), f(ones, like_it))
        self.assertEqual(counter.frame_count, 2)

    def test_of_a_closure_on_all_backends(self):
        generator = random.Random(5)
        def f(x):
            return x + generator.random(), generator.randrange(10)
        for backend in ("eager", "aot_eager", "inductor"):
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            generator.seed(5)
            found = [compiled(ones) for _ in range(3)]
            generator.seed(5)
            self.assertEqual(found, [f(ones) for _ in range(3)])
            torch._dynamo.reset()

    def test_a_class_of_its_own_is_none(self):
        class Fixed(random.Random):
            def random(self):
                return 0.5
        fixed = Fixed()
        self.assertEqual(torch.compile(lambda x: x * fixed.random(), backend="eager")(ones), ones * 0.5)
    """,
        tmp_path,
    )
