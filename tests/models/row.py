"""What a row of the zoo is: a small random model of transformers, and inputs made from a seed."""

import dataclasses
import re
from collections.abc import Callable

import torch
import transformers
from transformers.utils.output_capturing import install_all_output_capturing_hooks

VOCAB = 99
BATCH = 2
# Their first forward puts hooks on their modules, under a lock, which is left to Python: it is done before the call.
HOOKED_AT_FIRST = {"dpt", "llava", "segformer.segmentation"}
# These ask whether they are compiled and make another mask then, for PyTorch as for us: eager is told so too.
OTHERS_WHEN_COMPILED = {"paligemma"}
DROPOUT_FIELD = re.compile(r"drop(out|_rate|_path|_prob)|pdrop|layerdrop")


@dataclasses.dataclass(frozen=True)
class Row:
    """`model` names a class of transformers; `config` makes its config, `inputs` keyword arguments from a generator."""

    name: str
    kind: str
    model: str
    config: Callable[[], "transformers.PretrainedConfig"]
    inputs: Callable[[torch.Generator], dict]

    def build(self, *, train=False, dropout=0.0, seed=0):
        config = self.config()
        set_dropout(config, dropout)
        torch.manual_seed(seed)
        model = self.model_class()(config).train(train)
        if self.name in HOOKED_AT_FIRST:
            install_all_output_capturing_hooks(model)
        return model

    def model_class(self):
        return getattr(transformers, self.model)

    def make_inputs(self, seed):
        return self.inputs(torch.Generator().manual_seed(seed))

    def __str__(self):
        return self.name


def row(name, kind, model, config, inputs, **settings):
    """A row whose config is made from settings: `config` names its class."""
    return Row(name, kind, model, lambda: getattr(transformers, config)(**settings), inputs)


def set_dropout(config, probability):
    """Sets every dropout of a config and of the configs inside it. Dropping whole layers stays off: it reads data."""
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig):
            set_dropout(value, probability)
        elif DROPOUT_FIELD.search(name) and isinstance(value, (int, float)) and not isinstance(value, bool):
            wanted = 0.0 if "layer" in name or "path" in name else probability
            setattr(config, name, int(wanted) if isinstance(value, int) else wanted)  # the fields check their types


# ---- input makers: each gives a function from a generator to keyword arguments


def tokens(generator, length, vocabulary=VOCAB):
    return torch.randint(3, vocabulary, (BATCH, length), generator=generator)


def padded(length):
    """A mask whose first line ends in two padded places."""
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    mask[0, -2:] = 0
    return mask


def text(length=8, *, mask=False, labels=False, **constants):
    def make(generator):
        inputs = {"input_ids": tokens(generator, length)}
        if mask:
            inputs["attention_mask"] = padded(length)
        if labels:
            inputs["labels"] = tokens(generator, length)
        return {**inputs, **constants}

    return make


def text_to_text(length=8, *, mask=False, labels=False):
    def make(generator):
        inputs = {"input_ids": tokens(generator, length)}
        inputs["labels" if labels else "decoder_input_ids"] = tokens(generator, length - 2)
        if mask:
            inputs["attention_mask"] = padded(length)
        return inputs

    return make


def images(size=32, *, channels=3, classes=None):
    def make(generator):
        inputs = {"pixel_values": torch.randn(BATCH, channels, size, size, generator=generator)}
        if classes:
            inputs["labels"] = torch.randint(classes, (BATCH,), generator=generator)
        return inputs

    return make


def images_and_text(size=32, length=8, *, mask=True, **more):
    return together(images(size), text(length, mask=mask), **more)


def together(*makers, **constants):
    def make(generator):
        inputs = dict(constants)
        for maker in makers:
            inputs.update(maker(generator))
        return inputs

    return make


def normal(**shapes):
    return lambda generator: {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def integers(limit=VOCAB, **shapes):
    return lambda generator: {
        name: torch.randint(3, limit, shape, generator=generator) for name, shape in shapes.items()
    }
