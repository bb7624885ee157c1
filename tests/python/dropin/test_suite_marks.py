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
