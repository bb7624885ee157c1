"""Firesteel: the torch.compile stack, written natively in C++ over ATen."""

from . import _platform

_platform.check()

import contextlib  # noqa: E402
import copy  # noqa: E402
import functools  # noqa: E402
import os  # noqa: E402

import torch  # noqa: E402

try:
    from . import _C
except ImportError as error:
    _platform.refuse_extension(error)

from . import _sym_choices, _watching_contexts  # noqa: E402, F401
from ._backends import (  # noqa: E402
    BackendError,
    get_default_backend,
    list_backends,
    register_backend,
    set_default_backend,
)
from ._C import (  # noqa: E402
    CompiledFunction,
    ControlError,
    DataDependentError,
    Error,
    EscapedTensorError,
    Graph,
    GraphBreakError,
    GraphFormatError,
    InputMismatchError,
    InternalError,
    MutationError,
    Node,
    OutputTypeError,
    RecompileLimitError,
    Source,
    TraceError,
    Value,
    counters,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    is_traced,
    native_counters,
    parse_graph,
    reset_counters,
    reset_native_counters,
    reset_trace_counters,
    trace,
    trace_counters,
)
from ._check import CheckError  # noqa: E402
from ._compile import compile, compile_module_  # noqa: E402
from ._controls import (  # noqa: E402
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    nonstrict_trace,
    register_constant,
    register_dataclass,
    register_pytree_node,
    reset,
    run,
    set_stance,
    skip_frame,
    substitute_in_graph,
)
from ._costs import profile  # noqa: E402
from ._explain import Explanation, explain  # noqa: E402
from ._logs import logs  # noqa: E402
from ._platform import UnsupportedPlatformError  # noqa: E402
from ._report import report  # noqa: E402
from ._sizes import mark_dynamic, mark_static, maybe_mark_dynamic  # noqa: E402
from ._trace import merge_traces, record_trace  # noqa: E402
from ._version import __version__  # noqa: E402
from .interop.dropin import install, uninstall  # noqa: E402

from . import _costs, _logs, _progress, _report, _trace, compiler  # noqa: E402, isort: skip

FailOnRecompileLimitHit = RecompileLimitError  # as PyTorch calls it

# Frames of these files are never "the user's line": torch, Firesteel, and what only passes calls on.
_C._set_library_folders(
    [
        os.path.dirname(torch.__file__) + os.sep,
        os.path.dirname(__file__) + os.sep,
        contextlib.__file__,
        copy.__file__,
        functools.__file__,
        "<frozen ",
    ]
)

_logs.from_environment()
_report.from_environment()
_trace.from_environment()
_costs.from_environment()
_progress.start()

__all__ = [
    "BackendError",
    "CheckError",
    "CompiledFunction",
    "ControlError",
    "DataDependentError",
    "Error",
    "EscapedTensorError",
    "Explanation",
    "FailOnRecompileLimitHit",
    "Graph",
    "GraphBreakError",
    "GraphFormatError",
    "InputMismatchError",
    "InternalError",
    "MutationError",
    "Node",
    "OutputTypeError",
    "RecompileLimitError",
    "Source",
    "TraceError",
    "UnsupportedPlatformError",
    "Value",
    "__version__",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "compile_module_",
    "compiler",
    "counters",
    "disable",
    "disallow_in_graph",
    "error_on_graph_break",
    "explain",
    "forbid_in_graph",
    "get_default_backend",
    "graph_break",
    "install",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "is_traced",
    "list_backends",
    "logs",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "merge_traces",
    "native_counters",
    "nonstrict_trace",
    "parse_graph",
    "profile",
    "record_trace",
    "register_backend",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "report",
    "reset",
    "reset_counters",
    "reset_native_counters",
    "reset_trace_counters",
    "run",
    "set_default_backend",
    "set_stance",
    "skip_frame",
    "substitute_in_graph",
    "trace",
    "trace_counters",
    "uninstall",
]
