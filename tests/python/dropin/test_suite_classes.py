"""Tests as PyTorch's users write them: what classes, containers of own classes and the process tell of themselves."""

from suite import passes as suite_passes

ONCE = """
    def once(self, function, *arguments):
        "One graph, and what Python gives without."
        counter = CompileCounter()
        found = torch.compile(function, backend=counter, fullgraph=True)(*arguments)
        self.assertEqual(found, function(*arguments))
        self.assertEqual(counter.frame_count, 1)
"""


def passes(body, tmp_path):
    suite_passes(ONCE + body, tmp_path)


def test_classes_tell_of_themselves(tmp_path):
    passes(
        """
    def test_what_lies_in_the_class(self):
        class Base:
            limit: int = 3
            @staticmethod
            def doubled(x):
                return x * 2
        def f(x):
            inside = Base.__dict__
            return inside["doubled"].__func__(x), "limit" in inside, vars(Base)["limit"], Base.__annotations__, \\
                Base.__dict__.get("nothing")
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for limit in (3, 4):
            Base.limit = limit
            found = compiled(ones)
            same(found[0], ones * 2)
            self.assertEqual(found[1:], (True, limit, {"limit": int}, None))

    def test_classes_made_by_type(self):
        class Base:
            def doubled(self, x):
                return x * self.factor
        def f(x):
            made = type("Made", (Base,), {"factor": 3, "own": lambda self: self.factor + 1})
            return made().doubled(x), made.__name__, issubclass(made, Base), made().own()
        self.once(f, ones)
        def raises(x):
            try:
                type("Made", ())
            except TypeError as error:
                return x + 1, str(error)
        self.once(raises, ones)

    def test_attributes_as_they_lie(self):
        import inspect
        class Base:
            @property
            def twice(self):
                return 2
            kept = 3
        def f(x, one):
            found = inspect.getattr_static(Base, "twice")
            kept, own = inspect.getattr_static(one, "kept"), inspect.getattr_static(one, "own", 4)
            return x + 1, found.fget(one), kept, own, \\
                inspect.getattr_static(Base, "other", 5)
        one = Base()
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones, one), (ones + 1, 2, 3, 4, 5))
        one.kept, one.own, Base.other = 6, 7, 8
        self.assertEqual(compiled(ones, one), (ones + 1, 2, 6, 7, 8))

    def test_a_tensor_given_back(self):
        def f(x, changes):
            return x + 1 if changes else x
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        self.assertIs(compiled(ones, False), ones)
        self.assertEqual((counter.frame_count, counter.op_count), (1, 0))
        same(compiled(ones, True), ones + 1)
        self.assertEqual((counter.frame_count, counter.op_count), (2, 1))

    def test_a_number_is_not_called(self):
        def f(x, number):
            try:
                number()
            except TypeError as error:
                return x + 1, str(error)
        self.once(f, ones, 3)
    """,
        tmp_path,
    )


