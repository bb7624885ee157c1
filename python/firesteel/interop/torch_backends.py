"""PyTorch's own backends by name: `torch:inductor`."""

from torch._dynamo.backends import registry


def names():
    return registry.list_backends(())


def lookup(name):
    return registry.lookup_backend(name)
