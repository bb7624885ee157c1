"""Firesteel's errors as PyTorch's users catch them: each also is of PyTorch's type. Loads torch._dynamo."""

import functools
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


def provide(name):
    """The class to raise for an error of Firesteel's; None: its own. Asked where an error is raised while installed."""
    return twin(name) if name in _TWINS else None


@functools.cache
def twin(name):
    """A class that is both."""
    from torch._dynamo import exc

    ours, theirs = getattr(_C, name), getattr(exc, _TWINS[name])

    def start(self, message=""):
        RuntimeError.__init__(self, message)
        self.msg = message
        self.real_stack = None
        self.gb_type = self.category = None
        self.skip_frame = self.logged = False
        self._torch_dynamo_tracer_output = self.frame_exec_strategy = None

    bases = (ours, theirs)
    if name == "ControlError":
        # Of what is forbidden PyTorch says that an assertion failed; of sizes that cannot be as marked, the second.
        from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

        bases += (AssertionError, ConstraintViolationError)
    return type(name, bases, {"__init__": start, "__module__": "firesteel", "__doc__": ours.__doc__})


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
