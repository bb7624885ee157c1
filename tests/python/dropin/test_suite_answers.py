"""Tests as PyTorch's users write them: which guard failed, extremes of tensors, exceptions, numbers of numpy."""

from suite import passes


def test_which_guard_failed(tmp_path):
    passes(
        """
    def failures(self, function, *calls, **options):
        told = []
        compiled = torch._dynamo.optimize("eager", guard_fail_fn=told.append, **options)(function)
        for arguments in calls:
            self.assertEqual(compiled(*arguments), function(*arguments))
        for one in told:
            self.assertIs(one.orig_code, function.__code__)
        return [one.reason for one in told]

    def test_sizes(self):
        (told,) = self.failures(lambda x: x + 1, (torch.ones(2, 3),), (torch.ones(3, 3),), dynamic=False)
        self.assertIn("tensor 'x' size mismatch at index 0. expected 2, actual 3", told)

    def test_other_facts_of_tensors(self):
        told = self.failures(lambda x: x + 1, (ones,), (ones.double(),), (torch.ones(3, requires_grad=True),))
        self.assertIn("tensor 'x' dtype mismatch. expected Float, actual Double", told[0])
        self.assertEqual(len(told), 2)

    def test_containers_and_numbers(self):
        self.assertIn("len(x) == 1", self.failures(lambda x: x[0] + len(x), ([ones],), ([ones, ones],))[0])
        self.assertIn("k == 1", self.failures(lambda x, k: x * 2 if k == 1 else x, (ones, 1), (ones, 2))[0])

    def test_tensors_that_are_one(self):
        def f(a, b):
            return a + b
        self.assertIn("a is b", self.failures(f, (ones, ones), (ones, ones + 1))[0])

    def test_nobody_is_told_where_all_guards_hold(self):
        self.assertEqual(self.failures(lambda x: x + 1, (ones,), (ones * 2,)), [])
    """,
        tmp_path,
    )


def test_numbers_under_dynamic_false(tmp_path):
    passes(
        """
    def test_each_is_compiled_for(self):
        def f(x, n):
            return x + n
        self.assertEqual(counted(f, (ones, 1), (ones, 2), (ones, 3), dynamic=False), [1, 2, 3])
        self.assertEqual(counted(f, (ones, 1.5), (ones, 2.5), (ones, 3.5), dynamic=False), [1, 2, 3])
        self.assertEqual(counted(f, (ones, 1), (ones, 2), (ones, 3)), [1, 2, 2])

    def test_the_limit_under_fullgraph(self):
        with config.patch(recompile_limit=2):
            compiled = torch.compile(lambda x, n: x + n, backend="eager", dynamic=False, fullgraph=True)
            with self.assertRaises(torch._dynamo.exc.FailOnRecompileLimitHit):
                for n in range(4):
                    compiled(ones, n)
    """,
        tmp_path,
    )


def test_extremes_of_tensors(tmp_path):
    passes(
        """
    def test_one_graph(self):
        def f(a, b):
            total = a + b
            a, b = a.sum(), b.sum()
            a, b = min(max(a, 0), 1), max(0, min(1, b))
            return max(a, b) - min(a, b) + total
        calls = [(ones, -ones), (-ones, ones), (ones / 9, ones)]
        self.assertEqual(counted(f, *calls, fullgraph=True), [1, 1, 1])

    def test_what_raises_in_python_is_no_graph(self):
        with self.assertRaises(Unsupported):
            torch.compile(lambda a, b: max(a, b), backend="eager", fullgraph=True)(ones, ones)

    def test_a_graph_break_elsewhere(self):
        def f(a, b):
            return max(a.sum(), b.sum()) * 2
        self.assertEqual(torch.compile(f, backend="eager")(ones, -ones), f(ones, -ones))
    """,
        tmp_path,
    )


def test_exceptions_at_hand(tmp_path):
    passes(
        """
    def test_raised_inside(self):
        import sys
        def f(x):
            try:
                raise KeyError("a")
            except KeyError as error:
                kind, value, _ = sys.exc_info()
            try:
                1 / 0
            except ZeroDivisionError:
                other = sys.exc_info()[0]
            return x + (kind is KeyError) + (other is ZeroDivisionError)
        self.assertEqual(counted(f, (ones,), (ones * 2,), fullgraph=True), [1, 1])

    def test_handled_by_the_caller(self):
        import sys
        def f(x):
            return x + (sys.exc_info()[0] is KeyError)
        compiled = torch.compile(f, backend="eager")
        self.assertEqual(compiled(ones), ones)
        try:
            raise KeyError
        except KeyError:
            self.assertEqual(compiled(ones), ones + 1)
        try:
            raise ValueError
        except ValueError:
            self.assertEqual(compiled(ones), ones)
        self.assertEqual(compiled(ones), ones)
    """,
        tmp_path,
    )


