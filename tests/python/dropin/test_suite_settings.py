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


def test_functions_that_tell_come_when_the_graph_has_run(tmp_path):
    passes(
        """
    def printed(self, function, *arguments, **options):
        import io
        counter = CompileCounter()
        compiled = torch.compile(function, backend=counter, **options)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), config.patch(reorderable_logging_functions={print}):
            for given in arguments:
                self.assertEqual(compiled(*given), compiled(*given))
        return counter.frame_count, out.getvalue()

    def test_print(self):
        def f(x, n):
            y = x + 1
            print("n is", n, sep="=", end=";")
            return y * n
        self.assertEqual(self.printed(f, (ones, 3), fullgraph=True), (1, "n is=3;n is=3;"))

    def test_what_it_shows(self):
        def inner(x):
            print(x.shape, x)
            return x + 1
        def f(x):
            print("first")
            y = inner(x) * 2
            print("last", y)
            return y
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, fullgraph=True)
        import io
        out, expected = io.StringIO(), io.StringIO()
        with config.patch(reorderable_logging_functions={print}):
            with contextlib.redirect_stdout(out):
                compiled(ones)
            with contextlib.redirect_stdout(expected):
                f(ones)
        self.assertEqual(out.getvalue(), expected.getvalue())
        self.assertEqual((counter.frame_count, counter.op_count), (1, 2))

    def test_it_is_said_at_the_time(self):
        def f(x):
            y = x + 1
            print("here")
            return y * 2
        self.assertEqual(self.printed(f, (ones,)), (1, "here\\nhere\\n"))
        counter = CompileCounter()
        torch.compile(f, backend=counter)(ones)
        self.assertEqual(counter.frame_count, 2)

    def test_loggers_and_functions_of_the_program(self):
        seen = []
        def note(*things, **named):
            seen.append((len(things), named))
        class Keeper(logging.Handler):
            def emit(self, record):
                seen.append(record.getMessage())
        logger = logging.getLogger("a program's own")
        logger.addHandler(Keeper())
        def f(x):
            logger.warning("seen %s", 3)
            note(x, "a", of=x.shape[0])
            return x + 1
        with config.patch(reorderable_logging_functions={logger.warning, note}):
            counter = CompileCounter()
            compiled = torch.compile(f, backend=counter, fullgraph=True)
            compiled(ones)
            compiled(ones)
        self.assertEqual(seen, ["seen 3", (2, {"of": 3})] * 2)
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )


def test_guards_that_are_shown(tmp_path):
    passes(
        """
    def test_names_and_kinds(self):
        shown = []
        apply = torch._dynamo.optimize("eager", guard_export_fn=lambda guards: shown.append(list(guards)))
        compiled = apply(lambda x, n: x + n)
        self.assertEqual(compiled(ones, 4), ones + 4)
        self.assertEqual(len(shown), 1)
        kinds = {(guard.name, guard.create_fn_name()) for guard in shown[0]}
        self.assertLessEqual({("L['x']", "TENSOR_MATCH"), ("L['n']", "CONSTANT_MATCH")}, kinds)
        around = {guard.create_fn_name() for guard in shown[0] if not guard.name}
        self.assertLessEqual({"SHAPE_ENV", "GRAD_MODE", "TORCH_FUNCTION_STATE"}, around)
        compiled(ones, 4)
        self.assertEqual(len(shown), 1)

    def test_a_decorator_is_no_context_manager(self):
        with self.assertRaises(RuntimeError):
            with torch._dynamo.optimize("eager"):
                pass
    """,
        tmp_path,
    )


def test_sizes_that_settings_name(tmp_path):
    passes(
        """
    def test_dimensions_and_values(self):
        shapes = [(torch.randn(s),) for s in ((7, 3), (5, 3), (6, 4), (6, 5))]
        with torch.compiler.config.patch(dynamic_sources="L['x']:0"):
            self.assertEqual(counted(lambda x: x + 1, *shapes), [1, 1, 2, 2])
        with torch.compiler.config.patch(dynamic_values="7"):
            self.assertEqual(counted(lambda x: x - 1, *shapes[:2]), [1, 1])
        with torch.compiler.config.patch(unbacked_sources="L['n']"):
            self.assertEqual(counted(lambda x, n: x * n, *[(ones, n) for n in (4, 1, 0)]), [1, 1, 1])

    def test_zero_and_one_among_the_others(self):
        import torch.fx.experimental._config as fx_config
        rows = [(torch.randn(n, 3),) for n in (2, 3, 1, 0)]
        with fx_config.patch(backed_size_oblivious=True):
            self.assertEqual(counted(lambda x: x * 2, *rows), [1, 2, 2, 2])
        with config.patch(automatic_dynamic_shapes_mark_as="unbacked"):
            self.assertEqual(counted(lambda x: x * 3, *rows), [1, 2, 2, 2])
        self.assertEqual(counted(lambda x: x * 4, *rows), [1, 2, 3, 4])
    """,
        tmp_path,
    )


def test_notes_on_nodes(tmp_path):
    passes(
        """
    def notes(self, function):
        backend = EagerAndRecordGraphs()
        self.assertEqual(torch.compile(function, backend=backend, fullgraph=True)(ones), function(ones))
        return [node.meta.get("custom") for node in backend.graphs[0].graph.nodes if node.op == "call_function"]

    def test_blocks_and_functions(self):
        from torch.fx.traceback import annotate, annotate_fn

        def blocks(x):
            with annotate({"stage": 0}):
                with annotate({"part": 1}):
                    x = x + 1
                x = x * 2
            return x - 1

        @annotate_fn({"stage": 1})
        def inner(x):
            return x + 1

        self.assertEqual(self.notes(blocks), [{"stage": 0, "part": 1}, {"stage": 0}, None])
        self.assertEqual(self.notes(lambda x: inner(x) * 2), [{"stage": 1}, None])

    def test_a_break_inside(self):
        import torch.fx.traceback

        def f(x):
            with torch.fx.traceback.annotate({"stage": 0}):
                x = x + 1
                torch._dynamo.graph_break()
                x = x * 2
            return x - 1

        self.assertEqual(counted(f, (ones,)), [2])
    """,
        tmp_path,
    )
