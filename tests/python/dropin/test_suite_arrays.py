"""Tests as PyTorch's users write them: arrays of numpy in compiled functions are tensors of one graph."""

from suite import passes


def test_arrays_in_and_out(tmp_path):
    passes(
        """
    import numpy as np

    def one_graph(self, f, *arguments, ops=None, **options):
        counter = CompileCounterWithBackend(options.pop("backend", "eager"))
        compiled = torch.compile(f, backend=counter, fullgraph=True, **options)
        for _ in range(2):
            self.assertEqual(compiled(*arguments), f(*arguments), exact_dtype=True)
        self.assertEqual(counter.frame_count, 1)
        if ops is not None:
            self.assertEqual(counter.op_count, ops)

    def test_functions(self):
        np, a = self.np, self.np.arange(6.0).reshape(2, 3) + 1
        self.one_graph(lambda a: np.sin(a) + 1, a, ops=2)
        self.one_graph(lambda a: (a.sum(axis=0), a.mean(axis=1, keepdims=True), np.max(a, 1)), a)
        self.one_graph(lambda a: (a.reshape(3, 2), a.T, a.ravel(), a[0], a[:, 1], a[1:]), a)
        self.one_graph(lambda a: (a @ a.T, np.linalg.norm(a), np.concatenate([a, a]), np.where(a > 2, a, 0)), a)
        self.one_graph(lambda a: (a == 2, (a > 1) & (a < 3), -a, a ** 2, 1 / a, a // 2), a)
        self.one_graph(lambda a: np.ones(a.shape) * a.size + a.ndim + len(a), a)
        self.one_graph(lambda d: d["k"][0] * 2, {"k": [a]})

    def test_classes(self):
        np, a = self.np, self.np.ones(3)
        kinds = []
        def f(a):
            kinds.append((isinstance(a, np.ndarray), type(a) is np.ndarray))
            return a + 1, np.sum(a)
        array, number = torch.compile(f, backend="eager", fullgraph=True)(a)
        self.assertIs(type(array), np.ndarray)
        self.assertIs(type(number), np.float64)
        self.assertEqual(kinds, [(True, True)])

    def test_identity_and_memory(self):
        np, a = self.np, self.np.ones(3)
        same = torch.compile(lambda a: (a, a[1:], a + 1), backend="eager", fullgraph=True)
        itself, part, _ = same(a)
        self.assertIs(itself, a)
        part[0] = 5
        self.assertEqual(a, np.array([1.0, 5.0, 1.0]))
        self.assertEqual(same(a)[2], np.array([2.0, 6.0, 2.0]))

    def test_to_and_from_tensors(self):
        np = self.np
        for backend in ("eager", "aot_eager", "inductor"):
            self.one_graph(lambda x: torch.from_numpy(np.exp(x.numpy())) * 2, ones, backend=backend)
            self.one_graph(lambda a: torch.as_tensor(a, dtype=torch.float32).sum(), np.ones(4), backend=backend)
            self.one_graph(lambda a: np.sin(a) * 2, np.ones(4), backend=backend)

    def test_arrays_of_tensors(self):
        np = self.np
        def f(x):
            copied = np.array(x)
            copied[0] = 7
            return copied, np.asarray(x) + 1, np.asarray(x, dtype=np.float64)
        self.one_graph(f, ones)
        self.assertEqual(ones[0], 1)

    def test_made_inside_and_written_to(self):
        np = self.np
        def f(a):
            b = np.zeros(3)
            b[0] = 5
            b[1:] = a[:2]
            b += 1
            return b
        self.one_graph(f, np.arange(3.0))
    """,
        tmp_path,
    )


