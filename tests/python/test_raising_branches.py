"""Branches on tensors that only raise, in functions with fullgraph=True: asserted by the graph, raised by the code."""

import pytest
import torch
import torch.distributions as dist
from torch.testing import assert_close

import firesteel

BACKENDS = ["eager", "aot_eager", "firesteel"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    # PyTorch's own compiler, where another test has loaded it, switches this off for the process.
    monkeypatch.setattr(dist.Distribution, "_validate_args", True)
    firesteel.reset_counters()


def unless(x):
    if not (x > 0).all():
        raise ValueError(f"not positive: {x.min().item()}")
    return x.log() * 2


def when(x):
    y = x * 3
    if (y > 50).any():
        raise KeyError("large", y.shape)
    return y.sqrt()


def in_a_loop(x):
    for power in range(1, 4):
        x = x * power
        if x.sum() > 300:
            raise OverflowError(f"at {power}")
    return x


def in_a_call(x):
    def checked(y):
        if y.isnan().any() or y.isinf().any():
            raise FloatingPointError("no number")
        return y + 1

    return checked(x.log()) * checked(x)


def asserted(x):
    assert (x > 0).all(), f"{x.min()} is no good"
    return x.rsqrt()


CASES = [
    (unless, torch.tensor([1.0, -2.0])),
    (when, torch.tensor([1.0, 90.0])),
    (in_a_loop, torch.tensor([70.0, 0.0])),
    (in_a_call, torch.tensor([1.0, 0.0])),
    (asserted, torch.tensor([1.0, 0.0])),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "bad"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_one_graph_and_the_error_of_the_code(function, bad, backend):
    compiled = firesteel.compile(function, backend=backend, fullgraph=True)
    for good in ([1.0, 2.0], [3.0, 0.5]):
        x, y = torch.tensor(good, requires_grad=True), torch.tensor(good, requires_grad=True)
        result, expected = compiled(x), function(y)
        assert_close(result, expected)
        result.sum().backward()
        expected.sum().backward()
        assert_close(x.grad, y.grad)
    assert firesteel.counters()["captured"] == 1
    assert not firesteel.counters()["breaks"]
    with pytest.raises(Exception) as eager:  # noqa: PT011
        function(bad)
    with pytest.raises(Exception) as ours:  # noqa: PT011
        compiled(bad)
    assert type(ours.value) is type(eager.value)
    assert str(ours.value).splitlines()[0] == str(eager.value).splitlines()[0]  # pytest adds addresses to assertions
    assert_close(compiled(torch.tensor([2.0, 2.0])), function(torch.tensor([2.0, 2.0])))


def test_what_is_caught_is_a_branch_as_before():
    def caught(x):
        try:
            if x.sum() > 3:
                raise ValueError
        except ValueError:
            return x - 1
        return x + 1

    def outer(x):
        try:
            return unless(x)
        except ValueError:
            return x

    for function in (caught, outer):
        with pytest.raises(firesteel.GraphBreakError, match="FS-DATA-DEPENDENT"):
            firesteel.compile(function, fullgraph=True)(torch.ones(2))
        compiled = firesteel.compile(function)
        for x in (torch.ones(2), torch.tensor([-4.0, 9.0])):
            assert_close(compiled(x), function(x))


def test_a_graph_that_has_written_says_where():
    def writes(x, y):
        x.add_(1)
        if y.sum() > 0:
            raise ValueError("positive")
        return x * y

    compiled = firesteel.compile(writes, backend=lambda graph, inputs: graph.forward, fullgraph=True)
    assert_close(compiled(torch.ones(2), -torch.ones(2)), torch.tensor([-2.0, -2.0]))
    with pytest.raises(RuntimeError, match=r"test_raising_branches.py:\d+ raises an error for this data"):
        compiled(torch.ones(2), torch.ones(2))


DISTRIBUTIONS = {
    "normal": lambda a: dist.Normal(a, a.abs() + 1),
    "bernoulli": lambda a: dist.Bernoulli(logits=a),
    "categorical": lambda a: dist.Categorical(logits=a),
    "gamma": lambda a: dist.Gamma(a.abs() + 1, a.abs() + 1),
    "beta": lambda a: dist.Beta(a.abs() + 1, a.abs() + 2),
    "independent": lambda a: dist.Independent(dist.Laplace(a, a.abs() + 1), 1),
    "transformed": lambda a: dist.TransformedDistribution(dist.Normal(a, a.exp()), [dist.transforms.ExpTransform()]),
    "mixture": lambda a: dist.MixtureSameFamily(dist.Categorical(logits=a), dist.Normal(a, a.abs() + 1)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_keep_their_checks(name, backend):
    make = DISTRIBUTIONS[name]

    def log_prob(a, v):
        return make(a).log_prob(v)

    compiled = firesteel.compile(log_prob, backend=backend, fullgraph=True)
    for seed in range(2):
        torch.manual_seed(seed)
        a = torch.randn(4, requires_grad=True)
        v, b = make(a).sample(), a.detach().clone().requires_grad_()
        result, expected = compiled(a, v), log_prob(b, v)
        assert_close(result, expected)
        assert_close(torch.autograd.grad(result.sum(), a), torch.autograd.grad(expected.sum(), b))
    assert firesteel.counters()["captured"] == 1
    assert not firesteel.counters()["breaks"]
    bad = torch.full((4,), torch.nan)
    with pytest.raises(ValueError, match="Expected parameter") as ours:
        compiled(bad, v)
    with pytest.raises(ValueError, match="Expected parameter") as eager:
        log_prob(bad, v)
    assert str(ours.value) == str(eager.value)


def test_distributions_do_not_break_graphs():
    compiled = firesteel.compile(lambda a, v: dist.Normal(a.sin(), a.exp()).log_prob(v) * 2)
    compiled(torch.ones(3), torch.ones(3))
    assert firesteel.counters()["captured"] == 1
    assert not firesteel.counters()["breaks"]
    with pytest.raises(ValueError, match="Expected parameter loc"):
        compiled(torch.full((3,), torch.nan), torch.ones(3))


def test_classes_over_property():
    class Named(property):
        def __init__(self, getter, note):
            super().__init__(getter)
            self.note = note

    class Owner:
        scale = Named(lambda self: self.base * 2, "twice")

    owner = Owner()
    compiled = firesteel.compile(lambda x: x * owner.scale, fullgraph=True)
    for base in (1, 2, 5):
        owner.base = base
        assert_close(compiled(torch.ones(2)), torch.ones(2) * base * 2)