def test_views_of_dicts_from_outside(tmp_path):
    passes(
        """
    def test_proxies(self):
        from types import MappingProxyType
        held = {"a": 1}
        def f(x):
            shown = MappingProxyType(held)
            return x + shown["a"] + len(shown) + sum(shown.values())
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), ones + 3)
        held["b"] = 5
        self.assertEqual(compiled(ones), ones + 9)
        held["a"] = 2
        self.assertEqual(compiled(ones), ones + 11)

    def test_members_of_enums(self):
        import enum
        class Color(enum.Enum):
            RED = 1
            BLUE = 2
        def f(x):
            return x * len(Color.__members__) + Color.__members__["BLUE"].value
        self.assertEqual(counted(f, (ones,), (ones,), fullgraph=True), [1, 1])

    def test_older_names_of_is_compiling(self):
        compiled = torch.compile(lambda x: x + torch._utils.is_compiling(), backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), ones + 1)
    """,
        tmp_path,
    )


def test_numbers_of_numpy(tmp_path):
    passes(
        """
    def test_from_outside(self):
        import numpy as np
        def f(x, n):
            return x * n
        calls = [(ones, np.float64(2.5)), (ones, np.float64(3.5)), (ones, np.int64(2)), (ones, np.float32(0.1))]
        self.assertEqual(counted(f, *calls, *calls, fullgraph=True)[-1], 4)
        self.assertEqual(counted(lambda x, n: n * x, *calls, fullgraph=True)[-1], 4)

    def test_as_places(self):
        import numpy as np
        calls = [(torch.arange(3), np.int64(1)), (torch.arange(3), np.int64(2)), (torch.arange(3), np.int32(1))]
        counted(lambda x, i: x[i] + 1, *calls, fullgraph=True)

    def test_made_inside_and_of_attributes(self):
        import numpy as np
        class Holder:
            scale = np.float32(2.5)
        holder = Holder()
        def f(x):
            return x * np.float32(1.5) + holder.scale
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), ones * 4)
        Holder.scale = np.float32(3.5)
        self.assertEqual(compiled(ones), ones * 5)
        holder.scale = np.float64(4.5)
        self.assertEqual(compiled(ones), ones * 6)

    def test_signs_of_zeros_and_values_that_equal_nothing(self):
        import numpy as np
        compiled = torch.compile(lambda x, n: x / n, backend="eager", fullgraph=True)
        for n in (np.float64(0.0), np.float64(-0.0), np.float64("nan"), np.float64(0.0)):
            self.assertEqual(compiled(ones, n), ones / n)
    """,
        tmp_path,
    )


def test_types_and_copies(tmp_path):
    passes(
        """
    def test_types_of_tensors(self):
        def f(x, y):
            half = x.type(torch.HalfTensor)
            return y.type(half.type()), x.type(torch.float64), x.type()
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones, ones), f(ones, ones))
        self.assertEqual(compiled(ones.int(), ones), f(ones.int(), ones))

    def test_copies_of_objects(self):
        import copy
        class Holder:
            def __init__(self, x):
                self.x, self.items = x, [1]
        def f(x):
            first = Holder(x)
            second, third = copy.copy(first), copy.deepcopy(Holder(3))
            second.items.append(2)
            third.items.append(5)
            return second.x + len(first.items) + third.x + len(third.items)
        self.assertEqual(counted(f, (ones,), (ones,), fullgraph=True), [1, 1])

    def test_copies_of_objects_from_outside(self):
        import copy
        class Holder:
            def __init__(self):
                self.n, self.items = 1, [1]
        holder = Holder()
        def f(x):
            twin = copy.copy(holder)
            twin.n += 1
            return x + twin.n + len(twin.items)
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), ones + 3)
        holder.n, holder.extra = 5, 1
        self.assertEqual(compiled(ones), ones + 7)
        self.assertEqual(holder.n, 5)

    def test_objects_with_slots_or_a_state_of_their_own(self):
        import copy
        class Slotted:
            __slots__ = ("n",)
        class Stated:
            def __getstate__(self):
                return {"n": 7}
        def f(x):
            slotted = Slotted()
            slotted.n = 2
            return x + copy.copy(slotted).n + copy.copy(Stated()).n
        self.assertEqual(torch.compile(f, backend="eager")(ones), f(ones))
    """,
        tmp_path,
    )


def test_sizes_that_are_open_from_the_first_call(tmp_path):
    passes(
        """
    def graphs(self, function, *sizes):
        counter = CompileCounter()
        compiled = torch.compile(function, backend=counter)
        for size in sizes:
            x = torch.arange(size)
            torch._dynamo.decorators.mark_unbacked(x, 0)
            self.assertEqual(compiled(x), function(x))
        return counter.frame_count

    def test_one_graph_for_all(self):
        self.assertEqual(self.graphs(lambda x: x * x.shape[0], 4, 5, 7), 1)

    def test_questions_are_guarded(self):
        self.assertEqual(self.graphs(lambda x: x * 2 if x.shape[0] > 4 else x + 1, 5, 6, 3, 4), 3)
    """,
        tmp_path,
    )
