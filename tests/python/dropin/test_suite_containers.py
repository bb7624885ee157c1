"""Tests as PyTorch's users write them: sets, lists and dicts under unittest's own assertions, and what is guarded."""

from suite import passes


def test_assertions_inside(tmp_path):
    passes(
        """
    def traced(self, function):
        "The function as it is, then in one graph."
        function()
        torch._dynamo.optimize_assert(CompileCounter())(function)()

    def test_errors_that_are_expected(self):
        def f():
            items = ["a", "b"]
            self.assertRaises(IndexError, items.pop, 9)
            self.assertRaises(TypeError, lambda: items - 1)
            with self.assertRaises(ValueError) as caught:
                items.index("z")
            self.assertIn("z", str(caught.exception))
            self.assertRaisesRegex(TypeError, "must assign iterable", items.__setitem__, slice(0, 2, 2), 1)
        self.traced(f)

    def test_sets_and_their_classes(self):
        from torch.utils._ordered_set import OrderedSet
        class Own(set):
            pass
        def f():
            for kind in (set, frozenset, Own, OrderedSet):
                one, other = map(kind, ["xyz", "yuv"])
                self.assertTrue(one - other == kind("xz"))
                self.assertTrue(kind.__contains__(one, "x"))
                self.assertRaises(TypeError, one.issubset, [[]])
                self.assertFalse(one.isdisjoint(other))
            kept = OrderedSet(["c", "b", "a"])
            self.assertTrue(list(kept.intersection(OrderedSet("ab"))) == ["b", "a"])
        self.traced(f)

    def test_operators_that_assign(self):
        def f():
            items, keys = ["a"], {"one": 1, "two": 2}.keys()
            self.assertTrue(operator.iadd(items, ["b"]) is items)
            self.assertTrue(operator.imul(items, 2) is items)
            self.assertTrue(items == ["a", "b"] * 2)
            self.assertTrue(operator.iand(keys, {"one", "four"}) == {"one"})
            union = {"k": 1}
            self.assertTrue(operator.ior(union, {"l": 2}) is union and len(union) == 2)
            self.assertRaises(TypeError, operator.iadd, 1)
        self.traced(f)
    """,
        tmp_path,
    )


def test_questions_to_sets(tmp_path):
    passes(
        """
    def test_an_iterator_is_asked_no_further_than_needed(self):
        for ask, steps in ((lambda s, it: s.isdisjoint(it), 3), (lambda s, it: s.issuperset(it), 1)):
            taken = 0
            def numbers():
                nonlocal taken
                taken += 1
                yield 1
                taken += 2
                yield 2
                taken += 3
                yield 3
            def f(x):
                answer = ask({2, 9}, numbers())
                return x * taken, answer
            taken = 0
            compiled = torch.compile(f, backend="eager", fullgraph=True)
            self.assertEqual(compiled(ones), (ones * steps, False))
            self.assertEqual(taken, steps)

    def test_keys_are_hashed_once(self):
        class Counted(int):
            def __new__(cls, value):
                made = super().__new__(cls, value)
                made.count = 0
                return made
            def __hash__(self):
                self.count += 1
                return int.__hash__(self)
        def f(kind):
            keys = dict.fromkeys([Counted(i) for i in range(3)])
            made = kind(keys)
            return len(kind(made)), [key.count for key in keys]
        for kind in (set, frozenset):
            self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(kind), (3, [1, 1, 1]))

    def test_functions_in_a_set_from_outside(self):
        known = {torch._C._set_grad_enabled, "text", torch.amp._exit_autocast, 3.3, 1j, float("nan")}
        counter = CompileCounter()
        @torch.compile(backend=counter, fullgraph=True)
        def f(x, known):
            return x.sin() if torch.amp._exit_autocast in known else x.cos()
        self.assertEqual(f(ones, known), ones.sin())
        f(ones, known)
        self.assertEqual(counter.frame_count, 1)
        known.remove(torch.amp._exit_autocast)
        known.add(torch._C._set_fwd_grad_enabled)
        self.assertEqual(f(ones, known), ones.cos())
        self.assertEqual(counter.frame_count, 2)

    def test_keys_of_many_kinds(self):
        import weakref
        held, other = torch.nn.Module(), torch.nn.Module()
        weak = weakref.WeakKeyDictionary({held: 2})
        adding = list.__add__
        def f(x):
            own = {adding: x * 2, torch.Tensor.grad.__get__: x}
            return own[adding] * weak[held], held in weak, other in weak
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), f(ones))
        weak[other] = 5
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), f(ones))

    def test_a_dict_of_an_own_class(self):
        class Own(collections.OrderedDict):
            def __new__(cls, *args, **kwargs):
                return super().__new__(cls, *args, **kwargs)
        def f(x):
            made = Own()
            made["key"] = x
            assert "key" in made and "other" not in made
            return made["key"] + 1
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), ones + 1)
        class Strange(dict):
            def __contains__(self, key):
                return key == "all"
        g = torch.compile(lambda d, x: x + 1 if "all" in d else x, backend="eager", fullgraph=True)
        self.assertEqual(g(Strange(), ones), ones + 1)
        self.assertEqual(g(Strange(all=1), ones), ones + 1)

    def test_a_mapping_that_is_no_dict(self):
        class Mapping(collections.abc.MutableMapping):
            def __init__(self, **items):
                self.items_ = items
            def __getitem__(self, key):
                return self.items_[key] + 1
            def __setitem__(self, key, value):
                self.items_[key] = value
            def __delitem__(self, key):
                del self.items_[key]
            def __len__(self):
                return len(self.items_)
            def __iter__(self):
                yield from self.items_
        def f(m, x):
            made = dict(x=x, **m)
            return made["x"] * made["a"] + {**m}["b"]
        given = Mapping(a=2, b=3)
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(given, ones), f(given, ones))
        given["a"] = 7
        self.assertEqual(compiled(given, ones), f(given, ones))
    """,
        tmp_path,
    )


