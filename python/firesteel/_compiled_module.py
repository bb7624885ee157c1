"""What compile() and the controls give back for a module: the module itself in all but its calls."""

import collections
import copy
import types
import weakref

import torch

_PREFIX = "_orig_mod."
# Special methods that are the wrapper's own, or belong to the class alone.
_OWN = {
    *("__annotations__", "__call__", "__class__", "__class_getitem__", "__constants__", "__copy__", "__deepcopy__"),
    *("__del__", "__delattr__", "__dict__", "__dir__", "__doc__", "__eq__", "__getattr__", "__getattribute__"),
    *("__getstate__", "__hash__", "__init__", "__init_subclass__", "__jit_unused_properties__", "__module__", "__ne__"),
    *("__new__", "__orig_bases__", "__parameters__", "__reduce__", "__reduce_ex__", "__repr__", "__setattr__"),
    *("__setstate__", "__slots__", "__weakref__"),
}
# Methods of every module that give the module back: here they give the wrapper.
_FLUENT = (
    *("apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "ipu", "mtia", "requires_grad_"),
    *("share_memory", "to", "to_empty", "train", "type", "xpu"),
)
_classes = weakref.WeakKeyDictionary()


class CompiledModule:
    """A module whose calls are compiled; everything else is the module's own, down to `isinstance`."""

    __slots__ = ("__weakref__", "_compiled", "_options", "_orig_mod")

    @staticmethod
    def of(module, options):
        return _around(module, options.native, options)

    @staticmethod
    def disabled(module, mark):
        """The same for a module whose calls `mark` has made something else of."""
        return _around(module, mark, mark)

    def __call__(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    @property
    def __class__(self):
        return type(self._orig_mod)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_orig_mod"), name)

    def __setattr__(self, name, value):
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __dir__(self):
        return [*dir(self._orig_mod), "_orig_mod"]

    def __repr__(self):
        inside = repr(self._orig_mod).replace("\n", "\n  ")
        return f"OptimizedModule(\n  (_orig_mod): {inside}\n)"  # as PyTorch writes it

    def __reduce__(self):
        return _again, (self._orig_mod, self._options)

    def __copy__(self):
        return _again(copy.copy(self._orig_mod), self._options)

    def __deepcopy__(self, memo):
        return _again(copy.deepcopy(self._orig_mod, memo), self._options)

    @property
    def dynamo_ctx(self):
        """Compiles a method of the module as its calls are; trainers know torch.compile'd modules to have it."""
        from ._compile import compile_with

        options = self._options
        return options if callable(options) else lambda function: compile_with(options, function)

    # ---- checkpoints of torch.compile'd modules carry a prefix

    def load_state_dict(self, state_dict, *args, **kwargs):
        return self._orig_mod.load_state_dict(self._without_prefix(state_dict, ""), *args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        renamed = self._without_prefix(state_dict, prefix)
        if renamed is not state_dict:
            state_dict.clear()
            state_dict.update(renamed)
        return self._orig_mod._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _without_prefix(self, state_dict, prefix):
        long = prefix + _PREFIX
        if "_orig_mod" in self._orig_mod._modules or not any(key.startswith(long) for key in state_dict):
            return state_dict

        def short(key):
            return prefix + key.removeprefix(long) if key.startswith(long) else key

        renamed = collections.OrderedDict((short(key), value) for key, value in state_dict.items())
        if hasattr(state_dict, "_metadata"):
            renamed._metadata = {short(key + ".")[:-1]: value for key, value in state_dict._metadata.items()}
        return renamed


def _around(module, wrap, options):
    if is_compiled_module(module):
        module = module._orig_mod
    made = object.__new__(_class_for(type(module)))
    call = wrap(types.MethodType(type(module).__call__, module))
    for name, value in (("_orig_mod", module), ("_options", options), ("_compiled", call)):
        object.__setattr__(made, name, value)
    return made


def _again(module, options):
    return CompiledModule.disabled(module, options) if callable(options) else CompiledModule.of(module, options)


def is_compiled_module(module):
    return issubclass(type(module), CompiledModule)


def _class_for(original):
    """The wrapper's class for modules of a class: special methods are looked up in a class, so they must be there."""
    if original in _classes:
        return _classes[original]
    passed_on = {name: _pass_on(name) for name in _FLUENT}
    for ancestor in original.__mro__[: original.__mro__.index(torch.nn.Module)]:
        for name in vars(ancestor):
            if name.startswith("__") and name.endswith("__") and name not in _OWN:
                passed_on.setdefault(name, _pass_on(name))
    if issubclass(original, torch.nn.modules.lazy.LazyModuleMixin):
        passed_on["__call__"] = _call_initialized
    made = type("CompiledModule", (CompiledModule,), {"__slots__": (), "__module__": __name__, **passed_on})
    return _classes.setdefault(original, made)


def _call_initialized(self, *args, **kwargs):
    """A lazy module learns its sizes first, so that what is compiled is the module that it becomes."""
    if "_initialize_hook" in vars(self._orig_mod):
        self._orig_mod._infer_parameters(self._orig_mod, args, kwargs)
    return self._compiled(*args, **kwargs)


def _pass_on(name):
    def method(self, *args, **kwargs):
        result = getattr(type(self._orig_mod), name)(self._orig_mod, *args, **kwargs)
        return self if result is self._orig_mod else result

    method.__name__ = name
    return method
