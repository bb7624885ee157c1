"""Twenty steps of training, compiled against eager: the losses and the final weights are equal."""

import copy

import pytest
import torch
from not_yet import NOT_YET
from zoo import ROWS

import firesteel

STEPS = 20
WARMUP = 5


def train(model, forward, row):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARMUP) * (1 - step / STEPS)
    )
    losses = []
    torch.manual_seed(0)  # dropout draws the same in both
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = forward(**row.make_inputs(step % 4)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["gpt2.no-cache", "bert.masked-lm"])
def test_training_follows_eager(name, backend, dropout):
    reason = NOT_YET.get(f"{name}:train:{backend}") or NOT_YET.get(f"{name}:train") or NOT_YET.get(name)
    if reason:
        pytest.skip(f"listed in not_yet.py: {reason}")
    firesteel.reset_counters()
    model = ROWS[name].build(train=True, dropout=dropout)
    twin = copy.deepcopy(model)
    expected = train(model, model, ROWS[name])
    losses = train(twin, firesteel.compile(twin, fullgraph=True, backend=backend), ROWS[name])
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[-1] < losses[0] - 0.5
    for (key, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4, msg=key)
    assert firesteel.counters() == {"captured": 1, "hits": STEPS, "misses": 1, "breaks": {}, "fallbacks": {}}
