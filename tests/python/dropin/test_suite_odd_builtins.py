"""Tests as PyTorch's users write them: addresses, texts that nobody reads, variables as dicts, other odd builtins."""

from suite import passes


def test_addresses_and_texts(tmp_path):
    passes(
        """
    def one_graph(self, function, *calls):
        counter = CompileCounter()
        compiled = torch.compile(function, backend=counter, fullgraph=True)
        for arguments in calls:
            self.assertEqual(compiled(*arguments), function(*arguments))
        self.assertEqual(counter.frame_count, 1)

    def test_ids_of_what_is_made_inside(self):
        def f(x):
            first = [x]
            same, other = first, [x]
            known = {id(first): x + 1}
            return known[id(same)], id(first) == id(same), id(first) == id(other), id(other) in known
        self.one_graph(f, (ones,), (ones,))

    def test_an_address_never_leaves(self):
        for f in (lambda x: (x + 1, id([x])), lambda x: x * (id([x]) % 7), lambda x: (x + 1, hex(id([x])))):
            with self.assertRaises(Unsupported):
                torch.compile(f, backend="eager", fullgraph=True)(ones)
        def g(x):
            made = [x + 1]
            return made, id(made)
        made, address = torch.compile(g, backend="eager")(ones)
        self.assertEqual(id(made), address)

    def test_hashes_and_copies_of_own_objects(self):
        import copy
        class Error(Exception):
            pass
        def g(x):
            one, other = Error(1), Error(1)
            mapping = collections.UserDict(a=[1])
            copied = copy.deepcopy(mapping)
            copied["a"].append(2)
            return x + len({one, other}) + (hash(one) == hash(one)), mapping["a"], copied["a"]
        self.one_graph(g, (ones,), (ones,))

    def test_texts_of_objects_in_messages(self):
        class Plain:
            def __eq__(self, other):
                return True
        def check(condition, message):
            if not condition:
                raise ValueError(message)
        def f(x):
            made, function = [Plain(), x], lambda: 0
            check(made[0] == 5, f"{made} != {function} or {made[0]!r:>8}")
            check(x.shape[0] == 3, f"{made}: {dict(a=made)}")
            itself = [1]
            itself.append(itself)
            return x + 1, repr(itself), f"{itself}"
        self.one_graph(f, (ones,))
        def g(x):
            return x + len(f"{Plain()}")
        with self.assertRaises(Unsupported):
            torch.compile(g, backend="eager", fullgraph=True)(ones)
    """,
        tmp_path,
    )


def test_what_builtins_tell(tmp_path):
    passes(
        """
    def one_graph(self, function, *calls):
        counter = CompileCounter()
        compiled = torch.compile(function, backend=counter, fullgraph=True)
        for arguments in calls:
            self.assertEqual(compiled(*arguments), function(*arguments))
        self.assertEqual(counter.frame_count, 1)

    def test_variables_as_a_dict(self):
        def f(x):
            first = locals()
            number = 2
            second = vars()
            seen = sorted(second)
            del number
            return x + 1, first is second, seen, sorted(locals())
        self.one_graph(f, (ones,))

    def test_errors_of_vars_and_sum(self):
        def f(x):
            texts = []
            for wrong in (lambda: vars(5), lambda: sum(["a"], ""), lambda: sum([b"a"], b"")):
                try:
                    texts.append(wrong())
                except TypeError as error:
                    texts.append(str(error))
            return x + 1, texts
        self.one_graph(f, (ones,))

    def test_names_of_things(self):
        class Own:
            attribute = 3
            def __init__(self):
                self.mine = 4
        own = Own()
        def f(x):
            return x + len(dir(Own)), dir(own), "append" in dir(list), dir(Own) == sorted(dir(Own))
        self.one_graph(f, (ones,))
        own.other = 1
        self.one_graph(f, (ones,))

    def test_constants(self):
        import struct, traceback
        def plain(x):
            return x
        def f(x):
            try:
                raise ValueError("a")
            except ValueError as error:
                lines = traceback.extract_tb(error.__traceback__)
            facts = torch.finfo(torch.float16), torch.iinfo(torch.int8)
            packed = struct.unpack("<h", struct.pack("<h", 3))[0]
            return x + eval("1 + 2") + packed, eval("[4, (5,)]"), lines[-1].name, len(lines), plain.__closure__, facts
        self.one_graph(f, (ones,))

    def test_numbers_of_own_classes(self):
        class Count(int):
            pass
        class Share(float):
            def __new__(cls, value, unit="m"):
                made = super().__new__(cls, value)
                made.unit = unit
                return made
        outside = Count(2)
        def f(x):
            made = Count(1)
            return x[0:made], x[made], x * Share(2.5), torch.ones(made, outside), x.sum(dim=Count(0)), x[:outside]
        self.one_graph(f, (ones,))
        def g(x):
            return x * outside
        compiled = torch.compile(g, backend="eager", fullgraph=True)
        self.assertEqual(compiled(ones), ones * 2)
        outside = Count(3)
        self.assertEqual(compiled(ones), ones * 3)

    def test_graphs_of_nothing(self):
        def written(x, items):
            items.append(1)
            return x
        def unread(x):
            x[0]
            return x + 1
        for function, arguments, frames, operators in (
            (lambda x: x, (ones,), 1, 0), (written, (ones, []), 0, 0), (unread, (ones,), 1, 1)
        ):
            counter = CompileCounter()
            torch.compile(function, backend=counter, fullgraph=True)(*arguments)
            self.assertEqual((counter.frame_count, counter.op_count), (frames, operators))

    def test_errors_of_stars(self):
        def f(x):
            try:
                [1, *5]
            except TypeError as error:
                return x + 1, str(error)
        self.one_graph(f, (ones,))

    def test_names_of_callables_that_fail(self):
        def f(x):
            self.assertRaises(IndexError, operator.itemgetter(5), [1])
            self.assertRaises(ValueError, functools.partial(int, base=2), "9")
            return x + 1
        torch._dynamo.config.enable_trace_unittest = True
        self.one_graph(f, (ones,))
        torch._dynamo.config.enable_trace_unittest = False

    def test_fields_of_namedtuples(self):
        Pair = collections.namedtuple("Pair", "first second")
        def f(x):
            return Pair(x, x + 1).second, Pair.first is Pair.__dict__["first"], Pair.first
        self.one_graph(f, (ones,))

    def test_the_largest_of_many(self):
        def f(x):
            items = [x[0], x[1], 2.0]
            return max(x), min(x), max(items), min(x[0], x[1], x[2]), max(3, 1, 2)
        for x in (torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 5.0, 0.5])):
            compiled = torch.compile(f, backend="eager", fullgraph=True)
            self.assertEqual([torch.as_tensor(i) for i in compiled(x)], [torch.as_tensor(i) for i in f(x)])

    def test_blocks_that_only_watch(self):
        def f(x):
            with torch.profiler.profile() as one, torch.autograd.profiler.profile():
                y = x.sin()
            with torch.cpu.amp.autocast():
                return y[:, None] @ x[None]
        counter = CompileCounter()
        self.assertEqual(torch.compile(f, backend=counter, fullgraph=True)(ones), f(ones))
        self.assertEqual(counter.frame_count, 1)
    """,
        tmp_path,
    )
