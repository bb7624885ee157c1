"""The models that benchmarks run: sizes as in the papers, weights random, inputs fixed."""

import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.nn import functional as F

SEED = 7


def tokens(vocabulary, batch, length):
    return {"input_ids": torch.randint(vocabulary, (batch, length))}


class Pointwise(torch.nn.Module):
    def forward(self, x, y):
        return (x.sin() + y.cos()) * x


class Mlp(torch.nn.Module):
    def __init__(self, width=768, inner=3072, layers=4):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, inner), torch.nn.GELU(),
                                torch.nn.Linear(inner, width))
            for _ in range(layers)
        )  # fmt: skip

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return F.log_softmax(x, -1)


def hugging_face(name, inputs, *, layers=None, **config):
    """The base model of transformers' `name`, without dropout; `layers` cuts it short."""

    def build():
        import transformers

        transformers.logging.set_verbosity_error()
        settings = getattr(transformers, f"{name}Config")(**config)
        for key in vars(settings):
            if "dropout" in key or key.endswith("pdrop"):
                setattr(settings, key, 0.0)
        settings.use_cache = False
        if layers:
            for key in ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers"):
                if hasattr(settings, key):
                    setattr(settings, key, layers)
        return getattr(transformers, f"{name}Model")(settings)

    return build, inputs


def pair(*shape):
    return lambda: {"x": torch.randn(shape, requires_grad=True), "y": torch.randn(shape)}


# name → (builds a model, makes its inputs)
ROWS = {
    "pointwise": (Pointwise, pair(1000, 1003)),
    "mlp": (Mlp, lambda: {"x": torch.randn(2, 61, 768)}),
    "bert-base": hugging_face("Bert", lambda: tokens(30522, 1, 128)),
    "gpt2": hugging_face("GPT2", lambda: tokens(50257, 1, 128)),
    "llama": hugging_face("Llama", lambda: tokens(32000, 1, 127), layers=4, hidden_size=512, intermediate_size=1376,
                          num_attention_heads=8, num_key_value_heads=8, vocab_size=32000),
    "vit-base": hugging_face("ViT", lambda: {"pixel_values": torch.randn(1, 3, 224, 224)}),
    "t5-small": hugging_face("T5", lambda: tokens(32128, 1, 64) | {"decoder_input_ids": torch.randint(32128, (1, 33))},
                             d_model=512, d_ff=2048, num_heads=8, layers=6),
    "resnet-50": hugging_face("ResNet", lambda: {"pixel_values": torch.randn(1, 3, 224, 224)}),
}  # fmt: skip


def build(name, train):
    """A model of that row and its inputs, the same in every process."""
    make, inputs = ROWS[name]
    torch.manual_seed(SEED)
    model = make().train(train)
    if not train:
        model.requires_grad_(False)
    return model, inputs()


def first_tensor(result):
    while not isinstance(result, torch.Tensor):
        result = result[0]
    return result


def assert_as_right(got, eager, name, train, side):
    """Equal to eager within tolerances, or no further from double precision than twice as far as eager is.

    Where another compiler's result is further off, that is said, and its time counts all the same.
    """
    try:
        torch.testing.assert_close(got, eager, rtol=1e-3, atol=1e-4)
        return
    except AssertionError:
        model, inputs = build(name, train)
    inputs = {key: value.detach().double() if value.is_floating_point() else value for key, value in inputs.items()}
    exact = step(model.double(), inputs, train)
    ours, theirs = ((result.double() - exact).abs().max().item() for result in (got, eager))
    told = f"{side}: {name} is off by {ours:.3g}, eager by {theirs:.3g}"
    assert ours <= 2 * theirs or side != "firesteel", told
    if ours > 2 * theirs:
        print(told, file=sys.stderr)


def step(call, inputs, train):
    """One inference, or one forward and backward; gives the first result."""
    if not train:
        with torch.no_grad():
            return first_tensor(call(**inputs))
    result = first_tensor(call(**inputs))
    result.float().square().mean().backward()
    return result.detach()
