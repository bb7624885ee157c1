"""Firesteel: the torch.compile stack, written natively in C++ over ATen."""

from . import _platform

_platform.check()

import contextlib  # noqa: E402
import functools  # noqa: E402
import os  # noqa: E402

import torch  # noqa: E402

try:
    from . import _C
except ImportError as error:
    _platform.refuse_extension(error)

from ._C import (  # noqa: E402
    DataDependentError,
    Error,
    EscapedTensorError,
    Graph,
    GraphFormatError,
    InputMismatchError,
    InternalError,
    MutationError,
    Node,
    OutputTypeError,
    Source,
    TraceError,
    UnsupportedPlatformError,
    Value,
    is_compiling,
    is_traced,
    parse_graph,
    reset_trace_counters,
    trace,
    trace_counters,
)
from ._version import __version__  # noqa: E402

# Frames of these files are never "the user's line": torch, Firesteel, and what only passes calls on.
_C._set_library_folders(
    [
        os.path.dirname(torch.__file__) + os.sep,
        os.path.dirname(__file__) + os.sep,
        contextlib.__file__,
        functools.__file__,
        "<frozen ",
    ]
)

__all__ = [
    "DataDependentError",
    "Error",
    "EscapedTensorError",
    "Graph",
    "GraphFormatError",
    "InputMismatchError",
    "InternalError",
    "MutationError",
    "Node",
    "OutputTypeError",
    "Source",
    "TraceError",
    "UnsupportedPlatformError",
    "Value",
    "__version__",
    "is_compiling",
    "is_traced",
    "parse_graph",
    "reset_trace_counters",
    "trace",
    "trace_counters",
]
