"""The zoo: small random models of transformers' architectures, by name."""

from zoo_audio import OTHER
from zoo_text import TEXT
from zoo_vision import VISION

ROWS = {row.name: row for row in [*TEXT, *VISION, *OTHER]}
assert len(ROWS) == len(TEXT) + len(VISION) + len(OTHER), "two rows share a name"

# What stands for the rest where there is little time: one of each way of building a model.
FEW = (
    "bert",
    "deberta-v2",
    "gpt2",
    "llama",
    "llama.plain",
    "gemma2",
    "mixtral",
    "mixtral.batched",
    "mamba",
    "t5",
    "bart",
    "vit",
    "swin",
    "resnet",
    "wav2vec2",
    "clip",
)
