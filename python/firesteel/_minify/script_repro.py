"""Writes a program that was made small so that it shows its failure by itself: `python repro.py`."""

import ast

from .. import _files

_HEAD = '''"""{title}

Written by `firesteel minify` from {origin}. {tier}
Run it: python {name} (ends with an error as long as it fails)
"""
'''

_SETTINGS = """
import os

os.environ.update({settings!r})

import torch

import firesteel

firesteel.install()
{stance}"""

_COMPARISON = """
if __name__ == "__main__":
    import copy

    def arguments(*args, **kwargs):
        return args, kwargs

    torch.manual_seed(0)
    args, kwargs = arguments({text})
    theirs = copy.deepcopy((args, kwargs))
    state = torch.get_rng_state()
    expected = {function}(*theirs[0], **theirs[1])
    torch.set_rng_state(state)
    found = firesteel.compile({function}, wait=True)(*args, **kwargs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
"""

_TIERS = {
    "eager": "It fails as soon as it is captured: the calls of its graphs run one by one.",
    "aot_eager": "It fails as soon as its graphs are traced to ATen operators, which ATen runs.",
}


def write(path, source, what, origin, tier, settings, function="", text=""):
    """`function`: what is called with the arguments that `text` gives, where the program is a function."""
    tree = ast.parse(source)
    # These must come first.
    future = [it for it in tree.body if isinstance(it, ast.ImportFrom) and it.module == "__future__"]
    tree.body = [it for it in tree.body if it not in future]
    stance = f'firesteel.set_stance("default", force_backend={tier!r})\n' if tier in _TIERS else ""
    parts = [
        _HEAD.format(title=what.replace('"""', "'''").replace("\\", "\\\\"), origin=origin, tier=_TIERS.get(tier, ""),
                     name=path.rsplit("/", 1)[-1]),
        *(ast.unparse(it) + "\n" for it in future),
        _SETTINGS.format(settings=settings, stance=stance),
        "\n# The program, made small.\n" + ast.unparse(tree) + "\n",
        _COMPARISON.format(function=function, text=text) if function else "",
    ]  # fmt: skip
    _files.write(path, "".join(parts))
