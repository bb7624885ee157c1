"""Programs that change what Python itself does around compiled functions, each in a process: none may hang."""

import pytest
from processes import printed_by

START = """
import faulthandler
faulthandler.dump_traceback_later(120, exit=True)
import builtins, copy, math, torch

x = torch.arange(4.0)


def same_as_eager(fn):
    for backend in ("eager", "inductor"):
        torch._dynamo.reset()
        compiled = torch.compile(fn, backend=backend)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), fn(x))
"""

OWN_IMPORT = """
plain = builtins.__import__


def own_import(name, *args, **kwargs):
    return plain(name, *args, **kwargs)


builtins.__import__ = own_import


def fn(x):
    import math

    count = 0
    for value in {"a": 1}.values():
        count += value
    result = torch.nn.functional.linear(x, torch.eye(4)) + count + math.sqrt(4)
    return result, isinstance(x, torch.Tensor), copy.copy([1])


same_as_eager(fn)
"""

OWN_GLOBALS = """
class Space(dict):
    def __missing__(self, key):
        return 5

    def __getitem__(self, key):
        return super().__getitem__(key)


space = Space()
exec("def fn(x): return x + 1 + missing", space)
same_as_eager(space["fn"])
"""


@pytest.mark.parametrize("program", [OWN_IMPORT, OWN_GLOBALS], ids=["import", "globals"])
def test_programs(program, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(START + program + "print('done')\n")
    assert printed_by("-m", "firesteel", file) == "done\n"
