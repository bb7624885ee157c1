"""Tests as PyTorch's users write them: one graph for Python of many kinds, and how many calls it holds."""

from suite import passes


def test_what_goes_through_iterables(tmp_path):
    passes(
        """
    def standard(self, f, count, ops=None, graphs=1):
        standard_test(self, f, count, expected_ops=ops, expected_frame_count=graphs)

    def test_reduce_starts_from_what_it_is_given(self):
        self.standard(lambda a, b: functools.reduce(operator.mul, [a, b, 2], a + 1), 2, 4)
        self.standard(lambda a: functools.reduce(lambda p, q: p + [q * 2], [a, a + 1], []), 1, 3)
        self.standard(lambda a: functools.reduce(lambda p, q: p + (q,), [a, a * 2], (a,)), 1, 1)
        self.standard(lambda a: functools.reduce(operator.add, [a, a], a.sum()), 1, 3)

    def test_fillings_stand_for_themselves(self):
        def f(a, b):
            return [x + y for x, y in itertools.zip_longest([a, b], [1], fillvalue=a)]
        self.standard(f, 2, 2)
        self.standard(lambda a: list(itertools.accumulate([a, a], operator.mul, initial=a + 1)), 1, 3)

    def test_a_callable_object_that_can_be_gone_through(self):
        class Both:
            def __call__(self, x):
                return x * 2
            def __iter__(self):
                return iter(())
        both = Both()
        self.standard(lambda a: list(map(both, [a, a + 1])), 1, 3)
        self.standard(lambda a: functools.reduce(lambda p, q: q(p), [both, both], a), 1, 2)

    def test_items_that_nobody_reads_are_not_taken(self):
        def f(x):
            largest, _ = x.max(0)
            first, second, *rest = torch.split(x, 2)
            return largest + second
        self.standard(f, 1, 5)

    def test_nothing_to_compute(self):
        self.standard(lambda: sum([0, 1.0, 2]), 0, 0, graphs=0)
        self.standard(lambda x: functools.reduce(lambda a, b: (a, b), [x], None), 1, 0, graphs=0)
    """,
        tmp_path,
    )


def test_names_and_forms_of_graphs(tmp_path):
    passes(
        """
    def text_of(self, f, *arguments, **options):
        recorded = EagerAndRecordGraphs()
        torch.compile(f, backend=recorded, fullgraph=True, **options)(*arguments)
        (module,) = recorded.graphs
        return torch._dynamo.testing.normalize_gm(module.print_readable(print_output=False))

    def test_inputs_are_named_after_their_places(self):
        def f(x, others):
            return x.relu() * others["k"][0]
        text = self.text_of(f, ones, {"k": (ones + 1,)})
        self.assertIn('L_x_: "f32[3]", L_others_k_0_: "f32[3]"', text)
        self.assertIn("l_x_.relu()", text)

    def test_parameters(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 3)
            def forward(self, x):
                return self.layer(x)
        text = self.text_of(Model(), ones)
        self.assertIn("L_self_modules_layer_parameters_weight_", text)

    def test_open_sizes_are_inputs(self):
        text = self.text_of(lambda x: x.view(x.shape[0], -1) * 2, torch.randn(4, 3), dynamic=True)
        self.assertRegex(text, r'self, (s\\d+): "Sym\\(\\1\\)", (s\\d+): "Sym\\(\\2\\)", L_x_: "f32\\[\\1, \\2\\]"')

    def test_functions_compiled_by_one_backend_share_graphs(self):
        def f(x):
            return x.sin()
        counter = CompileCounter()
        first, second = torch.compile(f, backend=counter), torch.compile(f, backend=counter)
        self.assertEqual(first(ones), second(ones))
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )
