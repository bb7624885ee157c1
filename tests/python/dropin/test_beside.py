"""What lives beside torch.compile works under `python -m firesteel` as well; nothing is said on standard error."""

import textwrap

import pytest
from processes import printed_by

SETTING = """
    import copy, io, pickle
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    torch.manual_seed(0)
    net, x = Net(), torch.randn(3, 4)
    compiled = torch.compile(net)
    close = torch.testing.assert_close
"""
PROGRAMS = {
    "copies": """
        close(compiled(x), net(x))
        other = copy.deepcopy(compiled)
        close(other(x), net(x))
        with torch.no_grad():
            other.a.weight.add_(1)
        assert not torch.allclose(other(x), net(x))
        close(compiled(x), net(x))
    """,
    "saving": """
        for save, load in ((pickle.dump, pickle.load), (torch.save, lambda f: torch.load(f, weights_only=False))):
            file = io.BytesIO()
            save(compiled, file)
            file.seek(0)
            close(load(file)(x), net(x))
        state = compiled.state_dict()
        assert list(state) == list(net.state_dict())
        fresh = torch.compile(Net())
        fresh.load_state_dict(state)
        close(fresh(x), net(x))
    """,
    "optimizers": """
        names = "SGD Adam AdamW RMSprop Adagrad NAdam Adamax Adadelta RAdam ASGD Rprop"
        for name in names.split():
            layers = [nn.Linear(4, 4, bias=False)]
            layers.append(copy.deepcopy(layers[0]))
            steps = []
            for layer, compiles in zip(layers, (True, False)):
                optimizer = getattr(torch.optim, name)(layer.parameters(), lr=0.01)

                def step(layer=layer, optimizer=optimizer):
                    def closure():
                        optimizer.zero_grad()
                        loss = layer(x).square().sum()
                        loss.backward()
                        return loss
                    closure()
                    optimizer.step()
                steps.append(torch.compile(step) if compiles else step)
            for _ in range(4):
                for step in steps:
                    step()
            close(layers[0].weight, layers[1].weight, rtol=1e-4, atol=1e-5, msg=lambda text: name + ": " + text)
    """,
    "a training step": """
        def train(layer, optimizer, scheduler, x):
            optimizer.zero_grad()
            loss = layer(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            return loss.detach()

        sides = []
        for run in (torch.compile(train), train):
            layer = copy.deepcopy(net)
            optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
            sides.append([run(layer, optimizer, scheduler, x) for _ in range(12)])
        close(*sides)
    """,
    "data workers": """
        double = torch.compile(lambda v: v * 2 + 1)

        class Numbers(torch.utils.data.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, i):
                return double(torch.full((4,), float(i)))

        double(torch.ones(4))  # known before the workers are forked
        found = torch.cat(list(torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2)))
        close(found, torch.arange(8.0)[:, None].expand(8, 4) * 2 + 1)
    """,
    "the profiler": """
        with torch.profiler.profile() as profile:
            compiled(x).sum().backward()
        assert profile.key_averages()
    """,
    "torch.func": """
        close(torch.compile(torch.func.grad(lambda v: (v**3).sum()))(x), 3 * x**2)
        close(torch.compile(torch.vmap(lambda v: v.sum() * v))(x), torch.vmap(lambda v: v.sum() * v)(x))
        close(torch.compile(lambda v: torch.func.vjp(torch.sin, v)[1](torch.ones_like(v))[0])(x), x.cos())
        close(torch.compile(torch.func.jacfwd(lambda v: v**2))(x[0]), torch.diag(2 * x[0]))
        close(torch.compile(torch.func.jacrev(lambda v: v**2))(x[0]), torch.diag(2 * x[0]))
        call = torch.compile(lambda p, v: torch.func.functional_call(net, p, (v,)))
        close(call(dict(net.named_parameters()), x), net(x))
    """,
    "torch.export": """
        import torch._dynamo
        program = torch.export.export(net, (x,))
        close(program.module()(x), net(x))
        graph, _ = torch._dynamo.export(lambda v: v.sin() + 1)(x)
        close(graph(x), x.sin() + 1)
    """,
    "attention that PyTorch's compiler makes": """
        import warnings
        from torch.nn.attention.flex_attention import flex_attention
        warnings.simplefilter("ignore")  # of PyTorch's, about what it does where nothing is compiled
        q = torch.randn(1, 1, 16, 8)
        wanted = flex_attention(q, q, q)
        close(wanted, nn.functional.scaled_dot_product_attention(q, q, q))
        for backend in ("eager", "inductor"):
            close(torch.compile(flex_attention, backend=backend)(q, q, q), wanted)
        close(torch.compile(lambda v: flex_attention(v.sin(), v, v) + 1)(q), flex_attention(q.sin(), q, q) + 1)
    """,
    "hooks on what is saved": """
        seen = []
        def pack(saved):
            seen.append(type(saved) is torch.Tensor and saved.untyped_storage().data_ptr() != 0)
            return saved
        run, weight = torch.compile(lambda v: (v.sin() * v).sum()), x.clone().requires_grad_()
        for _ in range(3):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
                result = run(weight)
            assert seen and all(seen), seen
            calls = len(seen)
            seen.clear()
            result.backward()
            close(weight.grad, x.cos() * x + x.sin())
            weight.grad = None
        assert calls <= 2
    """,
    "compilation turned off": """
        from torch._dynamo.testing import CompileCounter
        counter = CompileCounter()
        with torch._dynamo.config.patch(disable=True):
            close(torch.compile(lambda v: v.sin(), backend=counter)(x), x.sin())
        assert counter.frame_count == 0
        close(torch.compile(lambda v: v.sin(), backend=counter)(x), x.sin())
        assert counter.frame_count == 1
    """,
    "counters of Dynamo": """
        import torch._dynamo
        from torch._dynamo.testing import CompileCounter
        counter = CompileCounter()
        run = torch.compile(lambda v: v.sin() + 1, backend=counter)
        run(x), run(x)
        assert (counter.frame_count, counter.op_count) == (1, 2)
        empty = torch.compile(lambda v: (print(end=""), v.__class__)[1])  # a piece without a graph
        empty(x)
        assert torch._dynamo.utils.counters["frames"]["total"] > 0
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_beside(name, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(SETTING) + textwrap.dedent(PROGRAMS[name]))
    printed_by("-m", "firesteel", script, cwd=tmp_path, silent=name != "the profiler")  # which writes there itself
