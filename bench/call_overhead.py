"""What calling a compiled function costs, against eager and torch.compile(backend="eager"), in one run.

Per call, above a plain loop of the same torch calls: `x + 1`, fifty Linear layers, a function with one graph break.
First call, less one warm eager run: BERT-base, twelve layers. And a frame that is not compiled, before and after.
"""

import argparse
import time

import torch
from torch import nn

import firesteel

BACKENDS = ("eager", "aot_eager")


class Layers(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def add_one(x):
    return x + 1


def broken(x):
    x = x + 1
    torch._C._log_api_usage_once("firesteel.bench")
    firesteel.counters()  # a C function that capture does not know
    return x * 2


def seconds(function, *args, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function(*args)
    return (time.perf_counter() - start) / calls


def alternate(functions, args, *, calls, rounds):
    """The minimum of each, taken by turns."""
    for function in functions.values():
        seconds(function, *args, calls=3)
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            best[name] = min(best[name], seconds(function, *args, calls=calls))
    return best


def compiled_versions(make):
    versions = {f"firesteel {backend}": firesteel.compile(make(), backend=backend) for backend in BACKENDS}
    versions["torch.compile eager"] = torch.compile(make(), backend="eager")
    return versions


def per_call(title, make, plain, x, *, calls, rounds):
    best = alternate({"plain": plain, **compiled_versions(make)}, (x,), calls=calls, rounds=rounds)
    floor = best.pop("plain")
    theirs = best["torch.compile eager"] - floor
    print(f"{title}: {floor * 1e6:.2f} µs for the torch calls alone")
    for name, cost in best.items():
        ratio = f"1/{theirs / (cost - floor):.1f} of torch's" if cost > floor else "less than nothing"
        print(f"  {name:20} {(cost - floor) * 1e6:+8.2f} µs over it  {ratio if 'torch' not in name else ''}")


def linear_calls(model):
    pairs = [(layer.weight, layer.bias) for layer in model.layers]
    linear = nn.functional.linear

    def run(x):
        for weight, bias in pairs:
            x = linear(x, weight, bias)
        return x

    return run


def first_call(rounds):
    try:
        from transformers import BertConfig, BertModel
    except ImportError:
        print("first call of BERT-base: needs transformers")
        return
    model = BertModel(BertConfig(attn_implementation="sdpa")).eval()
    ids = torch.randint(0, 1000, (1, 16))
    with torch.no_grad():
        model(ids)

        def once(function):
            start = time.perf_counter()
            function(ids)
            return time.perf_counter() - start

        eager = min(once(model) for _ in range(5))
        best = {}
        for _ in range(rounds):
            for backend in BACKENDS:
                name = f"firesteel {backend}"
                best[name] = min(best.get(name, 1e9), once(firesteel.compile(model, backend=backend, fullgraph=True)))
            torch._dynamo.reset()
            name = "torch.compile eager"
            best[name] = min(best.get(name, 1e9), once(torch.compile(model, backend="eager", fullgraph=True)))
    theirs = best["torch.compile eager"] - eager
    print(f"first call of BERT-base, above an eager call of {eager * 1e3:.1f} ms")
    for name, cost in best.items():
        print(f"  {name:20} {(cost - eager) * 1e3:8.1f} ms  1/{theirs / (cost - eager):.1f} of torch's")


def python_work(n):
    return add_one(n) if n <= 0 else python_work(n - 1)


def not_compiled(rounds):
    """Deep Python calls before anything was compiled, and after."""
    before = min(seconds(python_work, 200, calls=50) for _ in range(rounds))
    compiled = firesteel.compile(add_one, backend="eager")
    compiled(torch.ones(1))
    after = min(seconds(python_work, 200, calls=50) for _ in range(rounds))
    print(f"a frame that is not compiled: {before / 200 * 1e9:.1f} ns a call before, {after / 200 * 1e9:.1f} ns after")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="how often the sides take turns (40)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    not_compiled(rounds)
    per_call("x + 1", lambda: add_one, add_one, torch.randn(4), calls=2000, rounds=rounds)
    model = Layers(50, 32).requires_grad_(False)
    per_call("50 Linear layers", lambda: model, linear_calls(model), torch.randn(4, 32), calls=100, rounds=rounds)
    per_call("one graph break", lambda: broken, broken, torch.randn(4), calls=1000, rounds=rounds)
    first_call(max(rounds // 8, 2))


if __name__ == "__main__":
    main()
