"""Tests as PyTorch's users write them: contexts that change torch's state inside compiled functions."""

from suite import passes


def test_switches_of_torch(tmp_path):
    passes(
        """
    def same_in_one_graph(self, f, *arguments, ops=None, backends=("aot_eager", "inductor")):
        wanted = f(*arguments)
        for backend in (*backends, "eager", CompileCounter()):
            torch._dynamo.reset()
            got = torch.compile(f, backend=backend, fullgraph=True)(*arguments)
            self.assertEqual(got, wanted)
        self.assertEqual(backend.frame_count, 1)
        if ops:
            self.assertEqual(backend.op_count, ops)

    def test_the_default_dtype(self):
        @contextlib.contextmanager
        def default_dtype(dtype):
            before = torch.get_default_dtype()
            try:
                torch.set_default_dtype(dtype)
                yield
            finally:
                torch.set_default_dtype(before)
        def f(x):
            with default_dtype(torch.float64):
                y = torch.ones(3) / 3
            return x + y, torch.zeros(2), y
        self.same_in_one_graph(f, ones, ops=6, backends=())
        self.assertEqual(torch.compile(f, backend="aot_eager")(ones)[2].dtype, torch.float64)
        self.assertEqual(torch.get_default_dtype(), torch.float32)

    def test_a_default_dtype_that_stays(self):
        def f(x):
            torch.set_default_dtype(torch.float64)
            return x + torch.ones(3)
        for backend in ("eager", "aot_eager", "inductor"):
            compiled = torch.compile(f, backend=backend, fullgraph=backend == "eager")
            for _ in range(2):
                try:
                    result = compiled(ones)
                    self.assertEqual(torch.get_default_dtype(), torch.float64)
                finally:
                    torch.set_default_dtype(torch.float32)
                self.assertEqual(result, ones.double() + 1)

    def test_the_choice_of_attention(self):
        from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel
        before, seen = _cur_sdpa_kernel_backends(with_priority=True), []
        @torch._dynamo.allow_in_graph
        def look():
            seen.append(_cur_sdpa_kernel_backends())
        def f(x):
            with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
                return torch.nn.functional.scaled_dot_product_attention(x, x, x) + 1
        def g(x):
            with sdpa_kernel(SDPBackend.MATH):
                x = x + 1
                torch._dynamo.graph_break()
                look()
                return x * 2
        x = torch.randn(2, 2, 4, 4)
        self.same_in_one_graph(f, x)
        self.assertEqual(torch.compile(g, backend="eager")(x), (x + 1) * 2)
        self.assertEqual(seen[-1], [SDPBackend.MATH])
        self.assertEqual(_cur_sdpa_kernel_backends(with_priority=True), before)

    def test_another_choice_of_attention_compiles_again(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        counter = CompileCounter()
        compiled = torch.compile(lambda x: x + 1, backend=counter)
        compiled(ones)
        with sdpa_kernel(SDPBackend.MATH):
            compiled(ones)
        compiled(ones)
        self.assertEqual(counter.frame_count, 2)

    def test_hooks_for_saved_tensors_are_refused(self):
        refuse = torch.autograd.graph.disable_saved_tensors_hooks
        def f(x):
            @refuse("not here")
            def g(x):
                return x * 2
            return g(x) + 1
        recorded = EagerAndRecordGraphs()
        self.same_in_one_graph(f, ones)
        with refuse("nor there"):
            self.assertEqual(torch.compile(f, backend=recorded, fullgraph=True)(ones), ones * 2 + 1)
            text = "nor there"
            self.assertEqual(torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(), text)
        self.assertIn(text, recorded.graphs[0].code)
        self.assertTrue(torch._C._autograd._saved_tensors_hooks_is_enabled())
    """,
        tmp_path,
    )


