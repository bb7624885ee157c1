"""Time of an inference with frozen weights: eager, Firesteel, Firesteel frozen, Inductor frozen and OpenVINO, by turns.

Results are compared first; the minimum of each counts. `ready` is the time from the model to the first result that the
fast code gives, less a warm eager run. OpenVINO takes part where it is installed (pip install openvino).
"""

import argparse
import importlib.util
import time

import torch
import zoo

import firesteel

ROWS = ("mlp", "bert-base", "gpt2", "llama", "vit-base", "t5-small", "resnet-50")


def values(result):
    return [result] if isinstance(result, torch.Tensor) else list(result.values())


def frozen(model, inputs):
    return firesteel.compile(model, wait=True, options={"freeze": True})


def plain(model, inputs):
    return firesteel.compile(model, wait=True)


def inductor(model, inputs):
    torch._inductor.config.freezing = True
    return torch.compile(model)


def openvino(model, inputs):
    import openvino

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *given):
            return values(self.model(**dict(zip(inputs, given, strict=True))))[0]

    given = tuple(inputs.values())
    try:
        converted = openvino.convert_model(Flat(), example_input=given)
    except Exception:  # models whose masks its own tracer does not follow
        converted = openvino.convert_model(torch.export.export(Flat().eval(), given))
    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(converted, "CPU", settings)
    return lambda **given: {"first": torch.from_numpy(compiled([value.numpy() for value in given.values()])[0])}


def compare(name, options):
    model, inputs = zoo.build(name, False)
    model.eval()
    sides, ready = {"eager": lambda **given: model(**given)}, {"eager": 0.0}
    expected = values(sides["eager"](**inputs))
    start = time.perf_counter()
    sides["eager"](**inputs)
    warm = time.perf_counter() - start
    makers = {"plain": plain, "frozen": frozen}
    if options.inductor:
        makers["inductor"] = inductor
    if importlib.util.find_spec("openvino"):
        makers["openvino"] = openvino
    for side, make in makers.items():
        start = time.perf_counter()
        try:
            sides[side] = make(model, inputs)
        except Exception as error:
            if side != "openvino":
                raise
            print(f"{name}: OpenVINO cannot convert it ({str(error).strip().splitlines()[0]})")
            continue
        given = values(sides[side](**inputs))
        ready[side] = time.perf_counter() - start - warm
        torch.testing.assert_close(given[0], expected[0], rtol=2e-3, atol=5e-4, msg=side)
    firesteel.reset_native_counters()
    sides["frozen"](**inputs)
    assert firesteel.native_counters()["frozen_runs"] == 1
    best = dict.fromkeys(sides, float("inf"))
    end, rounds = time.perf_counter() + options.seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        for side, call in sides.items():
            start = time.perf_counter()
            call(**inputs)
            best[side] = min(best[side], time.perf_counter() - start)
        rounds += 1
    cells = (
        f"{side} {t * 1e3:.2f} ms ({best['eager'] / t:.2f}x, ready {ready[side]:.2f} s)" for side, t in best.items()
    )
    print(f"{name:10} {'; '.join(cells)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}; all of them by default")
    parser.add_argument("--threads", type=int, default=2, help="(2)")
    parser.add_argument("--seconds", type=float, default=5, help="a row is timed for (5)")
    parser.add_argument("--inductor", action="store_true", help="torch.compile with freezing takes part")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    for name in options.rows or ROWS:
        compare(name, options)


if __name__ == "__main__":
    main()
