"""A guided tour of Firesteel: each stop shows real code and its real output. Run it with `make run`."""

import inspect
import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax

import firesteel

console = Console(width=120, highlight=False)
stops = []


def stop(title):
    """Registers one stop of the tour; the function's docstring is what the guide says."""

    def register(visit):
        stops.append((title, visit))
        return visit

    return register


def show_source(function):
    source = inspect.getsource(function)
    console.print(Syntax(source.rstrip(), "python", background_color="default", padding=(0, 2)))
    console.print()


def show(text):
    console.print(str(text), markup=False, soft_wrap=True)


def mlp(x, w1, b1, w2):
    hidden = F.gelu(x @ w1 + b1)
    return torch.softmax(hidden @ w2, dim=-1)


def counter(total, x):
    total += x.sum()
    return total * 2


def reads_data(x):
    if x.sum() > 0:
        return x.exp()
    return x


@firesteel.nonstrict_trace
def opaque(x):
    return x.cos() * 2


def wave(x):
    return x.sin() + opaque(x)


def mlp_inputs(requires_grad=False):
    sizes = [(8, 16), (16, 32), (32,), (32, 4)]
    return [torch.randn(size, requires_grad=requires_grad) for size in sizes]


@stop("A function becomes a graph")
def trace_a_function():
    """firesteel.trace runs a function once on tensors without data, and records the ATen operators it calls."""
    show_source(mlp)
    graph = firesteel.trace(mlp, *mlp_inputs())
    show(graph)
    return f"{len(graph.nodes)} nodes"


@stop("The graph runs")
def replay():
    """A graph is callable: on other values of the same shapes it gives what eager PyTorch gives."""
    graph = firesteel.trace(mlp, *mlp_inputs())
    inputs = mlp_inputs()
    difference = (graph(*inputs) - mlp(*inputs)).abs().max().item()
    return f"largest difference from eager on fresh values: {difference:g}"


@stop("Writing to an input")
def mutation():
    """The graph itself is functional; what the function wrote to its inputs is a list beside it, applied at the end."""
    show_source(counter)
    graph = firesteel.trace(counter, torch.zeros(()), torch.ones(3))
    show(graph)
    total = torch.zeros(())
    graph(total, torch.ones(3))
    graph(total, torch.ones(3))
    return f"total after two calls with ones(3): {total.item():g}"


@stop("Gradients")
def gradients():
    """With grad=True the backward pass is traced too, and cut from the forward where the fewest bytes cross."""
    inputs = mlp_inputs(requires_grad=True)
    graph = firesteel.trace(mlp, *inputs, grad=True)
    show(graph.backward)
    counts = [len(part.nodes) for part in (graph.joint, graph.forward, graph.backward)]

    weights = torch.randn(8, 4)
    expected = torch.autograd.grad((mlp(*inputs) * weights).sum(), inputs)
    found = torch.autograd.grad((graph(*inputs) * weights).sum(), inputs)
    difference = max((a - b).abs().max().item() for a, b in zip(expected, found, strict=True))
    return (
        "{} nodes in the joint graph: {} forward, {} backward\n".format(*counts)
        + f"largest difference from eager's gradients: {difference:g}"
    )


@stop("A mistake, explained")
def mistake():
    """A function that looks at a tensor's data cannot become one graph. The error shows the line."""
    try:
        firesteel.trace(reads_data, torch.ones(3))
    except firesteel.DataDependentError as error:
        show(f"firesteel.{type(error).__name__}: {error}")


