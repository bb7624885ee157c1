"""Test classes of the kind that PyTorch has for its compiler: decorators whose traces programs and tools look for."""

from suite import passes


def test_functions_of_autograd_that_are_allowed_in_graphs(tmp_path):
    body = """
    def test_nobody_looks_into_them(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                torch._dynamo.graph_break()
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                torch._dynamo.graph_break()
                return gradient * 5

        allowed = torch._dynamo.allow_in_graph(Double)
        for backend in ("eager", "aot_eager"):
            x = torch.ones(3, requires_grad=True)
            compiled = torch.compile(lambda x: allowed.apply(x).sum(), backend=backend, fullgraph=True)
            compiled(x).backward()
            self.assertEqual(x.grad, ones * 5)
            torch._dynamo.reset()
    """
    assert passes(body, tmp_path) == 1


def test_substitutes_know_what_they_stand_for(tmp_path):
    body = """
    def test_both_names(self):
        def original(a, b=2):
            return a + b

        @torch.compiler.substitute_in_graph(original)
        def other(a, b=2):
            return a * b

        self.assertIs(other.__torch_dynamo_original__, original)
        self.assertEqual(other(3), 5)
        self.assertEqual(torch.compile(lambda x: original(x), backend="eager", fullgraph=True)(ones), ones * 2)
        with self.assertRaises(ValueError):
            torch._dynamo.substitute_in_graph(original)(lambda a, b=2: a)
    """
    assert passes(body, tmp_path) == 1


def test_settings_for_a_function(tmp_path):
    body = """
    def test_a_decorator(self):
        @torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)
        def fn(x):
            return x + x.sum().item()

        self.assertEqual(torch.compile(fn, backend="eager", fullgraph=True)(ones), ones + 3)
        self.assertEqual(fn(ones), ones + 3)

        @torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)
        def asked():
            return torch._dynamo.config.capture_scalar_outputs

        self.assertTrue(asked())
        self.assertFalse(torch._dynamo.config.capture_scalar_outputs)
    """
    assert passes(body, tmp_path) == 1


def test_whole_functions_that_give_an_input_back(tmp_path):
    """A program's own backend is asked for them, too: as PyTorch does it for a tensor that is the only result."""
    body = """
    def test_counts(self):
        kept = torch.ones(2)
        cases = [(lambda x: x, 1), (lambda x: kept, 1), (torch.nn.Identity(), 1)]
        cases += [(lambda x: (x, 1), 0), (lambda x: 3, 0)]
        for fn, count in cases:
            counter = CompileCounter()
            compiled = torch.compile(fn, backend=counter, fullgraph=True)
            for x in (ones, torch.zeros(3)):
                found, expected = compiled(x), fn(x)
                self.assertEqual(found, expected)
                self.assertTrue(count == 0 or found is expected)
            self.assertEqual((counter.frame_count, counter.op_count), (count, 0))
        counter = CompileCounter()
        torch.compile(lambda x: x, backend=counter)(ones)
        self.assertEqual(counter.frame_count, 0)
    """
    assert passes(body, tmp_path) == 1


def test_marks_that_are_set_later(tmp_path):
    """Code compiled for a tensor serves those whose marks are among its own."""
    body = """
    def test_a_new_mark_is_compiled_for(self):
        marks = (torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic, torch._dynamo.decorators.mark_unbacked)
        for mark in marks:
            counter = CompileCounter()
            compiled = torch.compile(lambda x: x + 1, backend=counter)
            x = torch.randn(4, 3)
            counts = []
            for prepare in (lambda x: None, lambda x: mark(x, 0), lambda x: None):
                prepare(x)
                compiled(x)
                counts.append(counter.frame_count)
            compiled(torch.randn(5, 3))
            self.assertEqual(counts + [counter.frame_count], [1, 2, 2, 2])
        x = torch.randn(4, 3)
        calls = [lambda: x, lambda: torch._dynamo.mark_static(x, 0) or x, lambda: torch.randn(4, 3)]
        counter = CompileCounter()
        compiled = torch.compile(lambda x: x + 1, backend=counter)
        for call, count in zip(calls, (1, 2, 2)):
            compiled(call())
            self.assertEqual(counter.frame_count, count)

    def test_other_dimensions(self):
        first, second, both = (torch.randn(4, 3) for _ in range(3))
        torch._dynamo.mark_dynamic(first, 0)
        torch._dynamo.mark_dynamic(second, 1)
        torch._dynamo.mark_dynamic(both, (0, 1))
        arguments = [(first,), (second,), (both,), (first,), (second,), (torch.randn(7, 8),)]
        self.assertEqual(counted(lambda x: x + 1, *arguments), [1, 2, 3, 3, 3, 3])

    def test_attributes_of_other_kinds_are_none(self):
        counter = CompileCounter()
        compiled = torch.compile(lambda x: x + 1, backend=counter)
        x = torch.randn(4)
        compiled(x)
        x.label = "mine"
        compiled(x)
        compiled(x)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x)
        self.assertEqual(counter.frame_count, 2)

    def test_on_tensors_of_globals_and_lists(self):
        held = torch.randn(4, 3)
        for read in (lambda x: x + held.sum(), lambda x: x + [held][0].sum()):
            counter = CompileCounter()
            compiled = torch.compile(read, backend=counter)
            compiled(ones)
            torch._dynamo.mark_dynamic(held, 0)
            compiled(ones)
            self.assertEqual(counter.frame_count, 2)
            del held._dynamo_dynamic_indices

    def test_parameters_keep_their_sizes(self):
        linear = torch.nn.Linear(3, 4)
        torch._dynamo.mark_dynamic(linear.weight, 0)
        self.assertEqual(counted(linear, (torch.randn(2, 3),), (torch.randn(3, 3),)), [1, 2])
        parameters = [(ones, torch.nn.Parameter(torch.randn(n))) for n in (4, 5, 6)]
        self.assertEqual(counted(lambda x, p: x + p.sum(), *parameters), [1, 2, 3])
        with config.patch(force_parameter_static_shapes=False):
            self.assertEqual(counted(lambda x, p: x - p.sum(), *parameters), [1, 2, 2])
    """
    assert passes(body, tmp_path) == 5
