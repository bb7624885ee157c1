"""Tests as PyTorch's users write them: tensors of classes with `__torch_dispatch__`, and modes around the call."""

from suite import passes

KINDS = """
    def kinds(self):
        import torch.utils._pytree as pytree
        from torch.testing._internal.two_tensor import TwoTensor
        class Scaled(torch.Tensor):
            @staticmethod
            def __new__(cls, inner, scale):
                return torch.Tensor._make_wrapper_subclass(
                    cls, inner.shape, dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad)
            def __init__(self, inner, scale):
                self.inner, self.scale = inner, scale
            def __tensor_flatten__(self):
                return ["inner"], {"scale": self.scale}
            @staticmethod
            def __tensor_unflatten__(parts, context, size, stride):
                return Scaled(parts["inner"], context["scale"])
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                scale = next(arg.scale for arg in pytree.tree_leaves((args, kwargs)) if isinstance(arg, Scaled))
                def plain(x):
                    return x.inner * x.scale if isinstance(x, Scaled) else x
                out = func(*pytree.tree_map(plain, args), **pytree.tree_map(plain, kwargs or {}))
                def wrapped(x):
                    return Scaled(x / scale, scale) if isinstance(x, torch.Tensor) else x
                return pytree.tree_map(wrapped, out)
        return TwoTensor, Scaled

    def parts(self, tensor):
        TwoTensor, _ = self.kinds()
        names = tensor.__tensor_flatten__()[0] if hasattr(tensor, "__tensor_flatten__") else []
        return [tensor] if not names else [getattr(tensor, name) for name in names]

    def check_same(self, one, other):
        self.assertEqual(type(one).__name__, type(other).__name__)
        self.assertEqual(one.requires_grad, other.requires_grad)
        for a, b in zip(self.parts(one), self.parts(other)):
            torch.testing.assert_close(a, b)
"""


def test_wrappers_are_values_of_the_graph(tmp_path):
    passes(
        KINDS
        + """
    def test_given_made_read_and_given_back(self):
        TwoTensor, Scaled = self.kinds()
        def f(x, y, s):
            made = TwoTensor(y, y + 1)
            z = x.view(6).sin() * y if isinstance(x, TwoTensor) else x
            return z, made * 2, x.a.view(6) + z.b, s.relu() + 1, s.inner * s.scale, x, y.cos(), x.shape[0]
        two = TwoTensor(torch.randn(2, 3), torch.randn(2, 3))
        args = two, torch.randn(6), Scaled(torch.randn(3), 2.0)
        for backend in ("eager", "aot_eager", "inductor", CompileCounter()):
            torch._dynamo.reset()
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            for _ in range(2):
                for one, other in zip(compiled(args[0].view(2, 3), *args[1:]) , f(args[0].view(2, 3), *args[1:])):
                    self.check_same(one, other) if isinstance(one, torch.Tensor) else self.assertEqual(one, other)
        self.assertEqual(backend.frame_count, 1)

    def test_gradients_and_parameters(self):
        TwoTensor, _ = self.kinds()
        def model():
            linear = torch.nn.Linear(4, 3)
            with torch.no_grad():
                weight = TwoTensor(torch.ones(3, 4), torch.ones(3, 4) * 2)
            linear.weight = torch.nn.Parameter(weight)
            torch.nn.init.zeros_(linear.bias)
            return linear
        for backend in ("eager", "aot_eager", "inductor", "counter"):
            torch._dynamo.reset()
            ours, theirs, x = model(), model(), torch.randn(2, 4)
            backend = CompileCounter() if backend == "counter" else backend
            out, wanted = torch.compile(ours, backend=backend, fullgraph=True)(x), theirs(x)
            out.sum().backward()
            wanted.sum().backward()
            self.check_same(ours.weight.grad, theirs.weight.grad)

    def test_writes_reach_the_parts(self):
        TwoTensor, _ = self.kinds()
        def f(x):
            x.add_(1)
            return x * 2
        for backend in ("eager", "aot_eager", CompileCounter()):
            torch._dynamo.reset()
            x = TwoTensor(torch.zeros(3), torch.ones(3))
            out = torch.compile(f, backend=backend, fullgraph=True)(x)
            self.check_same(out, TwoTensor(torch.ones(3) * 2, torch.ones(3) * 4))
            self.check_same(x, TwoTensor(torch.ones(3), torch.ones(3) * 2))

    def test_class_context_and_parts_are_guarded(self):
        TwoTensor, Scaled = self.kinds()
        counter = CompileCounter()
        f = lambda x: x + 1
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        double = torch.ones(3, dtype=torch.float64)
        calls = (ones, TwoTensor(ones, ones), Scaled(ones, 2.0), Scaled(ones, 3.0))
        for given in calls + calls:
            self.check_same(compiled(given), f(given))
        self.assertEqual(counter.frame_count, 4)
        compiled(Scaled(double, 3.0))
        self.assertEqual(counter.frame_count, 5)
        for backend in ("aot_eager", "inductor"):
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            for given in calls:
                self.check_same(compiled(given), f(given))

    def test_aot_sees_the_parts(self):
        TwoTensor, _ = self.kinds()
        backend = AotEagerAndRecordGraphs()
        torch.compile(lambda x: x.sin(), backend=backend, fullgraph=True)(TwoTensor(ones, ones))
        calls = [node for node in backend.fw_graphs[0].graph.nodes if node.op == "call_function"]
        self.assertEqual(len(calls), 2)

    def test_a_break_between(self):
        TwoTensor, _ = self.kinds()
        def f(x):
            y = x + 1
            torch._dynamo.graph_break()
            return y * x.a
        counter = CompileCounter()
        x = TwoTensor(torch.randn(3), torch.randn(3))
        self.check_same(torch.compile(f, backend=counter)(x), f(x))
        self.assertEqual(counter.frame_count, 2)
""",
        tmp_path,
    )