@stop("How long it takes")
def timing():
    """Tracing is quick enough to forget: here a transformer encoder layer, forward and backward."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    x = torch.randn(2, 10, 64)
    firesteel.trace(layer, x, grad=True)
    begin = time.perf_counter()
    graph = firesteel.trace(layer, x, grad=True)
    took = time.perf_counter() - begin
    return f"{len(graph.joint.nodes)} nodes in {took * 1e3:.1f} ms"


@stop("Compiling a Python function")
def compile_a_function():
    """firesteel.compile captures a function at its first call; `opaque` is traced without being looked into."""
    show_source(wave)
    compiled = firesteel.compile(wave)
    x = torch.randn(1000, requires_grad=True)
    compiled(x).sum().backward()
    compiled(torch.randn(1000, requires_grad=True))
    counts = firesteel.counters()
    difference = (x.grad - (x.cos() - 2 * x.sin())).abs().max()
    return (
        f"captured {counts['captured']} frame, answered {counts['hits']} calls from it; "
        f"largest difference from the derivative: {difference:.1e}"
    )


def logged(x, log):
    hidden = x.sin() * 2
    log.append(hidden.mean().item())
    return hidden.cos()


@stop("What became of a function")
def explain_a_function():
    """firesteel.explain runs a function once, compiled, and tells its graphs, its graph breaks and what to do."""
    show_source(logged)
    log = []
    found = firesteel.explain(logged)(torch.randn(8), log)
    show(found)
    return f"{len(found.graphs)} graphs around {len(found.breaks)} break; the list holds {len(log)} number"


@firesteel.disable(reason="it prints")
def tell(x):
    show(f"eager: {float(x.mean()):.3f}")


def told(x):
    hidden = x.sin()
    tell(hidden)
    return opaque(hidden).cos()


@stop("The controls")
def controls():
    """disable leaves a function alone, nonstrict_trace takes it as one operation; docs/controls.md has them all."""
    show_source(told)
    found = firesteel.explain(told)(torch.randn(8))
    for graph in found.graphs:
        show(graph.text)
    return f"{len(found.graphs)} graphs around a break: {found.breaks[0].message}"


@stop("A backend of your own")
def own_backend():
    """A backend may be any function: it gets each graph as an fx GraphModule and returns what runs it."""
    seen = []

    def backend(graph_module, example_inputs):
        seen.append(graph_module)
        return graph_module.forward

    firesteel.compile(mlp, backend=backend)(*mlp_inputs())
    show(seen[0].code.strip())
    return f"called {len(seen)} time, with {len(list(seen[0].graph.nodes))} nodes"


@stop("Native code")
def native_code():
    """Operators are fused into vector kernels, where Firesteel was built with LLVM: here a softmax over a GELU."""

    def block(x, b):
        return F.gelu(x + b).softmax(-1)

    inputs = torch.randn(64, 256), torch.randn(256)
    compiled = firesteel.compile(block, wait=True)
    difference = (compiled(*inputs) - block(*inputs)).abs().max()
    firesteel.reset_native_counters()
    compiled(*inputs)
    counts = firesteel.native_counters()
    return (
        f"{counts['native_ops']} operators in {counts['kernels_run']} kernel, {counts['aten_ops']} in ATen; "
        f"largest difference from eager: {difference:.1e}"
    )


@stop("Nobody waits for the compiler")
def tiers():
    """Without wait=True the first calls run in ATen, while another thread compiles; then native code takes over."""
    compiled = firesteel.compile(lambda x: torch.tanh(x * 2 + 1).sigmoid() * x)
    x = torch.randn(1000)
    start, times = time.perf_counter(), []
    while not times or times[-1] < 10_000:
        firesteel.reset_native_counters()
        compiled(x)
        times.append((time.perf_counter() - start) * 1e3)
        if firesteel.native_counters()["kernels_run"]:
            return f"a result after {times[0]:.0f} ms; native code after {times[-1]:.0f} ms, from call {len(times)} on"
    return "ATen ran all calls: this Firesteel was built without LLVM"


@stop("Weights that stay")
def frozen_weights():
    """For inference: options={"freeze": True} prepares weights once, and again after one of them has changed."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.SiLU(), torch.nn.Conv2d(32, 64, 3)
    ).eval()
    compiled = firesteel.compile(model, wait=True, options={"freeze": True})
    picture = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        first = (compiled(picture) - model(picture)).abs().max()
        model[0].weight.mul_(2)
        second = (compiled(picture) - model(picture)).abs().max()
    times = firesteel.native_counters()["weights_prepared"]
    return f"prepared {times} times; largest difference from eager: {max(first, second):.0e}"


def pooled(x):
    half = x.shape[1] // 2
    return x[:, :half].softmax(-1).mean(1) * x.shape[1]


@stop("Sizes that change")
def open_sizes():
    """A size that has changed once is left open: one graph serves batches and sequences of all lengths."""
    show_source(pooled)
    firesteel.reset_counters()
    compiled = firesteel.compile(pooled)
    shapes = [(4, 10, 8), (6, 14, 8), (9, 31, 8), (32, 64, 8), (5, 200, 8)]
    worst = 0.0
    for shape in shapes:
        x = torch.randn(shape)
        worst = max(worst, (compiled(x) - pooled(x)).abs().max().item())
    graphs = firesteel.counters()["captured"]
    return f"{len(shapes)} shapes, {graphs} graphs; largest difference from eager: {worst:.0e}"


def main():
    torch.manual_seed(0)
    console.print(f"Firesteel {firesteel.__version__} over torch {torch.__version__}")
    for number, (title, visit) in enumerate(stops, 1):
        console.print()
        console.print(Rule(f"{number}. {title}", align="left"))
        show(inspect.getdoc(visit))
        console.print()
        if closing := visit():
            console.print(f"[bold]→[/bold] {closing}")
    console.print()
    show("From C++: python -m firesteel --cmake-dir, and see examples/cmake_project. All commands: make help.")


if __name__ == "__main__":
    main()
