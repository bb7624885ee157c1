"""Test classes of the kind that PyTorch has for its compiler: exceptions raised, caught and given back inside."""

from suite import passes


def test_exceptions_that_were_raised_are_given_back(tmp_path):
    """They have the type, the arguments, the cause and the traceback that they have without a compiler."""
    body = """
    def test_a_caught_exception_is_a_result(self):
        import traceback

        class Odd(Exception):
            pass

        def inner(x):
            raise Odd("a", 1)

        def fn(x):
            try:
                inner(x)
            except Odd as error:
                return x.sin(), error

        counter = CompileCounter()
        compiled = torch.compile(fn, backend=counter, fullgraph=True)
        for _ in range(2):
            y, error = compiled(ones)
            self.assertEqual(y, ones.sin())
            self.assertIs(type(error), Odd)
            self.assertEqual(error.args, ("a", 1))
            lines = [(f.name, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)]
            theirs = traceback.extract_tb(fn(ones)[1].__traceback__)
            self.assertEqual(lines, [(f.name, f.lineno, f.line) for f in theirs])
        self.assertEqual(counter.frame_count, 1)

    def test_with_its_cause(self):
        def fn(x):
            try:
                try:
                    raise ValueError("a")
                except ValueError as cause:
                    raise KeyError("b") from cause
            except KeyError as error:
                return x + 1, error

        _, error = torch.compile(fn, backend="eager", fullgraph=True)(ones)
        self.assertEqual(error.args, ("b",))
        self.assertEqual(error.__cause__.args, ("a",))
        self.assertIs(error.__context__, error.__cause__)
        self.assertTrue(error.__suppress_context__)

    def test_kept_outside(self):
        kept = []

        def fn(x):
            try:
                {}["k"]
            except KeyError as error:
                kept.append(error)
            return x + 1

        torch.compile(fn, backend="eager", fullgraph=True)(ones)
        self.assertEqual(kept[0].args, ("k",))

    def test_the_one_that_is_handled(self):
        import sys

        def fn(x):
            try:
                raise ValueError("a")
            except ValueError as error:
                now = sys.exc_info()[1]
                return x + 1, now is error, getattr(sys, "exception", lambda: error)() is error

        self.assertEqual(torch.compile(fn, backend="eager", fullgraph=True)(ones)[1:], (True, True))

    def test_its_text_is_not_asked_for(self):
        asked = []

        class Told(Exception):
            def __str__(self):
                asked.append(1)
                return "told"

        def fn(x):
            try:
                raise Told
            except Told:
                pass
            try:
                raise StopIteration(x)
            except StopIteration as stop:
                return stop.value + 1

        self.assertEqual(torch.compile(fn, backend="eager", fullgraph=True)(ones), ones + 1)
        self.assertEqual(asked, [])

    def test_what_cannot_be_called(self):
        def fn(x):
            try:
                x.shape[0]()
            except TypeError as error:
                return x + 1, str(error)

        self.assertEqual(torch.compile(fn, backend="eager", fullgraph=True)(ones)[1], "'int' object is not callable")
    """
    assert passes(body, tmp_path) == 6


def test_errors_also_say_what_pytorch_calls_them(tmp_path):
    body = """
    def test_breaks(self):
        @torch.compiler.disable
        def disabled(x):
            return x + 1

        def asked(x):
            torch._dynamo.graph_break()
            return x

        def decided(x):
            return x + 1 if x.sum() > 0 else x

        def raised(x):
            raise ValueError("mine")

        kinds = {
            "Call to `torch._dynamo.graph_break()`": asked,
            "Skip calling `torch.compiler.disable()`d function": lambda x: disabled(x),
            "Data-dependent branching": decided,
            "Observed exception": raised,
        }
        for kind, fn in kinds.items():
            with self.assertRaises(Unsupported) as found:
                torch.compile(fn, backend="eager", fullgraph=True)(ones)
            self.assertEqual(found.exception.gb_type, kind)
            self.assertIn("mine" if fn is raised else kind, str(found.exception))

    def test_stance(self):
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        compiled(ones)
        with torch.compiler.set_stance("fail_on_recompile"):
            with self.assertRaisesRegex(RuntimeError, "Detected recompile when torch.compile stance is"):
                compiled(torch.ones(2, 2))
    """
    assert passes(body, tmp_path) == 2


def test_modules_of_disabled_classes(tmp_path):
    body = """
    def test_are_left_alone_when_compiled(self):
        @torch._dynamo.disable
        class Module(torch.nn.Module):
            def forward(self, x):
                return x + 1

        counter = CompileCounter()
        self.assertEqual(torch.compile(Module(), backend=counter)(ones), ones + 1)
        self.assertEqual(counter.frame_count, 0)

    def test_settings_for_a_while_inside(self):
        def fn(x):
            with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
                return x + x.sum().item()

        self.assertEqual(torch.compile(fn, backend="eager", fullgraph=True)(ones), ones + 3)
        with self.assertRaises(ValueError):
            torch._dynamo.patch_dynamo_config(suppress_errors=True)
    """
    assert passes(body, tmp_path) == 2


def test_data_of_a_tensor_with_history(tmp_path):
    body = """
    def test_has_none(self):
        for backend in ("eager", "aot_eager", "inductor"):
            x = torch.ones(3, requires_grad=True) * 2
            compiled = torch.compile(lambda x: (x.data, x.data.mul_(3), x), backend=backend)
            data, written, same = compiled(x)
            self.assertFalse(data.requires_grad or written.requires_grad)
            self.assertIs(same, x)
            self.assertEqual(data.data_ptr(), x.data_ptr())
            self.assertEqual(x, ones * 6)
            torch._dynamo.reset()
    """
    assert passes(body, tmp_path) == 1


def test_errors_that_the_code_raises_itself(tmp_path):
    body = """
    def test_of_memory_and_of_the_stack(self):
        for kind in (MemoryError, RecursionError, KeyboardInterrupt):
            def fn(x):
                try:
                    raise kind("mine")
                except kind as error:
                    return x + 1, str(error)

            self.assertEqual(torch.compile(fn, backend="eager", fullgraph=True)(ones), (ones + 1, "mine"))

    def test_of_what_is_no_iterator(self):
        class Odd:
            def __iter__(self):
                return 5

        odd = Odd()

        def fn(x):
            try:
                return iter(odd)
            except TypeError as error:
                return x + 1, str(error)

        self.assertEqual(torch.compile(fn, backend="eager", fullgraph=True)(ones), fn(ones))

    def test_frames_of_tracebacks_can_be_looked_at(self):
        def made(step):
            def fn(x):
                def inner():
                    return step + x
                try:
                    raise ValueError(inner())
                except ValueError as error:
                    return x + 1, error
            return fn

        error = torch.compile(made(3), backend="eager", fullgraph=True)(ones)[1]
        frame = error.__traceback__.tb_frame
        self.assertEqual(frame.f_code.co_name, "fn")
        self.assertEqual(frame.f_lineno, error.__traceback__.tb_lineno)
        self.assertIs(frame.f_globals, globals())
        self.assertEqual(frame.f_locals, {})
        frame.clear()
        self.assertEqual(frame.f_locals, {})
    """
    assert passes(body, tmp_path) == 3
