"""What programs set around torch.compile: modes, options, limits, callbacks, logs, sizes that they name as open."""

from suite import passes


def test_modes_options_and_backends(tmp_path):
    passes(
        """
    def test_known_modes(self):
        for mode in ("default", "reduce-overhead", *torch._inductor.list_mode_options()):
            self.assertEqual(torch.compile(lambda x: x + 1, mode=mode)(ones), ones + 1)

    def test_what_inductor_does_not_know(self):
        for wrong in ({"mode": "fastest"}, {"options": {"fastest": True}}, {"options": {"max_autotune": "yes"}},
                      {"mode": "default", "options": {"max_autotune": True}}):
            with self.assertRaises(RuntimeError):
                torch.compile(lambda x: x, **wrong)

    def test_options_that_it_knows(self):
        options = {"max_autotune": True, "epilogue_fusion": False}
        self.assertEqual(torch.compile(lambda x: x + 1, options=options)(ones), ones + 1)

    def test_backends_that_are_listed(self):
        listed = torch._dynamo.list_backends()
        self.assertIn("inductor", listed)
        self.assertNotIn("eager", listed)
        self.assertIn("eager", torch._dynamo.list_backends(None))

    def test_what_was_compiled_is_found_again(self):
        def f(x):
            return x
        for wrapped in (torch.compile(f), torch._dynamo.disable(f)):
            self.assertIs(torch._dynamo.eval_frame.innermost_fn(wrapped), f)
    """,
        tmp_path,
    )


def test_who_is_told(tmp_path):
    passes(
        """
    def told(self, name, program, **logs):
        lines = []
        class Keeper(logging.Handler):
            def emit(self, record):
                lines.append(record.getMessage())
        keeper, logger = Keeper(), logging.getLogger(name)
        torch._logging.set_logs(**logs)
        logger.addHandler(keeper)
        try:
            program()
        finally:
            logger.removeHandler(keeper)
            torch._logging.set_logs()
        program()
        return "\\n".join(lines)

    def test_logs(self):
        def recompiles():
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: x.sin(), backend="eager", dynamic=False)
            compiled(ones), compiled(torch.ones(5))
        def breaks():
            torch._dynamo.reset()
            torch.compile(lambda x: (x + 1, torch._dynamo.graph_break(), x * 2), backend="eager")(ones)
        text = self.told("torch._dynamo.guards.__recompiles", recompiles, recompiles=True)
        self.assertEqual(text.count("Recompiling function"), 1)
        self.assertIn("size", text)
        text = self.told("torch._dynamo.symbolic_convert.__graph_breaks", breaks, graph_breaks=True)
        self.assertEqual(text.count("Graph break"), 1)
        text = self.told("torch._dynamo.output_graph.__graph_code", recompiles, graph_code=True)
        self.assertEqual(text.count("TRACED GRAPH"), 2)
        self.assertIn("sin", text)

    def test_measures_and_explanations(self):
        def f(x):
            x = x.sin()
            torch._dynamo.graph_break()
            return x + 1
        torch._dynamo.utils.clear_compilation_metrics()
        torch.compile(f, backend="eager")(ones)
        found = torch._dynamo.utils.get_compilation_metrics()
        self.assertEqual([one.graph_op_count for one in found], [1, 1])
        self.assertEqual({one.co_name for one in found}, {"f"})
        (reason,) = torch._dynamo.explain(f)(ones).break_reasons
        self.assertEqual(reason.user_stack[-1].line, "torch._dynamo.graph_break()")

    def test_callbacks(self):
        from torch._dynamo.callback import callback_handler, on_compile_end, on_compile_start
        events = []
        on_compile_start(lambda args: events.append("start"))
        on_compile_end(lambda args: events.append("end"))
        try:
            compiled = torch.compile(lambda x: x + 1, backend="eager")
            compiled(ones), compiled(ones)
        finally:
            callback_handler.clear()
        self.assertEqual(events, ["start", "end"])

    def test_all_that_was_compiled_of_a_function_counts(self):
        with config.patch(accumulated_recompile_limit=3, recompile_limit=10):
            counts = counted(lambda x: x + 1, *[(torch.ones(size),) for size in range(2, 8)], dynamic=False)
        self.assertEqual(counts[-1], 3)
    """,
        tmp_path,
    )


def test_sizes_that_programs_name(tmp_path):
    passes(
        """
    def test_sources(self):
        for setting in ("dynamic_sources", "unbacked_sources"):
            for names in ("L['x']", "L['y'], L['x']", "L.*"):
                with torch.compiler.config.patch(**{setting: names}):
                    self.assertEqual(counted(lambda x: x * 2, (ones,), (torch.ones(5),), fullgraph=True), [1, 1])
        with torch.compiler.config.patch(dynamic_sources="L['n']"):
            self.assertEqual(counted(lambda x, n: x * n, (ones, 5), (ones, 6), fullgraph=True), [1, 1])
        self.assertEqual(counted(lambda x: x * 2, (ones,), (torch.ones(5),)), [1, 2])

    def test_addresses(self):
        held, other = torch.ones(3), torch.ones(3)
        torch._dynamo.mark_static_address(held, guard=True)
        torch._dynamo.mark_static_address(other, guard=True)
        self.assertEqual(counted(lambda x, b: x + b, (ones, held), (ones, held), (ones, other)), [1, 1, 2])
        loose = torch.ones(3)
        torch._dynamo.mark_static_address(loose, guard=False)
        self.assertEqual(counted(lambda x, b: x * b, (ones, loose), (ones, torch.ones(3))), [1, 1])

    def test_what_changed_since_the_eager_call_stays_open(self):
        for stance in ("eager_then_compile", "aot_eager_then_compile"):
            counter = CompileCounter()
            def f(x, y, n):
                return x["a"][0] * y * n
            compiled = torch.compile(f, backend=counter)
            with torch.compiler.set_stance(stance):
                for size in (2, 3, 4):
                    x, y = {"a": [torch.randn(size)]}, torch.randn(size)
                    self.assertEqual(compiled(x, y, size + 5), f(x, y, size + 5))
            self.assertEqual(counter.frame_count, 1)

    def test_only_the_frame_of_a_module_is_skipped(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 3)
            def forward(self, x):
                return self.layer(x.sin())
        model, counter = Model(), CompileCounter()
        skipped = torch._dynamo.disable(recursive=False)(model)
        def f(x):
            return skipped(x) + 1
        self.assertEqual(torch.compile(f, backend=counter)(ones), f(ones))
        self.assertEqual(counter.frame_count, 2)
        self.assertEqual(counter.op_count, 2)
    """,
        tmp_path,
    )
