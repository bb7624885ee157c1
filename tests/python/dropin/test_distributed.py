"""DDP and FSDP2 over gloo, two processes: compiled outside and inside the wrapper, the losses are eager's."""

import os

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import firesteel

if not dist.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

WORLD = 2


def build():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def ddp(way):
    model = build()
    if way == "inside":
        return DistributedDataParallel(firesteel.compile(model, wait=True))
    wrapped = DistributedDataParallel(model)
    return firesteel.compile(wrapped, wait=True) if way == "outside" else wrapped


def fsdp(way):
    model = build()
    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in model.layers:
        if way == "inside":
            layer.compile()
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return firesteel.compile(model, wait=True) if way == "outside" else model


def train(rank, store, wrap, way, answers):
    torch.set_num_threads(1)
    firesteel.install()  # for module.compile()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    model = wrap(way)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(5):
        torch.manual_seed(step * WORLD + rank)
        loss = model(torch.randn(3, 5, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if rank == 0:
        answers.put((losses, firesteel.counters()["hits"]))
    dist.barrier()
    # At once: the group that a DDP model frees waits, with Python's lock held, for a thread that may need it.
    os._exit(0)


def losses_of(tmp_path, wrap, way):
    answers = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(train, (str(tmp_path / f"store-{way}"), wrap, way, answers), nprocs=WORLD)
    return answers.get()


@pytest.mark.parametrize("wrap", [ddp, fsdp])
def test_losses_are_eager_s(wrap, tmp_path):
    expected, hits = losses_of(tmp_path, wrap, "eager")
    assert hits == 0
    for way in ("outside", "inside"):
        found, hits = losses_of(tmp_path, wrap, way)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert hits > 0


def train_until_killed(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    model = ddp("inside")
    for step in range(50):
        if rank == 1 and step == 3:
            os._exit(7)  # at once: gloo's own threads may abort a process that leaves in order
        model(torch.randn(3, 5, 16)).square().mean().backward()


def test_a_worker_that_is_gone(tmp_path):
    with pytest.raises(
        (torch.multiprocessing.ProcessExitedException, torch.multiprocessing.ProcessRaisedException)
    ) as e:
        torch.multiprocessing.spawn(train_until_killed, (str(tmp_path / "store"),), nprocs=WORLD)
    text = str(e.value)
    assert "exit code 7" in text or "gloo" in text.lower() or "Connection" in text
    assert "firesteel" not in text.splitlines()[-1]
