"""Tests as PyTorch's users write them: proxies, generators that are given back, addresses, and custom operators."""

from suite import passes


def test_objects_that_stand_for_others(tmp_path):
    passes(
        """
    import re, sys, types, weakref

    def test_proxies_of_dicts(self):
        types = self.types
        shown = types.MappingProxyType({"a": 3})
        def f(m, x):
            return x * m["a"] + m.get("z", 1), list(m.items()), "a" in m, len(m), [k for k in m]
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(shown, ones), f(shown, ones))
        other = types.MappingProxyType({"a": 4, "b": 5})
        self.assertEqual(compiled(other, ones), f(other, ones))
        def made(x):
            m = types.MappingProxyType({"a": x})
            return m["a"] + len(m), m
        result, proxy = torch.compile(made, backend="eager", fullgraph=True)(ones)
        self.assertEqual(result, ones + 1)
        self.assertIs(type(proxy), types.MappingProxyType)
        self.assertEqual(proxy["a"], ones)

    def test_weak_proxies(self):
        class Held:
            def __init__(self, value):
                self.value = value
            def times(self, x):
                return x * self.value
        held = Held(3)
        proxy = self.weakref.proxy(held)
        f = torch.compile(lambda x: x + proxy.value + proxy.times(x), backend="eager", fullgraph=True)
        self.assertEqual(f(ones), ones + 3 + ones * 3)
        held.value = 4
        self.assertEqual(f(ones), ones + 4 + ones * 4)

    def test_typed_tensors(self):
        f = torch.compile(lambda x: x + 1 if isinstance(x, (torch.DoubleTensor, torch.LongTensor)) else x - 1,
                          backend="eager", fullgraph=True)
        for x in (ones, ones.double(), ones.long()):
            self.assertEqual(f(x), x + 1 if x.dtype != torch.float32 else x - 1)

    def test_addresses(self):
        counter = CompileCounter()
        f = torch.compile(lambda x, known: x + known[id(x)], backend=counter, fullgraph=True)
        a, b = ones.clone(), ones.clone()
        known = {id(a): 1, id(b): 2}
        self.assertEqual([f(a, known), f(b, known), f(a, known)], [ones + 1, ones + 2, ones + 1])
        self.assertEqual(counter.frame_count, 2)

    def test_small_things(self):
        re = self.re
        def f(x):
            return x + 1, re.match("a(.)", "ab").group(1), os.path.join("a", "b")
        self.assertEqual(torch.compile(f, backend="eager", fullgraph=True)(ones), f(ones))
    """,
        tmp_path,
    )


def test_assertions_about_tensors(tmp_path):
    passes(
        """
    def test_they_are_operators_of_one_graph(self):
        space = {}  # pytest puts other code in place of its own assertions
        lines = ["y = x.sin()", "assert x[0] == 1, 'the first must be 1'", "assert y.sum() < 100", "return y + 1"]
        exec("def f(x):" + "".join(chr(10) + " " + line for line in lines), space)
        f = space["f"]
        for backend in ("eager", "aot_eager", "inductor"):
            counter = CompileCounterWithBackend(backend)
            compiled = torch.compile(f, backend=counter, fullgraph=True)
            self.assertEqual(compiled(ones), f(ones))
            self.assertEqual(counter.frame_count, 1)
            with self.assertRaisesRegex(RuntimeError, "the first must be 1"):
                compiled(ones * 2)
            with self.assertRaises(RuntimeError):
                compiled(torch.ones(500))
        with self.assertRaises(AssertionError):
            torch.compile(f, backend="eager")(ones * 2)
    """,
        tmp_path,
    )


def test_generators_that_are_given_back(tmp_path):
    passes(
        """
    def whole(self, f, *arguments):
        return torch.compile(f, backend="eager", fullgraph=True)(*arguments)

    def test_one_that_has_not_begun(self):
        log = []
        def f(x):
            y = x * 2
            def numbers(n, *rest):
                log.append("begun")
                for i in range(n):
                    yield y + i
                yield from rest
            return numbers(2, x), y
        generator, y = self.whole(f, ones)
        self.assertEqual(log, [])
        self.assertEqual(list(generator), [ones * 2, ones * 2 + 1, ones])
        self.assertEqual(log, ["begun"])
        self.assertEqual(y, ones * 2)

    def test_expressions(self):
        self.assertEqual(list(self.whole(lambda x: (x * i for i in range(3)), ones)), [ones * 0, ones, ones * 2])

    def test_one_that_lives_across_a_break(self):
        def f(x):
            g = (x + i for i in range(2))
            y = x.sin()
            torch._dynamo.graph_break()
            return sum(g) + y
        self.assertEqual(torch.compile(f, backend="eager")(ones), f(ones))
    """,
        tmp_path,
    )


def test_custom_operators_on_backends_of_pytorch(tmp_path):
    passes(
        """
    def test_one_that_writes(self):
        @torch.library.custom_op("firesteel_suite::sine_", mutates_args={"x"})
        def sine_(x: torch.Tensor) -> None:
            x.sin_()
        def f(x):
            y = x.clone()
            sine_(y)
            sine_(x)
            return y + x
        for backend in (AotEagerAndRecordGraphs(), "aot_eager", "eager", AotEagerAndRecordGraphs()):
            x = ones.clone()
            self.assertEqual(torch.compile(f, backend=backend, fullgraph=True)(x), ones.sin() * 2)
            self.assertEqual(x, ones.sin())
    """,
        tmp_path,
    )


def test_iterators_and_hooks_from_outside(tmp_path):
    passes(
        """
    def test_a_count(self):
        def f(x, numbers):
            return x + next(numbers)
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        mine, theirs = itertools.count(3), itertools.count(3)
        for _ in range(3):
            self.assertEqual(compiled(ones, mine), f(ones, theirs))
        self.assertEqual(next(mine), next(theirs))
        self.assertEqual(counter.frame_count, 3)
        self.assertEqual(compiled(ones, itertools.count(3)), ones + 3)
        self.assertEqual(counter.frame_count, 3)

    def test_one_of_tensors(self):
        def f(x, tensors):
            for tensor in tensors:
                x = x * tensor
            return x
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for _ in range(2):
            tensors = [torch.rand(3), torch.rand(3)]
            iterator = iter(tensors)
            self.assertEqual(compiled(ones, iterator), f(ones, tensors))
            self.assertEqual(list(iterator), [])

    def test_a_hook(self):
        def f(x):
            x.register_hook(lambda gradient: gradient * 2)
            return x * x
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        for _ in range(2):
            x = torch.ones(3, requires_grad=True)
            compiled(x).sum().backward()
            self.assertEqual(x.grad, torch.full((3,), 4.0))
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )
