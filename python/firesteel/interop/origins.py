"""What fx nodes say of where they come from: the function that was called, and the modules that it was called in."""

import re


class Origins:
    """Of the nodes of one graph."""

    def __init__(self):
        self.calls = {}  # by the id of a module: one entry for each call of it

    def note(self, nodes, modules):
        """Notes it on the nodes of a call. `modules`: of each its id, path and class, weakly; the outermost first.
        A block of notes among them is (None, "", dict)."""
        around = [(self._key(entry), entry[1], entry[2]()) for entry in modules or () if entry[0] is not None]
        notes = {name: note for key, _, block in modules or () if key is None for name, note in block.items()}
        root = "self"
        if around and around[0][1] == "self" and around[0][2]:  # the one that was compiled
            root = "fn" if _of_torch(around[0][2]) else _first_parameter(around[0][2].forward)
            around = around if root == "fn" else around[1:]
        stack = {key: (_spelled(path, root), cls) for key, path, cls in around if cls is not None}
        called = list(stack.values())[-1][1] if stack else None
        for node in nodes:
            if notes:
                node.meta["custom"] = dict(notes)
            if stack:
                node.meta["nn_module_stack"] = dict(stack)
            node.meta["source_fn_stack"] = [(node.name, called if called and _of_torch(called) else node.target)]

    def _key(self, entry):
        """Tells the calls of a module apart; all nodes of a call come with the same entry."""
        calls = self.calls.setdefault(entry[0], [])
        place = next((place for place, known in enumerate(calls) if known is entry), len(calls))
        if place == len(calls):
            calls.append(entry)
        return f"{entry[0]}@{place}" if place else str(entry[0])


def _of_torch(cls):
    return cls.__module__.startswith(("torch.nn.", "torch.ao."))


def _first_parameter(function):
    code = getattr(function, "__code__", None)
    return code.co_varnames[0] if code and code.co_argcount else "self"


def _spelled(path, root):
    """`self.layers._modules['0'].fc` as PyTorch spells it: `L['self'].layers.0.fc`."""
    path = re.sub(r"^(\w+) in the closure of (?:\w+|<\w+>)", r"\1", path)
    start = re.match(r"\w*", path).group()
    rest = re.sub(r"\._modules\[['\"](\w+)['\"]\]", r".\1", path[len(start) :])
    return f"L['{root if start == 'self' else start}']{rest}"
