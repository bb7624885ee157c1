"""Every replay here also compares each operator's real layout with the one its shape rule gave."""

import os

import pytest
import torch

os.environ["FIRESTEEL_CHECK_SHAPES"] = "1"


@pytest.fixture(autouse=True)
def one_thread():
    """Thousands of tiny operators: starting threads for each takes longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
