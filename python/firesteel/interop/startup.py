"""For programs that cannot be started by `python -m firesteel`: Firesteel is installed as soon as torch is loaded.

A copy of this file lies beside the environment's packages where `firesteel enable` was called; it stands alone.
"""

import importlib.machinery
import sys


class _Finder:
    """Waits for torch, which is not loaded for it."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            load = spec.loader.exec_module

            def load_and_install(module):
                load(module)
                import firesteel

                firesteel.install()

            spec.loader.exec_module = load_and_install
        return spec


def wait():
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, _Finder())
