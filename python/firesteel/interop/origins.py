"""What fx nodes say of where they come from: the function that was called, and the modules that it was called in."""

import re


def note(nodes, modules):
    """Notes it on the nodes of a call. `modules`: (id, path, weak reference to the class) of each, outermost first."""
    around = [(key, path, cls()) for key, path, cls in modules or ()]
    if around and re.fullmatch(r"\w+", around[0][1]):  # the one that was compiled
        around = around[1:]
    stack = {str(key): (_spelled(path), cls) for key, path, cls in around if cls is not None}
    called = list(stack.values())[-1][1] if stack else None
    for node in nodes:
        if stack:
            node.meta["nn_module_stack"] = dict(stack)
        of_torch = called is not None and called.__module__.startswith(("torch.nn.", "torch.ao."))
        node.meta["source_fn_stack"] = [(node.name, called if of_torch else node.target)]


def _spelled(path):
    """`self.layers[0].fc` as PyTorch spells it: `L['self'].layers.0.fc`."""
    root = re.match(r"\w*", path).group()
    rest = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path[len(root) :])
    return f"L['{root}']{rest.replace('._modules', '')}"
