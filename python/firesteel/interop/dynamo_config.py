"""Values of torch._dynamo.config that mean something here, read when they matter: programs change them on the way."""

import os
import sys

from torch.utils._config_module import ConfigModule

from .. import _C, _annotations
from . import comptime_contexts, guard_failures, logging_functions, operator_gate


def value(name, missing=None):
    """One of them; `missing` where no program has loaded torch._dynamo."""
    config = sys.modules.get("torch._dynamo.config")
    return getattr(config, name, missing) if config else missing


def is_disabled():
    """Whether a program, or the one who starts it, has turned compilation off altogether."""
    asked = any(os.environ.get(name, "0") == "1" for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"))
    return asked or bool(value("disable", False))


def dynamic():
    """What torch.compile(dynamic=None) stands for: a size that has changed is left open, all are, or none."""
    if not value("assume_static_by_default", True):
        return True
    return None if value("automatic_dynamic_shapes", True) else False


def refuse_contradiction():
    """PyTorch's words for settings that cannot both hold."""
    if value("suppress_errors", False) and value("fail_on_recompile_limit_hit", False):
        raise AssertionError("torch._dynamo.config: suppress_errors and fail_on_recompile_limit_hit exclude each other")


def follow():
    """Asks for the limits of recompilation at the time, as programs set them around single calls."""
    _C._set_compile_watcher(_allowance)
    _C._set_inside_view(sys.modules["torch._dynamo.comptime"].comptime, comptime_contexts.show)
    # Read in compiled code, a value of one of torch's modules of settings is a constant.
    _C._set_mark(ConfigModule.__getattr__, "Constant")
    _C._set_mark(sys.modules["torch.fx.traceback"].annotate, "Substituted", _annotations.Annotated)
    # PyTorch's own compiler, where a program has it at work (torch.export), is not to look into what stands in here.
    sys.modules["torch._dynamo"].trace_rules.add("firesteel")


def leave():
    _C._set_inside_view(None)
    logging_functions.ignored.follow(())
    logging_functions.late.follow(())
    _C._set_operator_gate(None)
    _C._set_size_rules()
    _C._set_mark(ConfigModule.__getattr__, "None")
    _C._set_mark(sys.modules["torch.fx.traceback"].annotate, "None")


def _serves_any_size():
    """torch.fx.experimental._config.backed_size_oblivious: sizes 0 and 1 have no graphs of their own."""
    return bool(getattr(sys.modules.get("torch.fx.experimental._config"), "backed_size_oblivious", False))


def _sources(setting):
    """torch.compiler.config.dynamic_sources and its kin: names of arguments, patterns of these, or values."""
    names = getattr(sys.modules.get("torch.compiler.config"), setting, None) or ""
    return [name.strip() for name in names.split(",") if name.strip()]


def refuse_fx(is_tracing=False):
    """torch.fx sees no way through compiled code: what it traces would be a graph for its own stand-ins alone."""
    symbolic_trace = sys.modules.get("torch.fx._symbolic_trace")
    is_tracing = is_tracing or (symbolic_trace and symbolic_trace.is_fx_symbolic_tracing())
    if is_tracing and value("error_on_nested_fx_trace", True):
        raise RuntimeError(
            "torch.fx is asked to symbolically trace a compiled function\n  try: trace the function itself, or set "
            "torch._dynamo.config.error_on_nested_fx_trace = False"
        )


def _allowance(function, compiled, why, keeps_numbers=False):
    refuse_fx()
    if compiled:
        guard_failures.tell(function, why)
    if compiled and value("error_on_recompile", False):
        from torch._dynamo import exc

        raise exc.RecompileError(f"`{function}` is compiled again, and error_on_recompile forbids it\n  why: {why}")
    _C._follow_inner_breaks(bool(value("nested_graph_breaks", False)))
    fixed = [keeps_numbers or bool(value(name, False)) for name in ("specialize_int", "specialize_float")]
    _C._fix_numbers(*fixed, global_ints=True, module_ints=not value("allow_unspec_int_on_nn_module", False))
    data = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops", "rewrite_assert_with_torch_assert")
    _C._capture_data(*(bool(value(name, False)) for name in data))
    _C._set_size_rules(
        parameters_change=not value("force_parameter_static_shapes", True),
        changed_take_any=value("automatic_dynamic_shapes_mark_as") == "unbacked" or _serves_any_size(),
        ignores_marks=bool(value("allow_ignore_mark_dynamic", False)),
        open_values=[int(number) for number in _sources("dynamic_values")],
    )
    _C._set_operator_gate(operator_gate.why_not if value("only_allow_pt2_compliant_ops", False) else None)
    logging_functions.ignored.follow(value("ignore_logging_functions", ()) or ())
    logging_functions.late.follow(value("reorderable_logging_functions", ()) or ())
    from . import dynamo_counters

    dynamo_counters.begin()
    limits = (value(name, 0) or 0 for name in ("recompile_limit", "accumulated_recompile_limit"))
    _C._open_sources(*map(_sources, ("dynamic_sources", "unbacked_sources")))
    return min(filter(None, limits), default=0), bool(value("fail_on_recompile_limit_hit", False))