def test_graphs_of_contexts(tmp_path):
    passes(
        """
    def test_autocast_is_two_calls(self):
        def f(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x
                with torch.autocast("cpu", enabled=False):
                    z = y.float() @ x
                return y + 1, z
        recorded, x = EagerAndRecordGraphs(), torch.randn(4, 4)
        wanted = f(x)
        for backend in (recorded, AotEagerAndRecordGraphs(), CompileCounterWithBackend("inductor")):
            torch._dynamo.reset()
            got = torch.compile(f, backend=backend, fullgraph=True)(x)
            self.assertEqual([t.dtype for t in got], [t.dtype for t in wanted])
            self.assertEqual(got, wanted)
        calls = [node.name for node in recorded.graphs[0].graph.nodes if node.op.startswith("call")]
        self.assertEqual([name.split("_autocast")[0] for name in calls if "autocast" in name],
                         ["_enter", "_enter", "_exit", "_exit"])
        self.assertEqual(len(calls), 8)
        self.assertFalse(torch.is_autocast_enabled("cpu"))

    def test_a_block_that_a_break_cuts_in_two(self):
        def f(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x
                torch._dynamo.graph_break()
                return y @ x
        x = torch.randn(4, 4)
        counter = CompileCounter()
        self.assertEqual(torch.compile(f, backend=counter)(x), f(x))
        self.assertEqual(counter.frame_count, 2)

    def test_switches_alone_are_no_graph(self):
        def inner(z):
            with torch.no_grad():
                torch._dynamo.graph_break()
                return z.sin()
        def f(x, z):
            return x @ x, inner(z), torch.is_grad_enabled()
        x = torch.randn(4, 4, requires_grad=True)
        counter = CompileCounter()
        got, wanted = torch.compile(f, backend=counter)(x, x), f(x, x)
        self.assertEqual(got, wanted)
        self.assertFalse(got[1].requires_grad)
        self.assertEqual(counter.frame_count, 2)

        def g(x):
            with torch.set_grad_enabled(False):
                torch._dynamo.graph_break()
                with torch.set_grad_enabled(True):
                    x = x * 5
                    torch._dynamo.graph_break()
                    x = x.sqrt()
            return x
        counter = CompileCounter()
        self.assertEqual(torch.compile(g, backend=counter)(ones), g(ones))
        self.assertEqual(counter.frame_count, 2)
        self.assertTrue(torch.is_grad_enabled())

    def test_inputs_come_in_the_order_of_their_use(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 3)
            def forward(self, x, *, scale):
                return self.layer(x) * scale
        def f(x, y):
            return y.sin() + x
        def names(f, *arguments, **named):
            recorded = EagerAndRecordGraphs()
            wanted = f(*arguments, **named)
            self.assertEqual(torch.compile(f, backend=recorded)(*arguments, **named), wanted)
            return [node.target for node in recorded.graphs[0].graph.nodes if node.op == "placeholder"]
        self.assertEqual(names(f, ones, ones * 2), ["L_y_", "L_x_"])
        layer = "L_self_modules_layer_parameters_"
        self.assertEqual(
            names(Model(), ones, scale=ones * 2), [f"{layer}weight_", f"{layer}bias_", "L_x_", "L_scale_"])

    def test_loops_over_tensors_read_items(self):
        def f(x):
            first, second = x
            return first * 2, sum(x), [row for row in x][1]
        counter, x = CompileCounter(), torch.randn(2, 3)
        self.assertEqual(torch.compile(f, backend=counter, fullgraph=True)(x), f(x))
        self.assertEqual(counter.op_count, 7)
    """,
        tmp_path,
    )


