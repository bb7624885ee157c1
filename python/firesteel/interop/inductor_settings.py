"""Modes and options of Inductor: programs name them for PyTorch; a name that it does not know is its error."""

import typing

_USUAL_MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def check(mode, options):
    """Raises what PyTorch raises for what Inductor does not know. None of them changes a result."""
    if mode is not None and options is not None:
        raise RuntimeError("torch.compile() takes mode or options, not both: a mode stands for a set of options")
    if mode not in _USUAL_MODES:
        _check_mode(mode)
    if options:
        _check_options(options)


def _check_mode(mode):
    from torch._inductor import list_mode_options

    known = list_mode_options()
    if mode not in known:
        raise RuntimeError(f"Inductor has no mode {mode!r}; those there are: {', '.join(map(repr, known))}")


def _check_options(options):
    from torch._inductor import config

    known = config.get_config_copy()
    for name, value in options.items():
        setting = name.replace("-", "_")
        if setting not in known:
            raise RuntimeError(f"Inductor has no option {name!r}; torch._inductor.list_options() names those there are")
        wanted = config.get_type(setting)
        if typing.get_origin(wanted) is None and not isinstance(value, wanted):
            raise RuntimeError(f"the option {name!r} of Inductor is of type {wanted.__name__}, not {value!r}")
