"""set_stance, run and reset: how all compiled functions behave for a while."""

import pytest
import torch

import firesteel

BACKENDS = ["eager", "aot_eager"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(autouse=True)
def default_stance():
    firesteel.reset()
    yield
    firesteel.set_stance("default")


def compiling(x):
    return x.sin() + float(firesteel.is_compiling())


def served(compiled, x):
    """What the counters say of one call, and whether it ran compiled."""
    firesteel.reset_counters()
    result = compiled(x)
    is_compiled = bool(torch.equal(result, x.sin() + 1))
    assert is_compiled or torch.equal(result, x.sin())
    return is_compiled, firesteel.counters()


def test_force_eager(backend):
    compiled = firesteel.compile(compiling, backend=backend, fullgraph=True)
    x = torch.randn(3)
    assert served(compiled, x)[0]
    with firesteel.set_stance("force_eager"):
        is_compiled, counts = served(compiled, x)
        assert not is_compiled
        assert counts["fallbacks"] == {"FS-STANCE": 1}
    assert served(compiled, x)[0]


def test_eager_on_recompile(backend):
    compiled = firesteel.compile(compiling, backend=backend)
    compiled(torch.randn(3))
    with firesteel.set_stance("eager_on_recompile"):
        assert served(compiled, torch.randn(3))[0]
        assert not served(compiled, torch.randn(4))[0]
        assert served(firesteel.compile(compiling, backend=backend), torch.randn(3))[0]  # shares the other's
        alone = firesteel.compile(compiling, backend=backend, isolate_recompiles=True)
        assert not served(alone, torch.randn(3))[0]
    assert served(compiled, torch.randn(4))[0]


def test_fail_on_recompile(backend):
    compiled = firesteel.compile(compiling, backend=backend)
    compiled(torch.randn(3))
    firesteel.set_stance("fail_on_recompile")
    assert served(compiled, torch.randn(3))[0]
    with pytest.raises(firesteel.ControlError, match="would have to be compiled") as caught:
        compiled(torch.randn(4))
    assert "size is [4], was [3]" in str(caught.value)
    with pytest.raises(RuntimeError, match="nothing was compiled yet"):
        firesteel.compile(compiling, backend=backend, isolate_recompiles=True)(torch.randn(3))


def test_eager_then_compile(backend):
    compiled = firesteel.compile(compiling, backend=backend)
    with firesteel.set_stance("eager_then_compile"):
        assert [served(compiled, torch.randn(3))[0] for _ in range(3)] == [False, True, True]


def test_aot_eager_then_compile(backend):
    compiled = firesteel.compile(compiling, backend=backend, isolate_recompiles=True)
    with firesteel.set_stance("aot_eager_then_compile"):
        counts = [served(compiled, torch.randn(3)) for _ in range(3)]
    assert all(is_compiled for is_compiled, _ in counts)
    assert [count["captured"] for _, count in counts] == [1, 1, 0]


def test_force_backend(backend):
    graphs = []

    def record(module, examples):
        graphs.append(module)
        return module.forward

    compiled = firesteel.compile(compiling, backend=backend)
    x = torch.randn(3)
    assert served(compiled, x)[0]
    with firesteel.set_stance(force_backend=record):
        assert served(compiled, x)[0]
        assert served(compiled, x)[1]["captured"] == 0
    assert len(graphs) == 1
    assert served(compiled, x)[1]["captured"] == 0
    with pytest.raises(firesteel.ControlError, match='goes with the stance "default"'):
        firesteel.set_stance("force_eager", force_backend="eager")
    with pytest.raises(ValueError, match="there is no backend"):
        firesteel.set_stance(force_backend="typo")


def test_forms_and_nesting(backend):
    compiled = firesteel.compile(compiling, backend=backend)
    x = torch.randn(3)

    @firesteel.set_stance("force_eager")
    def eagerly(x):
        return compiled(x)

    assert eagerly.__name__ == "eagerly"
    assert torch.equal(eagerly(x), x.sin())
    assert torch.equal(compiled(x), x.sin() + 1)
    with firesteel.set_stance("force_eager"):
        with firesteel.set_stance("default"):
            assert served(compiled, x)[0]
        assert not served(compiled, x)[0]
    firesteel.set_stance("force_eager")
    assert not served(compiled, x)[0]


def test_bad_stances(backend):
    for bad in ("typo", 3, None):
        with pytest.raises(ValueError, match=r"there is no stance .*'force_eager'"):
            firesteel.set_stance(bad)
    with pytest.raises(TypeError, match="skip_guard_eval_unsafe"):
        firesteel.set_stance(skip_guard_eval_unsafe=3)
    with pytest.raises(TypeError, match="needs a function"):
        firesteel.set_stance("default")(3)

    def inside(x):
        firesteel.set_stance("force_eager")
        return x + 1

    for fullgraph in (True, False):
        with pytest.raises(firesteel.ControlError, match="set_stance\\(\\) is called inside"):
            firesteel.compile(inside, backend=backend, fullgraph=fullgraph)(torch.randn(3))


def test_run_compiles_nothing(backend):
    compiled = firesteel.compile(compiling, backend=backend)
    compiled(torch.randn(3))
    run = firesteel.run(compiled)
    assert served(run, torch.randn(3))[0]
    assert not served(run, torch.randn(4))[0]
    assert served(compiled, torch.randn(4))[0]
    assert served(run, torch.randn(4))[0]
    with pytest.raises(TypeError, match="run\\(\\) needs"):
        firesteel.run(3)


def test_reset_forgets_everything(backend):
    compiled = firesteel.compile(compiling, backend=backend, recompile_limit=1)
    x = torch.randn(3)
    compiled(x)
    assert served(compiled, x)[1]["captured"] == 0
    firesteel.reset()
    assert served(compiled, x)[1]["captured"] == 1
    with pytest.warns(RuntimeWarning, match="runs eagerly from now on"):
        assert not served(compiled, torch.randn(4))[0]
    firesteel.reset()
    assert served(compiled, torch.randn(4))[0]


def test_reset_between_two_pieces(backend):
    def f(x):
        x = x.sin()
        firesteel.disable(firesteel.reset)()
        return x.cos()

    compiled = firesteel.compile(f, backend=backend)
    x = torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), x.sin().cos())
