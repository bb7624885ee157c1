"""Matrix products that native code gives to oneDNN: the same results, gradients included, whatever the layout."""

import pytest
import torch

import firesteel


@pytest.fixture(autouse=True)
def onednn(monkeypatch):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    firesteel.trace(lambda x: (x + 1) * 2, torch.ones(2), native=True)(torch.ones(2))
    if firesteel.native_counters()["native_ops"] == 0:
        pytest.skip("built without LLVM")
    monkeypatch.setenv("FIRESTEEL_MATMUL", "onednn")
    firesteel.reset_native_counters()


def products():
    return firesteel.native_counters()["onednn_matmuls"]


def check(function, *shapes, transposed=()):
    """Result and gradients against eager, on other values than those of the first call."""
    compiled = firesteel.compile(function, fullgraph=True, wait=True)
    for seed in (1, 2):
        torch.manual_seed(seed)
        inputs = []
        for i, shape in enumerate(shapes):
            made = torch.randn(shape[::-1]).t() if i in transposed else torch.randn(shape)
            inputs.append(made.requires_grad_())
        found, expected = compiled(*inputs), function(*inputs)
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        gradients = [torch.autograd.grad(result.square().sum(), inputs) for result in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("transposed", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("shape", [(5, 7, 3), (64, 33, 17), (1, 16, 8)])
def test_products(shape, transposed):
    m, k, n = shape
    check(torch.mm, (m, k), (k, n), transposed=transposed)
    assert products() == 6  # two calls of one forward and two backward products


def test_with_a_bias():
    check(torch.nn.functional.linear, (9, 6), (4, 6), (4,))
    assert products() == 6


def test_what_it_cannot_take_stays():
    check(lambda b, x, y: torch.addmm(b, x, y, alpha=2), (4,), (9, 6), (6, 4))
    check(lambda b, x, y: torch.addmm(b, x, y), (9, 4), (9, 6), (6, 4))
    assert products() == 8  # the backward products of both
    firesteel.reset_native_counters()
    compiled = firesteel.compile(torch.mm, wait=True)
    for dtype in (torch.float64, torch.bfloat16):
        x = torch.randn(6, 6).to(dtype)
        torch.testing.assert_close(compiled(x, x), x @ x)
    assert compiled(torch.ones(0, 3), torch.ones(3, 2)).shape == (0, 2)
    torch.testing.assert_close(compiled(torch.ones(2, 0), torch.ones(0, 2)), torch.zeros(2, 2))
    assert products() == 0


def test_a_small_product_and_a_choice_against_it_stay(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_MATMUL", "")
    check(torch.mm, (5, 7), (7, 3))
    monkeypatch.setenv("FIRESTEEL_MATMUL", "aten")
    check(lambda x, y: torch.mm(x, y), (128, 600), (600, 128))
    assert products() == 0


def test_models_train():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    compiled = firesteel.compile(model, fullgraph=True, wait=True)
    losses = {}
    for call in (compiled, model):
        torch.manual_seed(0)
        twin = [p.detach().clone() for p in model.parameters()]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses[call] = []
        for _ in range(5):
            loss = call(torch.randn(6, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[call].append(loss.item())
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), twin, strict=True):
                parameter.copy_(value)
    assert losses[compiled] == pytest.approx(losses[model], rel=1e-4)
    assert products() > 0


@pytest.mark.parametrize(
    ("name", "known"),
    [("FIRESTEEL_MATMUL", "aten or onednn"), ("FIRESTEEL_CPU", "avx512, avx2 or sse"), ("FIRESTEEL_ATTENTION", "aten")],
)
def test_a_wrong_setting_is_named(monkeypatch, name, known):
    monkeypatch.setenv(name, "fast")
    with pytest.raises(firesteel.Error, match=rf"{name} is 'fast'\n  try: {known}"):
        firesteel.compile(torch.mm)
