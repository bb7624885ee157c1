"""torch.compile(options={"guard_filter_fn": …}): a program is shown the guards of a piece, and leaves some out."""

import functools

import torch

# Ours -> PyTorch's kind, and the kinds that it stands for.
_KINDS = {
    "Type": ("TYPE_MATCH",),
    "Identity": ("ID_MATCH",),
    "Constant": ("CONSTANT_MATCH", "EQUALS_MATCH"),
    "Length": ("SEQUENCE_LENGTH",),
    "Keys": ("DICT_KEYS_MATCH",),
    "Items": ("EQUALS_MATCH",),
    "Absent": ("DICT_NOT_CONTAINS",),
    "Present": ("DICT_CONTAINS",),
    "Code": ("CLOSURE_MATCH",),
    "Builtin": ("BUILTIN_MATCH",),
    "Tensor": ("TENSOR_MATCH",),
    "Same": ("DUPLICATE_INPUT",),
    "Distinct": ("NO_TENSOR_ALIASING",),
}


def taken_from(options):
    """The options without a filter of guards, and what Firesteel asks in its place."""
    if not options or "guard_filter_fn" not in options:
        return options, None
    rest = {name: value for name, value in options.items() if name != "guard_filter_fn"}
    chosen = options["guard_filter_fn"]
    return rest or None, chosen and functools.partial(_kept, chosen)


def _kept(chosen, rows):
    return chosen([_entry(*row) for row in rows])


def _entry(name, found, value, kind, is_global, module):
    from torch._dynamo.types import GuardFilterEntry

    theirs, *derived = _KINDS[kind]
    return GuardFilterEntry(name, found, value, theirs, tuple(derived), is_global, _Guard(name, theirs, module))


class _Guard:
    """What filters ask of PyTorch's own guard."""

    def __init__(self, name, kind, module):
        self.name, self.guard_types, self.source = name, [kind], _Source(name, module)

    def create_fn_name(self):
        return self.guard_types[0]


class _Source:
    def __init__(self, name, module):
        self.name, self._module = name, module

    def is_unspecialized_nn_module(self):
        return self._module is not None

    is_nn_module = is_specialized_nn_module = is_unspecialized_nn_module

    def is_unspecialized_builtin_nn_module(self):
        return self._module is not None and type(self._module).__module__.startswith(torch.nn.__name__ + ".")
