"""Time per call of what models are made of: Firesteel's native kernels, eager, and torch.compile (Inductor), by turns.

Cases and shapes stand in the table below; of each case one shape or more fills no vector. All sides get the same
inputs. Results are compared first; then the three alternate and the minimum of each counts. `train` cases are a forward
and a backward call. The last columns say how many operators ran in native kernels and how many in ATen.
"""

import torch
from sides import Ratios, best, options_of
from torch.nn import functional as F

import firesteel


def gelu_bias(x, bias):
    return F.gelu(x + bias)


def layer_norm_residual(x, y, weight, bias):
    h = x + y
    return F.layer_norm(h, h.shape[-1:], weight, bias), h


def softmax_mask(scores, mask):
    return (scores * 0.125).masked_fill(mask, float("-inf")).softmax(-1)


def row_sum(x):
    return x.sum(-1)


def column_sum(x):
    return x.sum(0)


def whole_sum(x):
    return x.sum()


def largest(x):
    return x.amax(-1)


def running_sum(x):
    return x.cumsum(-1)


def running_sum_down(x):
    return x.cumsum(0)


def weights_so_far(x):
    return (x.sigmoid() * 2).cumsum(-1).clamp(max=1000.0)


def variance(x):
    return x.var(-1)


def mean_square(x, y):
    return ((x - y) ** 2).mean()


def adamw(p, g, m, v):
    p = p * (1 - 1e-3 * 0.01)
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return p - 1e-3 * (m / 0.19) / ((v / 0.002).sqrt() + 1e-8), m, v


@torch.no_grad()
def adamw_in_place(p, g, m, v):
    p.mul_(1 - 1e-3 * 0.01)
    m.lerp_(g, 0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.addcdiv_(m, (v.sqrt() / 0.04).add_(1e-8), value=-1e-3)


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


def rope(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def swiglu(x, y):
    return F.silu(x) * y


def pointwise(x, y):
    return (x.sin() + y.cos()) * x


MASK, TARGET = "mask", "target"  # how an input is made, where it is not of random numbers
CASES = [
    (pointwise, [[(2048, 3072)] * 2, [(2047, 1021)] * 2, [(1003,)] * 2]),
    (gelu_bias, [[(2048, 3072), (3072,)], [(511, 1021), (1021,)]]),
    (layer_norm_residual, [[(2048, 768), (2048, 768), (768,), (768,)], [(511, 1021), (511, 1021), (1021,), (1021,)]]),
    (softmax_mask, [[(4, 12, 256, 256), (MASK, 256, 256)], [(2, 5, 197, 197), (MASK, 197, 197)]]),
    (row_sum, [[(2048, 3072)], [(2047, 1021)]]),
    (column_sum, [[(2048, 3072)], [(2047, 1021)], [(50000, 61)]]),
    (whole_sum, [[(2048, 3072)], [(2047, 1021)]]),
    (largest, [[(2048, 3072)], [(2047, 1021)]]),
    (running_sum, [[(2048, 3072)], [(2047, 1021)], [(1000003,)]]),
    (running_sum_down, [[(2048, 3072)], [(2047, 1021)]]),
    (weights_so_far, [[(2048, 3072)], [(2047, 1021)]]),
    (variance, [[(2048, 3072)], [(2047, 1021)]]),
    (mean_square, [[(2048, 3072)] * 2, [(2047, 1021)] * 2]),
    (adamw, [[(1024, 1024)] * 4, [(1000003,)] * 4]),
    (adamw_in_place, [[(1024, 1024)] * 4, [(1000003,)] * 4]),
    (cross_entropy, [[(1024, 8192), (TARGET, 1024, 8192)], [(511, 5003), (TARGET, 511, 5003)]]),
    (rope, [[(4, 12, 256, 64), (256, 64), (256, 64)], [(3, 7, 101, 34), (101, 34), (101, 34)]]),
    (rms_norm, [[(2048, 1024), (1024,)], [(511, 1021), (1021,)]]),
    (swiglu, [[(2048, 2816)] * 2, [(511, 2731)] * 2]),
]
TRAINED = [layer_norm_residual, softmax_mask, cross_entropy, rms_norm, gelu_bias, swiglu, weights_so_far]


def inputs(shapes, train):
    torch.manual_seed(0)
    made = []
    for shape in shapes:
        if shape[0] == MASK:
            made.append(torch.ones(shape[1:], dtype=torch.bool).triu(1))
        elif shape[0] == TARGET:
            made.append(torch.randint(0, shape[2], (shape[1],)))
        else:
            made.append(torch.rand(shape) if len(shapes) == 4 and shapes[0] == shapes[3] else torch.randn(shape))
            made[-1].requires_grad_(train)
    return made


def step(function, args):
    """A forward and a backward call; the gradients are dropped."""
    result = function(*args)
    loss = result[0] if isinstance(result, tuple) else result
    return torch.autograd.grad(loss, [arg for arg in args if arg.requires_grad], GRADIENTS.get(loss.shape))


GRADIENTS = {torch.Size([]): torch.tensor(1.0)}


def same(got, wanted):
    parts = zip(got, wanted, strict=True) if isinstance(wanted, (tuple, list)) else [(got, wanted)]
    for ours, theirs in parts:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def measure(function, shapes, train, options):
    args = inputs(shapes, train)
    if train:
        wanted = function(*args)
        first = wanted[0] if isinstance(wanted, tuple) else wanted
        GRADIENTS.setdefault(first.shape, torch.randn(first.shape))
    sides = [firesteel.trace(function, *args, grad=train, native=True), function]
    if not options.no_inductor:
        torch._dynamo.reset()
        sides.append(torch.compile(function, dynamic=False))
    if train:
        calls = [lambda side=side: step(side, args) for side in sides]
    else:
        calls = [lambda side=side: side(*args) for side in sides]
    if function is adamw_in_place:
        sets = [[arg.clone() for arg in args] for _ in sides]
        for side, own in zip(sides, sets, strict=True):
            side(*own)
            same(own, sets[0])
    else:
        wanted = calls[1]()
        for call in calls[:1] + calls[2:]:
            same(call(), wanted)
    firesteel.reset_native_counters()
    calls[0]()
    counts = firesteel.native_counters()
    return best(calls, options.seconds), counts


def main():
    options = options_of(__doc__, seconds=1.0)
    print(f"{'case':26} {'first shape':18} {'native µs':>10} {'eager':>8} {'inductor':>9} | native/ATen ops, kernels")
    ratios = Ratios()
    cases = [(function, shapes, False) for function, all_shapes in CASES for shapes in all_shapes]
    cases += [
        (function, shapes, True) for function, all_shapes in CASES if function in TRAINED for shapes in all_shapes
    ]
    for function, shapes, train in cases:
        name = function.__name__ + (" train" if train else "")
        if options.only not in name:
            continue
        with torch.set_grad_enabled(train):
            times, counts = measure(function, shapes, train, options)
        print(f"{name:26} {'x'.join(map(str, shapes[0])):18} {ratios.add(times)} | "
              f"{counts['native_ops']}/{counts['aten_ops']}, {counts['kernels_run']}", flush=True)  # fmt: skip
    ratios.print_means()


if __name__ == "__main__":
    main()