def test_modes_around_the_call(tmp_path):
    passes(
        """
    def kinds(self):
        from torch.overrides import TorchFunctionMode
        class Scaling(TorchFunctionMode):
            def __init__(self, by=2):
                super().__init__()
                self.by, self.calls = by, 0
            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.calls += 1
                result = func(*args, **(kwargs or {}))
                return result * self.by if func is torch.add else result
        class Subtracting(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return (torch.sub if func is torch.add else func)(*args, **(kwargs or {}))
        return Scaling, Subtracting

    def test_the_stack_of_modes_is_guarded_and_followed(self):
        Scaling, Subtracting = self.kinds()
        f = lambda x: torch.add(x, 2)
        for backend in ("eager", "aot_eager", "inductor"):
            torch._dynamo.reset()
            counter = CompileCounterWithBackend(backend)
            compiled = torch.compile(f, backend=counter, fullgraph=True)
            x = torch.randn(3)
            for count, modes in ((1, []), (2, [Scaling]), (2, [Scaling]), (3, [Scaling, Subtracting]),
                                 (4, [Subtracting, Scaling]), (4, []), (4, [Scaling])):
                with contextlib.ExitStack() as stack:
                    for mode in modes:
                        stack.enter_context(mode())
                    got, wanted = compiled(x), f(x)
                self.assertEqual(got, wanted)
                self.assertEqual(counter.frame_count, count)

    def test_what_a_mode_keeps_is_read_and_written(self):
        Scaling, _ = self.kinds()
        counter = CompileCounter()
        compiled = torch.compile(lambda x: torch.add(x, 2).sin(), backend=counter, fullgraph=True)
        for by in (2, 3, 2):
            mode, other = Scaling(by), Scaling(by)
            with mode:
                got = compiled(ones)
            with other:
                wanted = torch.add(ones, 2).sin()
            self.assertEqual(got, wanted)
            self.assertEqual(mode.calls, other.calls)

    def test_a_break_under_a_mode(self):
        Scaling, _ = self.kinds()
        def f(x):
            y = torch.add(x, 1)
            torch._dynamo.graph_break()
            return torch.add(y, 2)
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter)
        with Scaling():
            self.assertEqual(compiled(ones), f(ones))
        self.assertEqual(compiled(ones), f(ones))
        self.assertEqual(counter.frame_count, 4)
""",
        tmp_path,
    )


