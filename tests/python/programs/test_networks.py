"""Networks trained through their graphs: the same losses, gradients, parameters and buffers as eager training."""

import copy
import os

import pytest
import torch
from networks import NETWORKS
from torch.utils import _pytree as pytree

import firesteel

FULL = os.environ.get("FIRESTEEL_FULL") == "1"
STEPS = 20 if FULL else 3


def assert_same_state(ours, theirs, tolerance):
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")


def loss_of(result):
    return sum(t.float().square().mean() for t in pytree.tree_leaves(result))


def train(model, run, make_input, dtype):
    """Losses, and the gradients of the last step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(step)
        batch = make_input()
        optimizer.zero_grad()
        loss = loss_of(run(batch.to(dtype) if batch.is_floating_point() else batch))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [p.grad for p in model.parameters()]


def check_training(name, dtype, tolerance, prepare=lambda function: function):
    build, make_input = NETWORKS[name]
    torch.manual_seed(0)
    ours = build().to(dtype)
    theirs = copy.deepcopy(ours)
    example = make_input()
    graph = firesteel.trace(prepare(ours), example.to(dtype) if example.is_floating_point() else example, grad=True)
    assert_same_state(ours, theirs, 0)  # tracing trains nothing
    losses, gradients = train(ours, graph, make_input, dtype)
    expected_losses, expected_gradients = train(theirs, prepare(theirs), make_input, dtype)
    torch.testing.assert_close(losses, expected_losses, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(gradients, expected_gradients, rtol=tolerance, atol=tolerance)
    assert_same_state(ours, theirs, tolerance)


@pytest.mark.parametrize("name", NETWORKS)
def test_training(name):
    check_training(name, torch.float32, 1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_evaluation(name):
    build, make_input = NETWORKS[name]
    torch.manual_seed(0)
    model = build().eval()
    with torch.no_grad():
        graph = firesteel.trace(model, make_input())
        x = make_input()
        torch.manual_seed(1)
        actual = graph(x)
        torch.manual_seed(1)
        torch.testing.assert_close(actual, model(x))


@pytest.mark.skipif(not FULL, reason="long: only with FIRESTEEL_FULL=1")
@pytest.mark.parametrize("name", NETWORKS)
def test_training_in_double_precision(name):
    check_training(name, torch.float64, 1e-9)


@pytest.mark.skipif(not FULL, reason="long: only with FIRESTEEL_FULL=1")
@pytest.mark.parametrize("name", NETWORKS)
def test_training_under_autocast(name):
    def in_bfloat16(model):
        def run(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return model(x)

        return run

    check_training(name, torch.float32, 1e-2, in_bfloat16)
