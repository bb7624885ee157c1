"""Arrays of numpy that are written to, and what numpy itself gives: dtypes, dimensions, scalars."""

from suite import passes

COMPARE = """
    def as_numpy(self, f, *makers, whole=True):
        ours, theirs = ([maker() for maker in makers] for _ in range(2))
        compiled = torch.compile(f, backend="eager", fullgraph=whole)
        for _ in range(2):
            self.same(compiled(*ours), f(*theirs))
            self.same(ours, theirs)

    def same(self, ours, theirs):
        self.assertIs(type(ours), type(theirs))
        if isinstance(theirs, (tuple, list)):
            self.assertEqual(len(ours), len(theirs))
            for pair in zip(ours, theirs):
                self.same(*pair)
        elif isinstance(theirs, (np.ndarray, np.generic)):
            self.assertEqual(str(ours.dtype), str(theirs.dtype))
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        else:
            self.assertEqual(ours, theirs)
"""


def test_writes(tmp_path):
    passes(
        COMPARE
        + """
    def test_items_views_and_operators(self):
        def items(x):
            x[0] = 9
            x += 1
            y = x[1:]
            y[0] = 5
            y *= 2
            x.T[2] = 8
            x.reshape(-1)[3] = 3
            return y.sum(), x
        self.as_numpy(items, lambda: np.ones(4))
        def filled(x):
            x.fill(3)
            return x + 1
        self.as_numpy(filled, lambda: np.ones(4))

    def test_results_that_are_given(self):
        def f(x, out):
            np.add(x, 1, out=out)
            np.multiply(out, 2, out)
            return np.subtract(out, x, out=(x,))
        self.as_numpy(f, lambda: np.ones(3), lambda: np.zeros(3))

    def test_several(self):
        def f(x, y):
            x += y
            y += x
            return x, y
        self.as_numpy(f, lambda: np.ones(3), lambda: np.ones(3))

    def test_arrays_that_share_memory(self):
        def f(x, y):
            x += 1
            return x + y
        compiled = torch.compile(f, backend="eager")
        for overlaps in (True, False, True):
            ours, theirs = np.arange(4.0), np.arange(4.0)
            for held, function in ((ours, compiled), (theirs, f)):
                other = held[1:] if overlaps else held[1:].copy()
                result = function(held[:3], other)
                if function is f:
                    np.testing.assert_array_equal(kept, result)
                kept = result
            np.testing.assert_array_equal(ours, theirs)
        same, also = np.zeros(3), np.zeros(3)
        np.testing.assert_array_equal(torch.compile(f, backend="eager")(same, same), f(also, also))

    def test_arrays_and_tensors_that_share_memory(self):
        weight = torch.zeros(3)
        def f(x):
            x += 1
            return torch.from_numpy(x) + weight
        compiled = torch.compile(f, backend="eager")
        for held in (np.zeros(3), weight.numpy(), np.zeros(3)):
            before = torch.from_numpy(held.copy())
            wanted = (before + 1) + (before + 1 if held.base is not None else weight)
            self.assertEqual(compiled(held), wanted)

    def test_globals(self):
        held = np.zeros(3)
        def f(x):
            held[0] = 5
            return x + held
        torch.compile(f, backend="eager", fullgraph=True)(np.ones(3))
        self.assertEqual(held[0], 5)

    def test_over_a_break(self):
        counter = CompileCounter()
        def f(x):
            y = np.sin(x)
            torch._dynamo.graph_break()
            y += 1
            x += y
            return np.cos(y)
        ours, theirs = np.ones(3), np.ones(3)
        np.testing.assert_allclose(torch.compile(f, backend=counter)(ours), f(theirs))
        np.testing.assert_allclose(ours, theirs)
        self.assertEqual(counter.frame_count, 2)
    """,
        tmp_path,
    )


def test_kinds(tmp_path):
    passes(
        COMPARE
        + """
    def test_whole_numbers(self):
        def f(x, y):
            return (x / 2, x // 2, x % 2, x ** 2, x + 1.5, 2 / x, np.float32(2) * y, y * 2, x << 1,
                    np.hypot(x, x), np.arctan2(x, 1), np.sqrt(x), np.mean(x), x.mean(), np.std(x), x.astype("int8") / 2)
        self.as_numpy(f, lambda: np.arange(1, 4), lambda: np.arange(3).astype(np.float32))

    def test_what_is_made_of_nothing(self):
        def f(x):
            return (np.identity(2), np.tri(2), np.logspace(0, 1, 3), np.eye(2), np.zeros(2),
                    np.arange(3), np.linspace(0, 1, 3), np.full(2, 3), np.array([1, 2.5]), x + np.ones(3))
        self.as_numpy(f, lambda: np.ones(3))

    def test_what_numpy_does_otherwise_ends_the_graph(self):
        for f in (np.median, np.square, np.rint, np.trunc, np.reciprocal, np.fft.fft, np.cov, np.logaddexp.reduce,
                  lambda x: np.percentile(x, 50), lambda x: np.array_equal(x, x), lambda x: np.corrcoef(x, x),
                  lambda x: np.allclose(x, x), lambda x: np.geomspace(1, 8, 4)):
            for dtype in ("int64", "float32", "float64"):
                self.as_numpy(lambda x: (x + 1, f(x)), lambda: np.array([1, 2, 4]).astype(dtype), whole=False)

    def test_garbage_of_numpy_holds_nothing(self):
        self.as_numpy(lambda x: np.where(x > 0, x, -x), lambda: np.array([1.0, -2.0]))
    """,
        tmp_path,
    )