def test_histories_that_a_backend_cannot_give(tmp_path):
    passes(
        """
    def backends(self):
        from functorch.compile import nop
        from torch._dynamo.backends.common import aot_autograd
        return CompileCounter(), aot_autograd(fw_compiler=nop)

    def test_leaves_made_inside(self):
        def set_on_computed(x):
            y = x * 2
            y.requires_grad_()
            return (y * 3).sum(), y
        def made(x):
            y = torch.ones(3, requires_grad=True)
            return y, y * x
        def detached(x):
            y = x.detach().requires_grad_()
            return y * 2
        def parameter(x):
            p = torch.nn.Parameter(x * 2)
            return p * 3
        def used_up(x):
            y = torch.zeros(3, requires_grad=True)
            (y * x).sum().backward()
            return y.grad
        for f in (set_on_computed, made, detached, parameter, used_up):
            for backend in self.backends():
                torch._dynamo.reset()
                got, wanted = torch.compile(f, backend=backend)(ones), f(ones)
                for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, wanted))):
                    self.assertEqual(one, other)
                    self.assertEqual((one.requires_grad, one.is_leaf), (other.requires_grad, other.is_leaf))

    def test_what_fullgraph_cannot_give_is_an_error(self):
        def f(x):
            y = torch.ones(3, requires_grad=True)
            return y * x
        self.assertTrue(torch.compile(f, backend=CompileCounter(), fullgraph=True)(ones).requires_grad)
        with self.assertRaises(Unsupported):
            torch.compile(f, backend=self.backends()[1], fullgraph=True)(ones)

    def test_hooks_of_a_graph_that_is_traced(self):
        def tripled(x, seen):
            y = x * 2
            y.register_hook(lambda g: g * 3)
            y.register_hook(lambda g: seen.append(g))
            return y.sin()
        def removed(x, seen):
            y = x * 2
            handle = y.register_hook(lambda g: g * 3)
            handle.remove()
            return y.sin()
        def of_the_call(x, seen, factor=5):
            y = x * 2
            z = y.sin()
            y.register_hook(lambda g: g * z)
            return z
        for f in (tripled, removed, of_the_call):
            compiled = torch.compile(f, backend=self.backends()[1], fullgraph=True)
            results = []
            for function in (compiled, f):
                seen, leaves = [], [torch.full((3,), float(i + 1), requires_grad=True) for i in range(2)]
                for out in [function(leaf, seen) for leaf in leaves]:  # both forwards before the backwards
                    out.sum().backward()
                results.append([leaf.grad for leaf in leaves] + seen)
            self.assertEqual(*results)

    def test_a_handle_of_a_traced_graph(self):
        def f(x):
            y = x * 2
            return y.sin(), y.register_hook(lambda g: g * 3)
        x = torch.ones(3, requires_grad=True)
        out, handle = torch.compile(f, backend=self.backends()[1], fullgraph=True)(x)
        handle.remove()
        out.sum().backward()
        self.assertEqual(x.grad, 2 * (2 * x).cos())
""",
        tmp_path,
    )


def test_memory_that_inputs_share_in_part(tmp_path):
    passes(
        """
    def test_writes_to_one_are_seen_in_the_other(self):
        def f(a, c):
            a.mul_(2)
            return a + 1, c + 1
        for backend in ("eager", "aot_eager", "inductor", CompileCounter()):
            torch._dynamo.reset()
            compiled = torch.compile(f, backend=backend, fullgraph=True)
            for grad in (False, True):
                for begin in (2, 0, 1, 2):
                    memory = [torch.arange(6.0, requires_grad=grad) * 1 for _ in range(2)]
                    got, wanted = (function(base[:4], base[begin:begin + 4])
                                   for function, base in zip((compiled, f), memory))
                    self.assertEqual(got, wanted)
                    self.assertEqual(*memory)
""",
        tmp_path,
    )


def test_checkpoints_that_choose(tmp_path):
    passes(
        """
    def test_policies_and_states_change_no_value(self):
        from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
        def policy(context, op, *args, **kwargs):
            keep = op is torch.ops.aten.mm.default
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        body = lambda x: (x.sin() @ x.cos().t()).relu()
        for options in ({"context_fn": contexts}, {"preserve_rng_state": False}):
            f = lambda x: checkpoint(body, x, use_reentrant=False, **options)
            for backend in ("eager", "aot_eager", "inductor", CompileCounter()):
                torch._dynamo.reset()
                leaves = [torch.arange(6.0).view(2, 3).requires_grad_() for _ in range(2)]
                for function, leaf in zip((torch.compile(f, backend=backend, fullgraph=True), f), leaves):
                    function(leaf).sum().backward()
                self.assertEqual(leaves[0].grad, leaves[1].grad)
""",
        tmp_path,
    )
