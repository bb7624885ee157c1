"""torch.compile(options={"guard_filter_fn": …}): a program is shown the guards of a piece, and leaves some out."""

import contextlib
import functools
import weakref

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
# Of the state around a call, which all of Firesteel's pieces are guarded by.
_AROUND = ("SHAPE_ENV", "GRAD_MODE", "DETERMINISTIC_ALGORITHMS", "DEFAULT_DEVICE", "TORCH_FUNCTION_STATE")
_AROUND += ("GLOBAL_STATE", "AUTOGRAD_SAVED_TENSORS_HOOKS")


def taken_from(options):
    """The options without a filter of guards, and what Firesteel asks in its place."""
    if not options or "guard_filter_fn" not in options:
        return options, None
    rest = {name: value for name, value in options.items() if name != "guard_filter_fn"}
    chosen = options["guard_filter_fn"]
    return rest or None, chosen and functools.partial(_kept, chosen)


def _kept(chosen, rows):
    return chosen([_entry(*row) for row in rows])


def exporting(export):
    """A filter that leaves out nothing, and shows a program's function the guards, as a set of PyTorch's."""

    def show(rows):
        from torch._guards import GuardsSet

        shown = GuardsSet()
        shown.inner = {_Guard(name, _KINDS[kind][0], module, value) for name, _, value, kind, _, module in rows}
        shown.inner |= {_Guard("", kind, None) for kind in _AROUND}
        export(shown)
        return [True] * len(rows)

    return show


def _entry(name, found, value, kind, is_global, module):
    from torch._dynamo.types import GuardFilterEntry

    theirs, *derived = _KINDS[kind]
    return GuardFilterEntry(name, found, value, theirs, tuple(derived), is_global, _Guard(name, theirs, module))


_CODE = {
    "CONSTANT_MATCH": "{name} == {value!r}",
    "TENSOR_MATCH": "hasattr({name}, '_dynamo_dynamic_indices') == False",
    "SEQUENCE_LENGTH": "len({name}) == {value!r}.__len__()",
    "ID_MATCH": "___check_obj_id({name}, ...)",
    "TYPE_MATCH": "___check_type_id({name}, ...)",
}


class _Guard:
    """What filters ask of PyTorch's own guard."""

    def __init__(self, name, kind, module, value=None):
        self.name, self.kind, self.source = name, kind, _Source(name, module)
        self.originating_source, self.obj_weakref, self.guarded_class_weakref = self.source, None, None
        with contextlib.suppress(TypeError):
            self.obj_weakref = weakref.ref(value)
            self.guarded_class_weakref = weakref.ref(type(value))
        self.guard_types = ["EQUALS_MATCH" if kind == "CONSTANT_MATCH" else kind] if name else None
        self.code_list = [_CODE[kind].format(name=name, value=value)] if name and kind in _CODE else None

    def create_fn_name(self):
        return self.kind


class _Source:
    def __init__(self, name, module):
        self.name, self._module = name, module

    def is_unspecialized_nn_module(self):
        return self._module is not None

    is_nn_module = is_specialized_nn_module = is_unspecialized_nn_module

    def is_unspecialized_builtin_nn_module(self):
        return self._module is not None and type(self._module).__module__.startswith(torch.nn.__name__ + ".")
