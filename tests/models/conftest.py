"""The models are tiny: more threads would only wait for each other. Nothing is fetched from the network."""

import os

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
# Native code from the first call, and none of another run's.
os.environ |= {"FIRESTEEL_WAIT": "1", "FIRESTEEL_CACHE": "0"}

import torch
import transformers

transformers.logging.set_verbosity_error()


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
