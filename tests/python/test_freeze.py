"""options={"freeze": True}: weights are prepared once, changes of weights are seen, and results are eager's."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

import firesteel

firesteel.trace(lambda x: (x + 1) * 2, torch.ones(2), native=True)(torch.ones(2))
pytestmark = pytest.mark.skipif(firesteel.native_counters()["native_ops"] == 0, reason="built without LLVM")


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset_counters()
    firesteel.reset_native_counters()
    torch.manual_seed(0)


def frozen(module):
    return firesteel.compile(module, fullgraph=True, wait=True, options={"freeze": True})


def trained_norm(channels):
    norm = nn.BatchNorm2d(channels)
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(tensor)
    nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return norm


class Block(nn.Module):
    """Two ways that meet in a sum, as residual networks have it."""

    def __init__(self, channels, stride=1, *, bias=False, groups=1, activation=None):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, stride, 1, bias=bias, groups=groups)
        self.first_norm = trained_norm(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=bias)
        self.second_norm = trained_norm(channels)
        self.short = nn.Sequential(nn.Conv2d(channels, channels, 1, stride), trained_norm(channels))
        self.activation = activation or nn.ReLU()

    def forward(self, x):
        y = self.activation(self.first_norm(self.first(x)))
        return self.activation(self.second_norm(self.second(y)) + self.short(x))


class Squeezed(nn.Module):
    """A picture scaled by what is seen in all of it."""

    def __init__(self, channels):
        super().__init__()
        self.inner = nn.Conv2d(3, channels, 3)
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        x = self.inner(x)
        return x * torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True))))), x.permute(0, 2, 3, 1)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(3, 7, 5, padding=2)
        self.out = nn.Linear(12 * 8 * 9, 6)

    def forward(self, x):
        x = torch.cat([self.a(x), self.b(x)], 1)
        x = nn.functional.max_pool2d(x, 2)
        return self.out(x.flatten(1)), x.reshape(-1)[:5], x.sum(1)


class Perceptron(nn.Module):
    def __init__(self, activation, width=130, bias=True):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width, bias), nn.Linear(4 * width, width, bias)
        self.activation, self.norm = activation, nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.down(self.activation(self.up(x))))


class Untransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(96, 200) * 0.1), nn.Parameter(torch.randn(200))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight) @ self.weight.t()


def pictures(*sizes):
    return lambda: torch.randn(*sizes)


MODELS = {
    "residual": (lambda: nn.Sequential(Block(16), Block(16, 2), Block(16)), pictures(2, 16, 15, 17)),
    "residual with biases": (lambda: Block(16, bias=True), pictures(3, 16, 9, 9)),
    "groups": (lambda: Block(12, groups=4), pictures(2, 12, 8, 8)),
    "depthwise": (lambda: Block(8, groups=8, activation=nn.Hardswish()), pictures(2, 8, 10, 10)),
    "relu6": (lambda: Block(8, activation=nn.ReLU6()), pictures(2, 8, 10, 10)),
    "leaky": (lambda: Block(8, activation=nn.LeakyReLU(0.2)), pictures(2, 8, 10, 10)),
    "silu": (lambda: Block(8, activation=nn.SiLU()), pictures(2, 8, 10, 10)),
    "plain norm": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=False), nn.Tanh()),
        pictures(2, 3, 9, 9),
    ),
    "one channel": (lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 1, 3)), pictures(2, 1, 9, 9)),
    "one point": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3), nn.GELU(), nn.Conv2d(8, 5, 1)), pictures(2, 4, 3, 3)),
    "squeezed": (lambda: Squeezed(16), pictures(2, 3, 12, 13)),
    "branches": (Branches, pictures(2, 3, 16, 18)),
    "gelu": (lambda: Perceptron(nn.GELU()), pictures(5, 33, 130)),
    "gelu by tanh": (lambda: Perceptron(nn.GELU(approximate="tanh"), bias=False), pictures(5, 33, 130)),
    "sigmoid": (lambda: Perceptron(nn.Sigmoid()), pictures(64, 130)),
    "untransposed": (Untransposed, pictures(128, 96)),
}


@pytest.mark.parametrize("name", MODELS)
def test_results_are_eagers(name):
    make, data = MODELS[name]
    model = make().eval()
    compiled = frozen(model)
    with torch.no_grad():
        for _ in range(3):
            x = data()
            before = x.clone()
            results, expected = compiled(x), model(x)
            torch.testing.assert_close(results, expected, rtol=2e-4, atol=2e-5)
            results, expected = (r if isinstance(r, tuple) else (r,) for r in (results, expected))
            assert [r.stride() for r in results] == [e.stride() for e in expected]
            assert torch.equal(x, before)
    counts = firesteel.counters()
    assert (counts["captured"], counts["fallbacks"]) == (1, {})
    native = firesteel.native_counters()
    assert (native["frozen_runs"], native["weights_prepared"]) == (3, 1)


@pytest.mark.parametrize("name", ["residual", "relu6", "leaky", "silu", "gelu", "sigmoid"])
def test_what_is_no_number_stays_so(name):
    make, data = MODELS[name]
    model = make().eval()
    x = data()
    x.view(-1)[7], x.view(-1)[-1] = float("nan"), float("inf")
    with torch.no_grad():
        torch.testing.assert_close(frozen(model)(x), model(x), rtol=2e-4, atol=2e-5, equal_nan=True)


def test_channels_last_inputs():
    model = Block(16).eval()
    x = torch.randn(2, 16, 9, 9).to(memory_format=torch.channels_last)
    with torch.no_grad():
        result = frozen(model)(x)
        torch.testing.assert_close(result, model(x), rtol=2e-4, atol=2e-5)
        assert result.is_contiguous(memory_format=torch.channels_last)


def change_in_place(model):
    with torch.no_grad():
        model.up.weight.mul_(1.5)


def change_data(model):
    model.up.weight.data = model.up.weight.data * 1.5


def replace_parameter(model):
    model.up.weight = nn.Parameter(model.up.weight.detach() * 1.5)


def load_state(model):
    model.load_state_dict({name: value * 1.5 for name, value in model.state_dict().items()})


@pytest.mark.parametrize("change", [change_in_place, change_data, replace_parameter, load_state])
def test_changed_weights_are_seen(change):
    model = Perceptron(nn.GELU()).eval()
    compiled = frozen(model)
    x = torch.randn(64, 130)
    with torch.no_grad():
        before = compiled(x)
        change(model)
        result = compiled(x)
        torch.testing.assert_close(result, model(x), rtol=2e-4, atol=2e-5)
    assert not torch.allclose(result, before)
    native = firesteel.native_counters()
    # A parameter that was replaced may be replaced again: it is an argument of the second graph.
    times = 1 if change is replace_parameter else 2
    assert (native["frozen_runs"], native["weights_prepared"]) == (times, times)


def test_weights_that_keep_changing():
    model = Perceptron(nn.ReLU()).eval()
    compiled = frozen(model)
    x = torch.randn(64, 130)
    with torch.no_grad():
        for _ in range(20):
            model.up.weight.mul_(0.9)
            torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-5)
    assert firesteel.counters()["captured"] == 1
    assert firesteel.native_counters()["weights_prepared"] == 8


def test_results_may_be_written_to():
    class Weights(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(64, 130))

        def forward(self, x):
            return self.weight.exp(), self.weight.t().exp()[:3], x @ self.weight.t()

    model = Weights()
    compiled = frozen(model)
    x = torch.randn(300, 130)
    with torch.no_grad():
        for _ in range(3):
            results, expected = compiled(x), model(x)
            torch.testing.assert_close(results, expected, rtol=2e-4, atol=2e-5)
            for result in results:
                result.zero_()


def test_training_is_as_without():
    model = Perceptron(nn.GELU())
    twin = copy.deepcopy(model)
    compiled = frozen(model)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, twin)]
    for _ in range(4):
        x = torch.randn(64, 130)
        for run, optimizer in zip((compiled, twin), optimizers, strict=True):
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), twin(x), rtol=2e-4, atol=2e-5)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=2e-4, atol=2e-5)


def test_statistics_that_the_call_changes_are_no_weights():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    twin = copy.deepcopy(model)
    compiled = frozen(model)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 3, 8, 8)
            torch.testing.assert_close(compiled(x), twin(x), rtol=2e-4, atol=2e-5)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=2e-4, atol=2e-5)


def test_inference_mode_and_its_tensors():
    with torch.inference_mode():
        model = Perceptron(nn.GELU()).eval()
        compiled = frozen(model)
        x = torch.randn(64, 130)
        torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-5)
        model.up.weight.mul_(1.5)
        torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-5)


def test_the_model_may_go():
    model = Perceptron(nn.GELU()).eval()
    compiled = frozen(lambda model, x: model(x))
    with torch.no_grad():
        compiled(model, torch.randn(64, 130))
    assert firesteel.native_counters()["frozen_runs"] == 1
    gone = weakref.ref(model.up.weight)
    del model
    gc.collect()
    assert gone() is None


def test_two_models_by_turns():
    models = [Perceptron(nn.GELU()).eval() for _ in range(2)]
    compiled = frozen(lambda model, x: model(x))
    with torch.no_grad():
        for call in range(24):
            x = torch.randn(64, 130)
            model = models[call % 2]
            torch.testing.assert_close(compiled(model, x), model(x), rtol=2e-4, atol=2e-5)
    assert not firesteel.counters()["fallbacks"]


def test_weights_that_become_inference_tensors():
    model = Perceptron(nn.GELU()).eval()
    compiled = frozen(model)
    x = torch.randn(64, 130)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-5)
    with torch.inference_mode():
        model.up.weight = nn.Parameter(torch.randn(520, 130))
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-5)
            model.up.weight.mul_(1.5)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"options": {"freeze": 1}}, TypeError, "is True or False, not 1"),
        ({"options": {"freeze": True}, "backend": "aot_eager"}, ValueError, "is for native code"),
        ({"options": {"frozen": True}}, ValueError, "has no option 'frozen'; those there are: 'freeze'"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        firesteel.compile(lambda x: x, **options)


def test_a_report_shows_what_runs(tmp_path):
    model = Block(16).eval()
    compiled = frozen(model)
    with torch.no_grad():
        compiled(torch.randn(2, 16, 9, 9))
    page = firesteel.report(str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mkldnn._convolution_pointwise" in text, page
