"""What nodes of graphs say of the modules that they were called in."""

from suite import passes


def test_module_stacks(tmp_path):
    body = """
    def stacks(self, function, *arguments):
        backend = EagerAndRecordGraphs()
        torch.compile(function, backend=backend, fullgraph=True)(*arguments)
        stacks = [node.meta.get("nn_module_stack", {}) for node in backend.graphs[0].graph.nodes
                  if node.op == "call_function"]
        return [[(path, cls.__name__) for path, cls in stack.values()] for stack in stacks], stacks

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)
        def forward(module, x):
            return module.fc(x) + 1

    def test_those_that_are_compiled(self):
        paths, _ = self.stacks(self.Layer(), ones)
        self.assertEqual(paths, [[("L['module'].fc", "Linear")], []])
        paths, _ = self.stacks(torch.nn.Sequential(torch.nn.Linear(3, 3)), ones)
        self.assertEqual(paths, [[("L['fn']", "Sequential"), ("L['fn'].0", "Linear")]])

    def test_those_that_functions_use(self):
        layer, layers, named = self.Layer(), [self.Layer()], torch.nn.ModuleDict({"a": torch.nn.ReLU()})
        paths, _ = self.stacks(lambda m, x: named["a"](layers[0](layer(m(x)))), torch.nn.ReLU(), ones)
        inner = lambda path: [[(path, "Layer"), (path + ".fc", "Linear")], [(path, "Layer")]]
        self.assertEqual(paths, [[("L['m']", "ReLU")], *inner("L['layer']"), *inner("L['layers'][0]"),
                                 [("L['named'].a", "ReLU")]])

    def test_calls_of_one_module(self):
        layer = self.Layer()
        _, stacks = self.stacks(lambda x: layer(layer(x)), ones)
        first, second = str(id(layer)), f"{id(layer)}@1"
        self.assertEqual([list(stack)[0] for stack in stacks], [first, first, second, second])
    """
    assert passes(body, tmp_path) == 3