def test_what_arrays_guard(tmp_path):
    passes(
        """
    import numpy as np

    def test_values_are_read_anew_and_kinds_are_guarded(self):
        np, counter = self.np, CompileCounter()
        f = torch.compile(lambda a: a * 2, backend=counter)
        a = np.ones(3)
        self.assertEqual(f(a), a * 2)
        a[0] = 7
        self.assertEqual(f(a), a * 2)
        self.assertEqual(counter.frame_count, 1)
        for other in (np.ones(3, dtype=np.float32), np.ones((2, 3)), np.ones((4, 3))[:, 0], np.ones(3)[::-1]):
            self.assertEqual(f(other), other * 2)
            self.assertEqual(f(other).dtype, other.dtype)

    def test_what_breaks_is_right(self):
        np = self.np
        def write(a):
            b = a + 1
            a[0] = 9
            return b, a + 1
        def ask(a):
            return (a + 1).tolist() if (a > 0).all() else a
        def broken(a):
            b = a + 1
            torch._dynamo.graph_break()
            return b * 2
        for f in (write, ask, broken):
            one, two = np.ones(3), np.ones(3)
            self.assertEqual(torch.compile(f, backend="eager")(one), f(two))
            self.assertEqual(one, two)
        text = np.array(["a", "b"])
        self.assertEqual(torch.compile(lambda a, x: x + len(a), backend="eager")(text, ones), ones + 2)
        fixed = np.ones(3)
        fixed.setflags(write=False)
        self.assertEqual(torch.compile(lambda a: a + 1, backend="eager")(fixed), fixed + 1)

    def test_a_tensor_over_the_same_memory(self):
        np = self.np
        def f(a, x):
            x.add_(1)
            return a * 2
        for backend in ("eager", "aot_eager"):
            a, b = np.ones(3), np.ones(3)
            wanted = f(b, torch.from_numpy(b))
            self.assertEqual(torch.compile(f, backend=backend)(a, torch.from_numpy(a)), wanted)
    """,
        tmp_path,
    )


def test_arrays_that_are_no_arguments(tmp_path):
    passes(
        """
    import numpy as np

    def test_globals_closures_and_attributes(self):
        np = self.np
        closed = np.arange(3.0)
        class Held:
            pass
        held = Held()
        held.array = np.full(3, 2.0)
        def f(x):
            return x + closed * held.array
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        x = np.arange(3.0)
        self.assertEqual(compiled(x), f(x))
        closed[0] = 7
        self.assertEqual(compiled(x), f(x))
        held.array = np.full(3, 5.0)
        self.assertEqual(compiled(x), f(x))
        self.assertEqual(counter.frame_count, 1)
        self.assertIs(type(compiled(x)), np.ndarray)
    """,
        tmp_path,
    )


def test_numbers_that_decide(tmp_path):
    passes(
        """
    import numpy as np

    def test_comparisons(self):
        np = self.np
        def f(x, n):
            return x + 1 if n > 2 and n != 7 and 2 < n else x - 1
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for n in (np.float32(3), np.float32(1), np.int64(3), np.int64(7), np.float64(2.5), 3, np.float32(3)):
            self.assertEqual(compiled(ones, n), f(ones, n))

    def test_inside_containers(self):
        np = self.np
        def f(x, numbers):
            return x + 1 if numbers == [2, 3] else x - 1
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for numbers in ([np.int64(2), 3], [np.int64(4), 3], [2, 3], [np.float32(2), np.int8(3)], [np.int64(2), 4]):
            self.assertEqual(compiled(ones, numbers), f(ones, numbers))

    def test_what_a_dtype_tells(self):
        np = self.np
        single = np.dtype("float32")
        held = {"dtype": single}
        def f(x):
            dtype = held["dtype"]
            return x * dtype.itemsize if dtype.kind == "f" else x + dtype.num, dtype.name, dtype.str
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for dtype in (single, np.dtype("int64"), np.dtype("float64"), single):
            held["dtype"] = dtype
            self.assertEqual(compiled(ones), f(ones))
    """,
        tmp_path,
    )


