"""Objects of the standard library in compiled code, and numbers that PyTorch compiles for one by one."""

from suite import passes


def test_objects(tmp_path):
    body = """
    def test_thread_locals(self):
        import threading
        plain = threading.local()
        plain.k = 3
        class Own(threading.local):
            factor = 2
            def __init__(self):
                self.made = 5
            @property
            def twice(self):
                return self.made * 2
        own = Own()
        def function(x):
            plain.k = 7
            plain.shape = x.shape
            own.made = own.made + 1
            seen = hasattr(plain, "nope"), hasattr(own, "shape")
            if hasattr(plain, "gone"):
                del plain.gone
            return x * plain.k + own.made + own.factor + own.twice, seen
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), (ones * 7 + 6 + 2 + 12, (False, False)))
        self.assertEqual((plain.k, plain.shape, own.made), (7, (3,), 6))
        plain.gone = plain.nope = 1
        self.assertEqual(compiled(ones), (ones * 7 + 7 + 2 + 14, (True, False)))
        self.assertFalse(hasattr(plain, "gone"))
        self.assertEqual(vars(plain), {"k": 7, "shape": (3,), "nope": 1})
        elsewhere = []
        def in_a_thread():
            elsewhere.append(compiled(ones))
            elsewhere.append((plain.k, own.made))
        thread = threading.Thread(target=in_a_thread)
        thread.start()
        thread.join()
        self.assertEqual(elsewhere, [(ones * 7 + 6 + 2 + 12, (False, False)), (7, 6)])

    def test_weak_references_made_inside(self):
        import weakref
        class Thing:
            pass
        outer = Thing()
        outer.k = 2
        def function(x):
            thing = Thing()
            thing.x = x
            first, second = weakref.ref(thing), weakref.ref(outer)
            outer.k = 3
            return first().x + second().k
        self.assertEqual(counted(function, (ones,), (ones,), fullgraph=True), [1, 1])
        def lost(x):
            thing = Thing()
            reference = weakref.ref(thing)
            del thing
            return x + (reference() is None)
        compiled = torch.compile(lost, backend="eager")
        self.assertEqual(compiled(ones), ones + 1)

    def test_signatures_from_outside(self):
        import inspect
        def callee(a, b=2, *rest, d=3):
            return a * b + d + sum(rest)
        signature = inspect.signature(callee)
        def function(x):
            bound = signature.bind(x, 4, 5, d=x)
            bound.apply_defaults()
            return callee(*bound.args, **bound.kwargs) + len(signature.parameters)
        self.assertEqual(counted(function, (ones,), fullgraph=True), [1])

    def test_texts_of_dataclasses(self):
        from dataclasses import dataclass
        @dataclass
        class Point:
            x: int = 1
            inner: object = None
        outer = Point(1, Point(2))
        def function(x):
            texts = repr(outer), str(Point(3)), f"{Point(4)} {outer!r} {Point(5)!s:>40}"
            return x + len(texts[2]), texts
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), function(ones))
        outer.inner.x = 12345
        self.assertEqual(compiled(ones), function(ones))
        Point.__str__ = lambda self: "a point"
        self.assertEqual(compiled(ones), function(ones))

    def test_slots_that_are_empty(self):
        class Thing:
            __slots__ = "a", "b"
        thing = Thing()
        def function(x):
            return x * 2 if hasattr(thing, "a") else x + getattr(thing, "b", 3)
        counter = CompileCounter()
        compiled = torch.compile(function, backend=counter, fullgraph=True)
        self.assertEqual(compiled(ones), ones + 3)
        thing.a = 1
        self.assertEqual(compiled(ones), ones * 2)
        del thing.a
        self.assertEqual(compiled(ones), ones + 3)
        thing.b = 5
        self.assertEqual(compiled(ones), ones + 5)
        self.assertEqual(counter.frame_count, 3)
        def emptied(x):
            del thing.b
            return x + hasattr(thing, "b")
        self.assertEqual(torch.compile(emptied, backend="eager", fullgraph=True)(ones), ones)
        self.assertFalse(hasattr(thing, "b"))

    def test_functions_without_a_closure(self):
        def callee(x):
            return x
        def function(x):
            return x + (callee.__closure__ is None) + (callee.__kwdefaults__ is None)
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), ones + 2)
        callee.__kwdefaults__ = {"k": 1}
        self.assertEqual(compiled(ones), ones + 1)

    def test_distributions(self):
        def function(x, y):
            from torch.distributions import Categorical, Normal, kl_divergence
            normal = Normal(x, y)
            return normal.log_prob(x) + kl_divergence(normal, Normal(0.0, 1.0)) + Categorical(logits=x).entropy()
        self.assertEqual(counted(function, (ones, ones * 2), fullgraph=True), [1])
        for backend in ("eager", "aot_eager"):
            compiled = torch.compile(function, backend=backend, fullgraph=True)
            compiled(ones, ones)
            with self.assertRaisesRegex(ValueError, "Expected parameter scale"):
                compiled(ones, -ones)

    def test_modules_show_what_they_wrap(self):
        text = repr(torch.compile(torch.nn.Sequential(torch.nn.Linear(1, 2)), backend="eager"))
        self.assertTrue(text.startswith("OptimizedModule(\\n  (_orig_mod): Sequential(\\n    (0): Linear("), text)
    """
    assert passes(body, tmp_path) == 8


def test_numbers_of_modules_and_globals(tmp_path):
    body = """
    def counts(self, function, change):
        counter = CompileCounter()
        compiled = torch.compile(function, backend=counter)
        counts = []
        for number in range(2, 6):
            change(number)
            self.assertEqual(compiled(ones), function(ones))
            counts.append(counter.frame_count)
        return counts

    def test_ints(self):
        class Model(torch.nn.Module):
            def forward(self, x):
                return x * self.settings["k"]
        model = Model()
        model.settings = {}
        def global_one(x):
            return x * some_number
        def of_argument(x, numbers=[0]):
            return x * numbers[0]
        change = lambda number: model.settings.update(k=number)
        self.assertEqual(self.counts(model, change), [1, 2, 3, 4])
        with config.patch(allow_unspec_int_on_nn_module=True):
            torch._dynamo.reset()
            self.assertEqual(self.counts(model, change), [1, 2, 2, 2])
        self.assertEqual(self.counts(global_one, lambda n: globals().update(some_number=n)), [1, 2, 3, 4])
        torch._dynamo.reset()
        self.assertEqual(self.counts(model, lambda n: model.settings.update(k=n + 0.5)), [1, 2, 2, 2])
        self.assertEqual(self.counts(global_one, lambda n: globals().update(some_number=n + 0.5)), [1, 2, 2, 2])
    """
    assert passes(body, tmp_path) == 1
