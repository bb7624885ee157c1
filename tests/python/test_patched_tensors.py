"""What a program puts in the place of torch's own methods, operators and attributes is seen, and so is that it goes."""

import importlib

import pytest
import torch

import firesteel

ADD, MUL = torch.Tensor.__add__, torch.Tensor.mul

PATCHES = {
    "method": (torch.Tensor, "relu", lambda self: self - 1),
    "method with an argument": (torch.Tensor, "mul", lambda self, other: MUL(self, other) - 5),
    "operator": (torch.Tensor, "__add__", lambda self, other: ADD(self, other) * 3),
    "reflected operator": (torch.Tensor, "__radd__", lambda self, other: self * 7),
    "attribute": (torch.Tensor, "T", property(lambda self: self[:1])),
    "size": (torch.Tensor, "ndim", property(lambda self: 11)),
    "static method": (torch.Tensor, "exp", staticmethod(lambda: 4)),
    "function": (torch, "sin", lambda x: x + 9),
    "function of a module": (torch.nn.functional, "gelu", lambda x: x * 2),
    "forward of a class": (torch.nn.Linear, "forward", lambda self, x: x * self.out_features),
}
LAYER = torch.nn.Linear(4, 4)


def program(x):
    y = (2 + (x + x)).relu().mul(3) + x.T.shape[0] + x.ndim + x.exp()
    return torch.sin(y) + LAYER(torch.nn.functional.gelu(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "firesteel"])
@pytest.mark.parametrize("patch", PATCHES)
def test_patched_and_put_back(patch, backend, monkeypatch):
    compiled = firesteel.compile(program, backend=backend)
    for _ in range(2):
        with monkeypatch.context() as around:
            for _ in range(2):
                x = torch.randn(4, 4)
                torch.testing.assert_close(compiled(x), program(x))
            plain = program(x)
            around.setattr(*PATCHES[patch])
            assert not torch.equal(program(x), plain)
            for _ in range(2):
                x = torch.randn(4, 4)
                torch.testing.assert_close(compiled(x), program(x))


def test_a_module_that_is_loaded_again():
    def made_anew(x):
        layer = torch.nn.modules.activation.Softplus(beta=2)
        return layer(x), type(layer)

    compiled = firesteel.compile(made_anew)
    x = torch.randn(4, 4)
    for _ in range(3):
        for _ in range(2):
            (ours, kind), (plain, same_kind) = compiled(x), made_anew(x)
            torch.testing.assert_close(ours, plain)
            assert kind is same_kind
        importlib.reload(torch.nn.modules.activation)
