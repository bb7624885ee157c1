"""Firesteel as a backend of PyTorch's own compiler: `torch.compile(f, backend="firesteel")`.

PyTorch captures and guards; Firesteel takes each fx graph through AOT, fusion and native code. The name is known to
PyTorch where Firesteel is installed as a package (an entry point).
"""

from torch.fx._lazy_graph_module import _LazyGraphModule

import firesteel


def compile_graph(graph_module, example_inputs, **options):
    """What PyTorch calls with each graph; gives the callable to run in its place."""
    _LazyGraphModule.force_recompile(graph_module)  # its code is written at the first call otherwise
    return firesteel.compile(graph_module.forward, backend="firesteel", recompile_limit=64)