def test_graphs_with_switches(tmp_path):
    passes(
        """
    def text_of(self, f, *arguments):
        from torch._dynamo.testing import normalize_gm
        backend = EagerAndRecordGraphs()
        self.assertEqual(torch.compile(f, backend=backend, fullgraph=True)(*arguments), f(*arguments))
        (graph,) = backend.graphs
        for node in graph.graph.nodes:
            if getattr(node.target, "__name__", "").startswith(("_enter_", "_exit_")):
                self.assertIsNone(node.stack_trace)  # as in PyTorch's graphs
            elif node.op != "output":
                self.assertIn(__file__, node.stack_trace)
        lines = normalize_gm(graph.print_readable(print_output=False)).splitlines()
        return [line.split(";")[0].strip() for line in lines[3:] if line.strip()]

    def test_gradients(self):
        def f(x):
            with torch.set_grad_enabled(False):
                y = x.sin()
            return y.cos()
        self.assertEqual(self.text_of(f, ones), [
            "_set_grad_enabled = torch._C._set_grad_enabled(False)",
            'y: "f32[3]" = l_x_.sin()',
            "_set_grad_enabled_1 = torch._C._set_grad_enabled(True)",
            'cos: "f32[3]" = y.cos()',
            "return (cos,)"])

    def test_inference(self):
        def f(x):
            with torch.inference_mode():
                y = x.sin()
            return y.cos()
        self.assertEqual(self.text_of(f, ones), [
            "_enter_inference_mode = torch.autograd.grad_mode._enter_inference_mode(True)",
            'y: "f32[3]" = l_x_.sin()',
            "_exit_inference_mode = torch.autograd.grad_mode._exit_inference_mode(_enter_inference_mode)",
            'cos: "f32[3]" = y.cos()',
            "return (cos,)"])

    def test_blocks_in_blocks(self):
        def f(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                with torch.autocast("cpu", enabled=False, dtype=torch.float16):
                    y = x @ x
                return x @ y.to(x.dtype)
        self.assertEqual(self.text_of(f, torch.ones(3, 3)), [
            "_enter_autocast = torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, None)",
            "_enter_autocast_1 = torch.amp.autocast_mode._enter_autocast('cpu', torch.float16, False, None)",
            'y: "f32[3, 3]" = l_x_ @ l_x_',
            "_exit_autocast = torch.amp.autocast_mode._exit_autocast(_enter_autocast_1)",
            'to: "f32[3, 3]" = y.to(torch.float32)',
            'matmul_1: "bf16[3, 3]" = l_x_ @ to',
            "_exit_autocast_1 = torch.amp.autocast_mode._exit_autocast(_enter_autocast)",
            "return (matmul_1,)"])

    def test_deterministic_mode(self):
        seen = []
        @torch._dynamo.allow_in_graph
        def look():
            seen.append((torch.are_deterministic_algorithms_enabled(),
                         torch.is_deterministic_algorithms_warn_only_enabled()))
        def f(x):
            torch.use_deterministic_algorithms(True, warn_only=True)
            look()
            torch.use_deterministic_algorithms(False)
            return x + 1, torch.are_deterministic_algorithms_enabled()
        for backend in ("eager", "aot_eager", "inductor"):
            counter = CompileCounterWithBackend(backend)
            run = torch.compile(f, backend=counter, fullgraph=backend == "eager")
            for _ in range(2):
                self.assertEqual(run(ones), (ones + 1, False))
                self.assertFalse(torch.are_deterministic_algorithms_enabled())
            self.assertEqual(set(seen), {(True, True)})
            seen.clear()

    def test_a_mode_set_by_a_call_that_fails(self):
        def f(x):
            torch.use_deterministic_algorithms(True)
            y = x.sin()
            raise ValueError
        try:
            with self.assertRaises(ValueError):
                torch.compile(f, backend="eager")(ones)
            self.assertTrue(torch.are_deterministic_algorithms_enabled())
        finally:
            torch.use_deterministic_algorithms(False)

    def test_torch_functions_switched_off(self):
        enabled = torch._C._is_torch_function_enabled
        def f(x):
            answers = [enabled()]
            with torch._C.DisableTorchFunctionSubclass():
                x = x.sin()
                answers.append(enabled())
                with torch._C.DisableTorchFunction():
                    x = x.cos()
                    answers.append(enabled())
            return x, (*answers, enabled())
        def broken(x):
            with torch._C.DisableTorchFunction():
                x = x.sin()
                torch._dynamo.graph_break()
                x = x.cos()
            return x, enabled()
        def failing(x):
            with torch._C.DisableTorchFunction():
                raise ValueError(x.sin())
        for backend in ("eager", "aot_eager", "inductor"):
            counter = CompileCounterWithBackend(backend)
            run = torch.compile(f, backend=counter, fullgraph=True)
            for _ in range(2):
                self.assertEqual(run(ones), f(ones))
            self.assertEqual((counter.frame_count, counter.op_count), (1, 2))
            with torch._C.DisableTorchFunction():
                self.assertEqual(run(ones)[1], f(ones)[1])
            self.assertEqual(torch.compile(broken, backend=backend)(ones), broken(ones))
            with self.assertRaises(ValueError):
                torch.compile(failing, backend=backend)(ones)
            self.assertTrue(enabled())
    """,
        tmp_path,
    )
