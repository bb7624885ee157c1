"""The backends a user may name: the built-in ones, registered ones and PyTorch's own; and which is the default."""

import functools
import weakref

from . import _C

# PyTorch's name for native code.
_ALIASES = {"inductor": "firesteel"}
_TORCH_PREFIX = "torch:"
_DEFAULT = "firesteel"

_registered = {}  # name -> (function, tags)
_made = weakref.WeakValueDictionary()  # what the native part has of them
_default = _DEFAULT


class BackendError(_C.Error):
    """A backend given by the user failed, or gave back what cannot be run."""


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a backend a name: `register_backend(f)`, `@register_backend`, or `@register_backend(name="mine")`.

    `compiler_fn(graph_module, example_inputs)` gives a callable that takes the tensors of the graph and returns a tuple
    of tensors.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend() needs a function, not {compiler_fn!r}")
    name = name or getattr(compiler_fn, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"register_backend(name=...) needs a name for {compiler_fn!r}")
    if name in _built_in() or name.startswith(_TORCH_PREFIX):
        raise ValueError(f'the name "{name}" is taken by a built-in backend')
    if name in _registered and _registered[name][0] is not compiler_fn:
        raise ValueError(f'the name "{name}" is taken by {_registered[name][0]!r}')
    _registered[name] = (compiler_fn, tuple(tags))
    return compiler_fn


def list_backends(exclude_tags=("debug", "experimental")):
    """The names that compile(backend=...) knows, less those registered under one of `exclude_tags`."""
    unwanted = set(exclude_tags or ())
    return [*_built_in(), *(name for name, (_, tags) in _registered.items() if not unwanted.intersection(tags))]


def set_default_backend(backend):
    """What compile() takes where no backend is given: a name or a function; None for the built-in choice."""
    global _default
    if backend is not None:
        resolve(backend)
    _default = _DEFAULT if backend is None else backend


def get_default_backend():
    """What compile() takes where no backend is given."""
    return _default


def is_default_set():
    """Whether the program has chosen a default of its own."""
    return _default is not _DEFAULT


def resolve(backend):
    """The name of a built-in backend, or the function behind a registered or PyTorch's own name."""
    if not isinstance(backend, str):
        if not callable(backend) or isinstance(backend, type):
            raise TypeError(f"compile(backend=...) needs a name or a function, not {backend!r}")
        return backend
    if backend in _built_in():
        return _ALIASES.get(backend, backend)
    if backend in _registered:
        return _registered[backend][0]
    if backend.startswith(_TORCH_PREFIX):
        return _torchs_own(backend.removeprefix(_TORCH_PREFIX))
    raise ValueError(f'there is no backend "{backend}"; those there are: {_quoted(list_backends(()))}, "torch:NAME"')


def native(backend, mode=None, options=None):
    """A backend as the native part takes it: a built-in name, or what gives a builder for each graph."""
    backend = resolve(backend)
    if isinstance(backend, str):
        return backend
    from .interop import graph_modules  # torch.fx is loaded for those who ask for it

    keywords = {}
    if mode not in (None, "default"):
        keywords["mode"] = mode
    if options:
        keywords["options"] = options
    # One for each backend: functions compiled by the same one share their graphs. It keeps the backend, and so its id.
    key = (id(backend), repr(keywords))
    made = _made.get(key)
    if made is None:
        made = _made[key] = functools.partial(graph_modules.Builder, backend, keywords)
    return made


def _built_in():
    return [*_C._backends(), *_ALIASES]


def _torchs_own(name):
    from .interop import torch_backends

    known = torch_backends.names()
    if name not in known:
        raise ValueError(f'PyTorch has no backend "{name}"; those there are: {_quoted(known)}')
    return torch_backends.lookup(name)


def _quoted(names):
    return ", ".join(f'"{name}"' for name in names)