def test_places_and_lists(tmp_path):
    passes(
        """
    def test_arrays_as_places(self):
        rows = np.array([True, False])
        def function(x):
            y = x.clone()
            y[:, np.array([0, 2])] = 7
            y[np.array([0])] += 1
            return x[:, np.array([0, 2])], x[np.array([1, 0])], x[rows], y
        x = torch.arange(6.0).reshape(2, 3)
        compiled = torch.compile(function, backend="eager")
        self.assertEqual(compiled(x), function(x))

    def test_arrays_made_inside_as_places(self):
        def function(x):
            return x[:, np.array([0, 2])] + x[np.array([1, 0])][:, :2]
        self.assertEqual(counted(function, (torch.arange(6.0).reshape(2, 3),), fullgraph=True), [1])

    def test_numbers_of_lists(self):
        def function(x, sizes):
            return x.reshape(int(np.prod(x.shape))) + int(np.max([1, 2])) + float(np.mean(sizes)) + np.sum((1, 2))
        x = torch.ones(2, 3)
        self.assertEqual(counted(function, (x, [1, 2]), (x, [1, 4]), fullgraph=True), [1, 2])
    """,
        tmp_path,
    )


def test_arrays_that_must_not_be_written_to(tmp_path):
    passes(
        """
    def read_only(self, values):
        array = np.array(values, dtype=np.float64)
        array.flags.writeable = False
        return array

    def test_are_read(self):
        counter = CompileCounter()
        compiled = torch.compile(lambda a: a * 2 + 1, backend=counter, fullgraph=True)
        for values in ([1, 2], [3, 4]):
            np.testing.assert_array_equal(compiled(self.read_only(values)), np.array(values) * 2.0 + 1)
        self.assertEqual(counter.frame_count, 1)
        np.testing.assert_array_equal(compiled(np.ones(2)), np.ones(2) * 3)

    def test_are_given_back_as_they_are(self):
        array = self.read_only([1, 2])
        given, _ = torch.compile(lambda a: (a, a + 1), backend="eager")(array)
        self.assertIs(given, array)
        self.assertFalse(given.flags.writeable)

    def test_are_not_written_to(self):
        def f(a):
            a[0] = 5
            return a
        array = self.read_only([1, 2])
        for options in ({}, {"fullgraph": True}):
            with self.assertRaises((ValueError, Unsupported)):
                torch.compile(f, backend="eager", **options)(array)
        np.testing.assert_array_equal(array, [1, 2])

    def test_code_compiled_for_others_does_not_write_to_them(self):
        def f(a):
            a += 1
            return a * 2
        for backend in ("eager", "aot_eager"):
            torch._dynamo.reset()
            compiled = torch.compile(f, backend=backend)
            np.testing.assert_array_equal(compiled(np.ones(2)), [4, 4])
            array = self.read_only([1.0, 1.0])
            with self.assertRaises(ValueError):
                compiled(array)
            np.testing.assert_array_equal(array, [1, 1])
            np.testing.assert_array_equal(compiled(np.ones(2)), [4, 4])
    """,
        tmp_path,
    )


def test_more_of_numpys_functions(tmp_path):
    passes(
        """
    def test_they_are_nodes(self):
        values = np.array([0.25, -0.5, 0.75])
        names = ("angle", "iscomplex", "isreal", "isneginf", "isposinf", "i0", "gradient", "correlate", "ldexp")
        others = {"correlate": (values,), "ldexp": (2,)}
        for name in names:
            function = getattr(np, name)
            given = (values, *others.get(name, ()))
            found = torch.compile(lambda *a: function(*a), backend="eager")(*given)
            np.testing.assert_allclose(found, function(*given))
            torch._dynamo.reset()

    def test_methods(self):
        def f(a):
            b = a.copy()
            b.sort()
            return b, a.view() + 1, a.nonzero()
        array = np.array([3.0, 0.0, 2.0])
        found = torch.compile(f, backend="eager", fullgraph=True)(array)
        for one, other in zip(found, f(array)):
            np.testing.assert_array_equal(one, other)
    """,
        tmp_path,
    )
