"""The names of torch.compiler, served by Firesteel."""

from . import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    get_default_backend,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    list_backends,
    nonstrict_trace,
    reset,
    set_default_backend,
    set_stance,
    substitute_in_graph,
)

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nonstrict_trace",
    "reset",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
]