def test_containers_of_own_classes(tmp_path):
    passes(
        """
    def test_numbers_of_own_classes_stay_what_they_are(self):
        class Own(int):
            def named(self):
                return f"own {int(self)}"
        def f(x):
            keys = dict.fromkeys([Own(1), Own(2)])
            return x + 1, [key.named() for key in keys], [one.named() for one in sorted(keys)]
        self.once(f, ones)

    def test_dicts_of_own_classes_fill_others(self):
        class Own(dict):
            pass
        class Reversed(dict):
            def keys(self):
                return reversed(list(super().keys()))
            def __iter__(self):
                return self.keys()
        def f(x, given):
            union, filled = {"a": 0}, {}
            union |= given
            filled.update(Reversed(p=1, q=2), c=x)
            self.assertIs(filled.__ior__(Own(d=x + 1)), filled)
            return union, filled, list(filled)
        self.once(f, ones, Own(k=ones))

    def test_copies_of_own_containers(self):
        class Items(list):
            pass
        class Keys(set):
            pass
        class Pair(tuple):
            pass
        class Named(dict):
            pass
        def f(x):
            items = Items([1, [2]])
            items.note = "kept"
            copied, deep = copy.copy(items), copy.deepcopy(items)
            others = [copy.copy(one) for one in (Keys("a"), Pair((1, 2)), Named(a=[3]))]
            kinds = [type(one).__name__ for one in (copied, deep, *others)]
            return x + 1, list(copied), list(deep), deep.note, copied[1] is items[1], deep[1] is items[1], kinds, \\
                [list(one) for one in others]
        import copy
        self.once(f, ones)

    def test_places_that_objects_say(self):
        class Second:
            def __index__(self):
                return 1
        def f(x):
            items, row = [1, 2, 3], collections.deque([1, 2])
            items[Second()] = 9
            items.insert(Second(), 4)
            del items[Second()]
            row[Second()] = 5
            return items, row, x[Second()], x[Second():]
        self.once(f, ones)

    def test_a_deque_from_outside_is_written_to(self):
        def f(x, row):
            row[0] = x + 1
            del row[1]
            return repr(collections.deque([1, "a"], maxlen=3)), len(row)
        counter = CompileCounter()
        row = collections.deque([1, 2, 3])
        found = torch.compile(f, backend=counter, fullgraph=True)(ones, row)
        self.assertEqual(found, ("deque([1, 'a'], maxlen=3)", 2))
        same(row[0], ones + 1)
        self.assertEqual(row[1], 3)

    def test_what_cannot_be_hashed(self):
        def f(x):
            for one in ({}.keys(), {}.items(), collections.deque(), [], bytearray):
                if one is bytearray:
                    continue
                self.assertRaises(TypeError, hash, one)
            self.assertRaises(TypeError, [].__len__, 1)
            return x + 1
        self.once(f, ones)

    def test_tensors_are_found_in_containers(self):
        def f(x, y, items):
            own = ["a", x, y, 1]
            own.remove(x)
            return "a" in items, x in items, own.index("a"), items.count("a"), (1, [x]).index(1), (1, [x]).count(1), \\
                len(own), hash(x) == hash(x), {x: 1}[x], [x].index(x)
        y = torch.zeros(3)
        for items in ([ones, "a", None], ["b", ones]):
            compiled = torch.compile(f, backend="eager", fullgraph=True)
            wanted = ("a" in items[1:], True, 0, items[1:].count("a"), 0, 1, 3, True, 1, 0)
            self.assertEqual(compiled(ones, y, items), wanted)
        with self.assertRaises(Unsupported):
            torch.compile(lambda x, y: x + (y in [x]), backend="eager", fullgraph=True)(ones, y)
    """,
        tmp_path,
    )


def test_what_the_process_tells(tmp_path):
    passes(
        """
    def test_settings_are_asked_again(self):
        import sys
        def f(x):
            if torch.get_num_threads() > 1 and torch.get_float32_matmul_precision() != "medium":
                return x + 1
            return x - 1 if torch.backends.cudnn.enabled else x * sys.getrecursionlimit()
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        before = torch.get_float32_matmul_precision(), torch.get_num_threads()
        try:
            torch.set_num_threads(2)
            same(compiled(ones), ones + 1)
            torch.set_float32_matmul_precision("medium")
            same(compiled(ones), ones - 1)
            torch.set_float32_matmul_precision(before[0])
            same(compiled(ones), ones + 1)
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.set_num_threads(before[1])
        self.assertEqual(counter.frame_count, 2)

    def test_what_is_one_object_for_ever(self):
        def f(x, one, other):
            same_one = one == other, one in [other], {one: 1}.get(other)
            return x + 1, same_one, id(None) == id(None), list[int], torch.accelerator.is_available()
        one, other = functools.partial(max, 1), functools.partial(max, 1)
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for pair in ((one, one), (one, other), (other, other), (other, one)):
            self.assertEqual(compiled(ones, *pair), f(ones, *pair))

    def test_answers_that_data_gives_are_bools(self):
        def f(x):
            answer = bool(x[0] > 0)
            return answer, isinstance(answer, bool), type((x > 0).all().item()), answer is None, x + answer
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for x in (ones, -ones):
            self.assertEqual(compiled(x), f(x))
        for asks in (lambda x: (x + 1, bool(x[0] > 0) is True), lambda x: x + 1 if bool(x[0] > 0) else x):
            with self.assertRaises(Unsupported):
                torch.compile(asks, backend="eager", fullgraph=True)(ones)
            self.assertEqual(torch.compile(asks, backend="eager")(ones), asks(ones))

    def test_what_defaultdicts_are_made_with(self):
        def f(x, made):
            return x + 1 if made.default_factory is list else x - 1
        cases = [(ones, collections.defaultdict(kind)) for kind in (list, int, list)]
        self.assertEqual(counted(f, *cases, fullgraph=True), [1, 2, 2])

    def test_a_view_has_no_gradient(self):
        def f(x):
            return x.view(-1).grad is None, str.maketrans("a", "b"), operator.call(len, [x])
        self.once(f, ones)
    """,
        tmp_path,
    )
