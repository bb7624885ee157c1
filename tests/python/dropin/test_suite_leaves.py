"""Tests as PyTorch's users write them: leaf functions, which run at every call and are never looked into."""

from suite import passes


def test_leaf_functions(tmp_path):
    passes(
        """
    backends = ("eager", "aot_eager", "inductor", EagerAndRecordGraphs(), AotEagerAndRecordGraphs())

    def made(self, real, fake, **options):
        leaf = torch._dynamo.decorators.leaf_function(real, **options)
        leaf.register_fake(fake)
        return leaf

    def test_data_decides_and_gradients_reach_parameters(self):
        def real(layer, x):
            return (layer(x) if x.sum() > 0 else layer(x) + x,)
        leaf = self.made(real, lambda layer, x: (layer(x),))
        for backend in self.backends:
            torch.manual_seed(0)
            layer, other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            other.load_state_dict(layer.state_dict())
            compiled = torch.compile(lambda layer, x: leaf(layer, x)[0] * 2, backend=backend, fullgraph=True)
            for value in (1.0, -1.0):
                x, y = (torch.full((2, 3), value, requires_grad=True) for _ in range(2))
                compiled(layer, x).sum().backward()
                (real(other, y)[0] * 2).sum().backward()
                self.assertEqual(x.grad, y.grad)
                self.assertEqual(layer.weight.grad, other.weight.grad)

    def test_what_it_reads_is_read_at_every_call(self):
        config = {"factor": 2}
        leaf = self.made(lambda x, y: (x @ y * config["factor"],), lambda x, y: (x @ y,))
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(lambda x: leaf(x, x)[0] + 1, backend=counter, fullgraph=True)
        for factor in (2, 3):
            config["factor"] = factor
            self.assertEqual(compiled(torch.eye(2)), torch.eye(2) * factor + 1)
        self.assertEqual(counter.frame_count, 1)

    def test_containers_numbers_and_no_result(self):
        seen = []
        def parts(d, scale):
            return d["x"] * scale, d["y"].sum()
        both = self.made(parts, parts)
        silent = self.made(lambda x: seen.append(x.sum().item()), lambda x: None)
        def f(x, y):
            silent(x)
            first, second = both({"x": x, "y": y}, 2.5)
            return first + second
        for backend in self.backends[:2]:
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            for _ in range(2):
                self.assertEqual(compiled(ones, ones), ones * 2.5 + 3)
        self.assertEqual(seen, [3.0] * 4)

    def test_declared_changes(self):
        def change(x, buffer):
            buffer.add_(1)
            return (x + buffer,)
        leaf = self.made(change, change, mutates_args={"buffer"})
        for backend in ("eager", "aot_eager", AotEagerAndRecordGraphs()):
            buffer = torch.zeros(3)
            compiled = torch.compile(lambda x, buffer: leaf(x, buffer)[0], backend=backend, fullgraph=True)
            for turn in (1, 2):
                self.assertEqual(compiled(ones, buffer), ones + turn)
                self.assertEqual(buffer, ones * turn)

    def test_without_a_stand_in(self):
        leaf = torch._dynamo.decorators.leaf_function(lambda x: (x,))
        with self.assertRaisesRegex(Exception, "requires a fake implementation"):
            torch.compile(lambda x: leaf(x), backend="eager", fullgraph=True)(ones)
    """,
        tmp_path,
    )


def test_modules_given_to_functions_that_are_not_looked_into(tmp_path):
    passes(
        """
    def test_a_backend_that_traces_finds_their_parameters(self):
        @torch._dynamo.nonstrict_trace
        def opaque(layers, x):
            torch._dynamo.graph_break()
            return layers["a"](x) + layers["b"](x)
        for backend in (EagerAndRecordGraphs(), AotEagerAndRecordGraphs(), "aot_eager"):
            layers = {"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)}
            x = ones.clone().requires_grad_()
            torch.compile(lambda l, x: opaque(l, x).sum() * 2, backend=backend, fullgraph=True)(layers, x).backward()
            wanted = (layers["a"].weight + layers["b"].weight).sum(0) * 2
            self.assertEqual(x.grad, wanted)
            self.assertEqual(layers["b"].weight.grad, torch.full((3, 3), 2.0))
    """,
        tmp_path,
    )


def test_modes_that_change_nothing(tmp_path):
    passes(
        """
    def test_switches_of_the_gradient_mode(self):
        def off(a):
            with torch.no_grad():
                b = a + 1
            return b * 2
        def on(a):
            with torch.set_grad_enabled(True):
                b = a + torch.is_grad_enabled()
            return b * 2
        for mode, counts in ((False, (2, 4)), (True, (4, 2))):
            with torch.set_grad_enabled(mode):
                for f, count in zip((off, on), counts):
                    standard_test(self, f, 1, expected_ops=count)

    def test_marks_for_the_profiler(self):
        def f(x):
            with torch.profiler.record_function("part"):
                x = x + 1
            return x * 2
        standard_test(self, f, 1, expected_ops=2)
    """,
        tmp_path,
    )
