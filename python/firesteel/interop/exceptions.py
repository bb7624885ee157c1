"""Firesteel's errors as PyTorch's users catch them: each also is of PyTorch's type. Loads torch._dynamo."""

import functools
import re
import sys
import warnings

from .. import _C
from . import dynamo_config

# Ours -> PyTorch's, by name in torch._dynamo.exc.
_TWINS = {
    "GraphBreakError": "Unsupported",
    "RecompileLimitError": "FailOnRecompileLimitHit",
    "ControlError": "Unsupported",
    "DataDependentError": "Unsupported",
    "OutputTypeError": "Unsupported",
    "EscapedTensorError": "Unsupported",
    "TraceError": "Unsupported",
}


# The ids of ours -> the kinds of PyTorch's that programs look for in messages and in `gb_type`.
_KINDS = {
    "FS-GRAPH-BREAK": "Call to `torch._dynamo.graph_break()`",
    "FS-SKIP-FRAME": "Call to `torch._dynamo.skip_frame()`",
    "FS-DISABLED": "Skip calling `torch.compiler.disable()`d function",
    "FS-DISALLOWED": "Attempted to call function marked as skipped",
    "FS-C-FUNCTION": "Attempted to call function marked as skipped",
    "FS-DATA-DEPENDENT": "Data-dependent branching",
    "FS-EXCEPTION": "Observed exception",
    "FS-GENERATOR": "Attempt to trace generator",
    "FS-IMPORT": "Import failure",
    "FS-RESULT": "Reconstruction failure",
    "FS-STANCE": "Detected recompile when torch.compile stance is 'fail_on_recompile'",
}


def _kind_of_break(message):
    found = re.search(r"\[(FS-[A-Z-]+)\]", message)
    return _KINDS.get(found[1]) if found else None


def provide(name):
    """The class to raise for an error of Firesteel's; None: its own. Asked where an error is raised while installed."""
    return twin(name) if name in _TWINS else None


@functools.cache
def twin(name):
    """A class that is both."""
    from torch._dynamo import exc

    ours, theirs = getattr(_C, name), getattr(exc, _TWINS[name])

    def start(self, message=""):
        kind = _kind_of_break(message)
        if kind:
            message += f"\n  PyTorch calls this: {kind}"
        RuntimeError.__init__(self, message)
        self.__dict__.update(_FIELDS, gb_type=kind, msg=message)

    bases = (ours, theirs)
    if name == "GraphBreakError":
        bases += (exc.UserError,)  # what PyTorch raises where data or an open size would decide
    if name == "ControlError":
        # Of what is forbidden PyTorch says that an assertion failed; of sizes that cannot be as marked, the second.
        from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

        bases += (AssertionError, ConstraintViolationError)
    return type(name, bases, {"__init__": start, "__module__": "firesteel", "__doc__": ours.__doc__})


def of_program(error):
    """What a function with fullgraph=True raises for an exception of the program's that ended its capture.

    It is of the exception's own class, and of PyTorch's as well, which raises nothing but that one.
    """
    if not isinstance(error, Exception) or "torch._dynamo" not in sys.modules:  # nobody has a name for PyTorch's
        return error
    from torch._dynamo import exc

    if isinstance(error, exc.TorchDynamoException):
        return error
    try:
        kind = _also_unsupported(type(error))
        raised = kind.__new__(kind, *error.args)
        raised.__dict__.update(_FIELDS, gb_type=_KINDS["FS-EXCEPTION"], msg=str(error))
        raised.__dict__.update(error.__dict__)
        for name in ("name", "obj", "value"):  # which exceptions of Python keep beside their arguments
            if hasattr(error, name):
                setattr(raised, name, getattr(error, name))
    except (TypeError, AttributeError):  # a class that cannot be combined, or made in another way
        return error
    raised.args = error.args
    raised.__cause__, raised.__context__ = error.__cause__, error.__context__
    raised.__suppress_context__ = error.__suppress_context__
    return raised.with_traceback(error.__traceback__)


_FIELDS = {"real_stack": None, "gb_type": None, "category": None, "skip_frame": False, "logged": False}
_FIELDS |= {"_torch_dynamo_tracer_output": None, "frame_exec_strategy": None}


@functools.cache
def _also_unsupported(kind):
    from torch._dynamo import exc

    # An operator that fails is another matter to PyTorch, which is a RuntimeError here.
    theirs = (exc.Unsupported, exc.TorchRuntimeError) if kind is RuntimeError else (exc.Unsupported,)
    bases = theirs if issubclass(exc.Unsupported, kind) else (kind, *theirs)
    names = {"__init__": lambda self, *args, **kwargs: None, "__str__": kind.__str__, "__doc__": kind.__doc__}
    names |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, bases, names)


@functools.cache
def also(error, name):
    """A builtin error that also is of a type of torch._dynamo.exc."""
    from torch._dynamo import exc

    def start(self, message=""):
        error.__init__(self, message)

    return type(name, (error, getattr(exc, name)), {"__init__": start, "__module__": "firesteel"})


def of_backend(backend, error, module):
    """A backend has failed: PyTorch's error, or the graph as it is where the program suppresses errors."""
    from torch._dynamo import exc

    if dynamo_config.value("suppress_errors", False):
        warnings.warn(f"the backend {backend!r} failed, the graph runs as it is: {error}", RuntimeWarning, stacklevel=2)
        return module.forward
    if isinstance(error, exc.TorchDynamoException):
        raise error
    raise exc.BackendCompilerFailed(backend, error, None) from error


class MisuseError(TypeError, AssertionError):
    """A control was given what it cannot take: PyTorch says so by an AssertionError, Firesteel by a TypeError."""
