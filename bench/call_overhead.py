"""What a call of a compiled function costs: `x + 1`, alternating with eager and torch.compile; the minimum of each."""

import time

import torch

import firesteel

ROUNDS = 60
CALLS = 2000


def add_one(x):
    return x + 1


def nanoseconds(function, x):
    start = time.perf_counter()
    for _ in range(CALLS):
        function(x)
    return (time.perf_counter() - start) / CALLS * 1e9


def main():
    torch.set_num_threads(1)
    functions = {
        "eager": add_one,
        "firesteel eager": firesteel.compile(add_one, backend="eager"),
        "firesteel aot_eager": firesteel.compile(add_one, backend="aot_eager"),
        "torch.compile eager": torch.compile(add_one, backend="eager"),
    }
    x = torch.randn(4)
    for function in functions.values():
        nanoseconds(function, x)
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            best[name] = min(best[name], nanoseconds(function, x))
    for name, cost in best.items():
        print(f"{name:20} {cost:7.0f} ns a call, {cost - best['eager']:+7.0f} ns over eager")
    theirs = best["torch.compile eager"] - best["eager"]
    ours = best["firesteel eager"] - best["eager"]
    print(f"overhead: {ours:.0f} ns against {theirs:.0f} ns: 1/{theirs / max(ours, 1):.1f}")


if __name__ == "__main__":
    main()
