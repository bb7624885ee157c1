"""What operators of the program's own tell of their results' shapes, sizes that data gives among them."""

from torch._library import fake_impl, simple_registry


class _Context:
    """Stands where `torch.library.get_ctx()` is asked."""

    def __init__(self, new_size):
        self._new_size = new_size
        self.asked = False

    def new_dynamic_size(self, *, min=0, max=None):
        self.asked = True
        return self._new_size(min, max)

    create_unbacked_symint = new_dynamic_size

    def end(self):
        """What makes sizes is gone after the call, though the program may have kept this object."""
        self._new_size = _too_late


def _too_late(*_):
    raise RuntimeError(
        "new_dynamic_size() was called on a context that has ended\n"
        "  try: ask torch.library.get_ctx() for it in the function of register_fake, each time it is called"
    )


def ask(name: str, new_size, only_new: bool, args: tuple, kwargs: dict):
    """The results that the operator's function makes, as a tuple; None where there is none, or no new size."""
    kernel = simple_registry.singleton.find(name).fake_impl.kernel
    if kernel is None:
        return None
    context = _Context(new_size)
    try:
        with fake_impl.set_ctx_getter(lambda: context):
            made = kernel(*args, **kwargs)
    finally:
        context.end()
    if only_new and not context.asked:
        return None
    return made if isinstance(made, tuple) else (made,)
