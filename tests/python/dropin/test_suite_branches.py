"""Tests as PyTorch's users write them: torch.cond and torch.while_loop inside compiled functions."""

from suite import passes


def test_branches(tmp_path):
    passes(
        """
    yes, no = torch.tensor(True), torch.tensor(False)

    def test_both_branches_in_one_graph(self):
        def f(pred, other, x):
            def nested(other, x):
                return x + torch.cond(other, lambda x: x * 10, lambda x: x * -1, [x])
            return torch.cond(pred, lambda other, x: x.sin(), nested, [other, x])
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        for pred, other in itertools.product((True, False), repeat=2):
            expected = ones.sin() if pred else ones * 11 if other else ones * 0
            self.assertEqual(compiled(torch.tensor(pred), torch.tensor(other), ones), expected)
        self.assertEqual(counter.frame_count, 1)

    def test_gradients_reach_what_lies_in_closures(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            def forward(self, pred, x):
                y = x * 2
                return torch.cond(pred, lambda x: self.one(x) + y, lambda x: self.other(x) - y, [x])
        model = Model()
        for backend in ("eager", "aot_eager", "inductor"):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend=backend, fullgraph=True)
            for pred in (self.yes, self.no):
                x = torch.randn(2, 3, requires_grad=True)
                layer = model.one if pred else model.other
                model.zero_grad()
                result = compiled(pred, x)
                expected = layer(x) + (x * 2 if pred else -x * 2)
                self.assertEqual(result, expected)
                result.sum().backward()
                mine, by_graph = x.grad.clone(), layer.weight.grad.clone()
                x.grad = None
                model.zero_grad()
                expected.sum().backward()
                self.assertEqual((mine, by_graph), (x.grad, layer.weight.grad))

    def test_values_are_those_of_the_call(self):
        scale = 1
        def f(pred, x):
            return torch.cond(pred, lambda x: x - scale, lambda x: x + scale, [x])
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        self.assertEqual(compiled(self.no, ones), ones + 1)
        scale = 4
        self.assertEqual(compiled(self.no, ones), ones + 4)
        self.assertEqual(compiled(self.yes, ones), ones - 4)

    def test_python_decides(self):
        def f(x):
            return torch.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.cos(), (x,))
        backend = EagerAndRecordGraphs()
        compiled = torch.compile(f, backend=backend, fullgraph=True)
        self.assertEqual(compiled(ones), ones.sin())
        self.assertEqual(compiled(torch.ones(2)), torch.ones(2).cos())

    def test_backends_of_pytorch(self):
        weight = torch.randn(3, requires_grad=True)
        def f(pred, x):
            y = x + weight
            return torch.cond(pred, lambda x: (x * weight).sin(), lambda x: x.cos() - y, (x,)).sum()
        compiled = torch.compile(f, backend=CompileCounterWithBackend("aot_eager"), fullgraph=True)
        for pred in (self.yes, self.no):
            expected = ((ones * weight).sin() if pred else ones.cos() - ones - weight).sum()
            self.assertEqual(compiled(pred, ones), expected)
            mine, = torch.autograd.grad(compiled(pred, ones), weight)
            self.assertEqual(mine, torch.autograd.grad(expected, weight)[0])

    def test_branches_of_other_kinds(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 3)
            def double(self, x):
                return x * 2
            def forward(self, pred, x):
                return torch.cond(pred=pred, true_fn=self.layer.forward, false_fn=self.double, operands=(x,))
        model = Model()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        self.assertEqual(compiled(self.yes, ones), model.layer(ones))
        self.assertEqual(compiled(self.no, ones), ones * 2)
        with_module = torch.compile(lambda p, x: torch.cond(p, model.layer, lambda x: x + 1, (x,)), backend="eager")
        self.assertEqual(with_module(self.yes, ones), model.layer(ones))

    def test_results_that_differ_in_shape(self):
        f = torch.compile(
            lambda p, x: torch.cond(p, lambda x: x, lambda x: x[:1], [x]), backend="eager", fullgraph=True)
        self.assertRaises(RuntimeError, f, self.yes, ones)

    def test_loops(self):
        def f(n, x):
            return torch.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))
        for backend in ("eager", "inductor", CompileCounter()):
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            for n in (0, 1, 5):
                self.assertEqual(compiled(torch.tensor(n), ones), (torch.tensor(n), ones * 2**n))
    """,
        tmp_path,
    )
