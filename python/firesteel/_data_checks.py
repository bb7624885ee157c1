"""What a graph that runs call by call looks at: conditions on numbers that data gives."""

import builtins

_DEFAULT = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def check(holds: bool, error: str, text: "str | None") -> None:
    """Raises the builtin exception named `error` unless `holds`; `text` is None where torch has words of its own."""
    if not holds:
        raise getattr(builtins, error, RuntimeError)(_DEFAULT if text is None else text)