def test_attributes(tmp_path):
    passes(
        """
    def test_a_tensor_that_may_have_an_attribute(self):
        f = torch.compile(lambda x: x + 2 if hasattr(x, "mark") else x + 1, backend="eager", fullgraph=True)
        self.assertEqual(f(torch.ones(2)), torch.full((2,), 2.0))
        marked = torch.ones(2)
        marked.mark = 1
        self.assertEqual(f(marked), torch.full((2,), 3.0))
        self.assertEqual(f(torch.ones(2)), torch.full((2,), 2.0))

    def test_attributes_of_a_thread(self):
        import threading
        local = threading.local()
        local.scale = torch.full((3,), 2.0)
        compiled = torch.compile(lambda x: x * local.scale, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), ones * 2)
        local.scale = torch.full((3,), 3.0)
        self.assertEqual(compiled(ones), ones * 3)
        seen = []
        def other():
            local.scale = torch.full((3,), 5.0)
            seen.append(compiled(ones))
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        self.assertEqual(seen[0], ones * 5)
        missing = torch.compile(lambda x: x + local.none, backend="eager")
        self.assertRaises(AttributeError, missing, ones)

    def test_operators_that_nobody_has_asked_for_before(self):
        with torch.library._scoped_library("fs_first", "FRAGMENT") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
            f = torch.compile(lambda x: torch.ops.fs_first.twice.default(x) + 1, backend="eager", fullgraph=True)
            self.assertEqual(f(ones), ones * 2 + 1)

    def test_a_function_that_wraps_one_from_outside(self):
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x.sin()
        inner.note = 3
        def f(x):
            y = x.cos()
            @functools.wraps(inner)
            def wrapper():
                return inner(y)
            return wrapper
        made = torch.compile(f, backend="eager", fullgraph=True)(ones)
        self.assertEqual((made.__name__, made.note, made.__wrapped__), ("inner", 3, inner))
        self.assertEqual(made(), ones.cos().sin())
        self.assertEqual(made.__annotations__, inner.__annotations__)

    def test_a_descriptor_that_can_only_be_set(self):
        class Doubled:
            def __set__(self, owner, value):
                owner.__dict__["field"] = owner.__dict__.get("field", 0) + value * 2
        class Owner:
            field = Doubled()
        def f(x, owner):
            owner.field = 10
            return x + owner.field
        mine, theirs = Owner(), Owner()
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for _ in range(2):
            self.assertEqual(compiled(ones, mine), f(ones, theirs))
        self.assertEqual(mine.field, theirs.field)
        self.assertIsInstance(torch.compile(lambda o: o.field, backend="eager")(Owner()), Doubled)

    def test_warnings_are_caught(self):
        import warnings
        def f(x):
            with warnings.catch_warnings(record=True):
                return x.sin()
        before = list(warnings.filters)
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), ones.sin())
        self.assertEqual(list(warnings.filters), before)

    def test_dicts_that_cannot_be_written(self):
        import inspect, types
        shown = collections.OrderedDict(a=1, b=2)
        proxy = types.MappingProxyType(shown)
        def signed(a, b=2):
            return a
        def f(x):
            made = types.MappingProxyType(collections.OrderedDict(a=5))
            for parameter in inspect.signature(signed).parameters.values():
                if parameter.default is not parameter.empty:
                    x = x + parameter.default
            return x + proxy["a"] + made["a"], list(proxy)
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), f(ones))
        shown["a"] = 9
        self.assertEqual(compiled(ones), f(ones))
    """,
        tmp_path,
    )
