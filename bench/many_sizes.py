"""How many compilations models take over 20 batch sizes and 50 lengths, here and with torch.compile, in one run.

The sizes: batches 2, 4 … 40 with lengths 2, 4 … 100, all 1,000 pairs in an order drawn once (`--pairs` takes the first
so many), and images in batches of 2 to 201. The models: two layers of width 32, random weights. Decoding: Llama on 50
of the pairs as prompts, twelve tokens each with a growing cache. Each call is compared with eager, gradients
included; a call that ran in eager counts. torch.compile gets a backend that runs its graph as it is: its captures alone
are counted and timed, by the first `--torch-pairs` of the same pairs.
"""

import argparse
import copy
import random
import time

import torch
import transformers

import firesteel

SMALL = {"vocab_size": 100}
NARROW = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def tokens(n, length):
    return torch.randint(0, 100, (n, length))


def ids(n, length):
    return {"input_ids": tokens(n, length)}


def llama(**settings):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **NARROW, **SMALL, **settings))


def models():
    """Name: the model, and what it takes at a batch size and a length."""
    gpt2 = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=128, use_cache=False, **SMALL)
    # With gelu, as from version 1.1 on: of the many millions of values that 1,000 sizes put through a relu some lie
    # nearer to 0 than rounding reaches, and another order of adding decides about their gradients.
    t5 = transformers.T5Config(
        d_model=32, d_kv=8, num_layers=2, num_heads=4, d_ff=64, feed_forward_proj="gated-gelu", use_cache=False, **SMALL
    )
    vit = transformers.ViTConfig(image_size=32, patch_size=8, **NARROW)
    return {
        "BERT": (transformers.BertModel(transformers.BertConfig(**NARROW, **SMALL)), ids),
        "GPT-2": (transformers.GPT2LMHeadModel(gpt2), ids),
        "Llama": (llama(use_cache=False), ids),
        "T5": (
            transformers.T5ForConditionalGeneration(t5),
            lambda n, length: ids(n, length) | {"decoder_input_ids": tokens(n, length + 3)},
        ),
        "ViT": (transformers.ViTModel(vit), lambda n, length: {"pixel_values": torch.randn(n, 3, 32, 32)}),
    }


def pairs(count, *, images):
    made = [(n, 32) for n in range(2, 202)] if images else [(n, m) for n in range(2, 41, 2) for m in range(2, 101, 2)]
    random.Random(0).shuffle(made)
    return made[:count]


def step(model, given, train):
    """Outputs, and gradients of all parameters."""
    with torch.set_grad_enabled(train):
        out = model(**given)[0]
    if not train:
        return [out]
    model.zero_grad()
    (out * torch.arange(out.numel()).sin().view(out.shape)).sum().backward()
    return [out, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def compare(found, expected, exact):
    """Close, or as near the truth as eager is, eight times over: products of matrices add in other orders."""
    truth = None
    for place, (ours, eager) in enumerate(zip(found, expected, strict=True)):
        if torch.allclose(ours, eager, rtol=1e-4, atol=1e-4):
            continue
        truth = truth or exact()
        apart, allowed = ((tensor - truth[place]).abs().max().item() for tensor in (ours, eager))
        assert apart <= 8 * allowed, (place, apart, allowed)


def wide_step(model, given, train):
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in given.items()}
    return step(copy.deepcopy(model).double(), inputs, train)


class Counting:
    """A backend of torch.compile that runs what it gets."""

    def __init__(self):
        self.made = 0

    def __call__(self, graph, inputs):
        self.made += 1
        return graph.forward


def by_torch(model, inputs, train):
    torch._dynamo.reset()
    counting = Counting()
    compiled = torch.compile(model, backend=counting, fullgraph=True)
    begin = time.perf_counter()
    for given in inputs:
        step(compiled, given, train)
    return counting.made, time.perf_counter() - begin


def over_pairs(name, model, make, train, options):
    model.train(False)  # no dropout: results are compared
    sizes = pairs(options.pairs, images=name == "ViT")
    torch.manual_seed(0)
    compiled = firesteel.compile(model, backend=options.backend, fullgraph=True)
    firesteel.reset_counters()
    firesteel.reset_native_counters()
    ours = 0.0
    for n, length in sizes:
        given = make(n, length)
        expected = step(model, given, train)
        begin = time.perf_counter()
        found = step(compiled, given, train)
        ours += time.perf_counter() - begin
        compare(found, expected, lambda given=given: wide_step(model, given, train))
    counted, native = firesteel.counters(), firesteel.native_counters()
    eager_calls = len(sizes) - counted["hits"]
    theirs = [make(n, length) for n, length in sizes[: options.torch_pairs]]
    made, spent = by_torch(model, theirs, train)
    kernels = f"{native['open_kernels']:,} of {native['kernels_run']:,} kernels for all sizes"
    print(
        f"{name:6} {'training' if train else 'inference':9} {len(sizes):5} sizes: {counted['captured']} compilations,"
        f" {eager_calls} calls in eager, {sum(counted['fallbacks'].values())} fallbacks, {ours:.1f} s ({kernels});"
        f" torch.compile {made} over {len(theirs)}, {spent:.1f} s",
        flush=True,
    )


def generate(model, prompt, count):
    """Greedy, one token at a time, the cache growing."""
    out = model(input_ids=prompt, use_cache=True)
    logits = [out.logits]
    for _ in range(count):
        token = out.logits[:, -1:].argmax(-1)
        out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
        logits.append(out.logits)
    return logits


@torch.no_grad()
def decoding(options):
    sizes = pairs(min(options.pairs, 50), images=False)
    model = llama().eval()
    compiled = firesteel.compile(model, backend=options.backend, fullgraph=True)
    firesteel.reset_counters()
    for n, length in sizes:
        prompt = tokens(n, length)
        torch.testing.assert_close(generate(compiled, prompt, 12), generate(model, prompt, 12), rtol=1e-4, atol=1e-4)
    counted = firesteel.counters()
    torch._dynamo.reset()
    counting = Counting()
    theirs = torch.compile(model, backend=counting, fullgraph=True)
    for n, length in sizes[: options.torch_pairs]:
        generate(theirs, tokens(n, length), 12)
    print(
        f"Llama  decoding  {len(sizes):5} prompts: {counted['captured']} compilations (prompts and steps),"
        f" {sum(counted['fallbacks'].values())} fallbacks; torch.compile {counting.made} over"
        f" {min(len(sizes), options.torch_pairs)}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000, help="how many of the 1,000 sizes")
    parser.add_argument("--torch-pairs", type=int, default=50, help="how many of them torch.compile gets")
    parser.add_argument("--backend", default="firesteel", choices=("firesteel", "aot_eager", "eager"))
    parser.add_argument("--only", default="", help="a model's name, or `decoding`")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    for model_name, (net, maker) in models().items():
        for training in (False, True):
            if parsed.only in ("", model_name):
                over_pairs(model_name, net, maker, training, parsed)
    if parsed.only in ("", "decoding"):
        decoding(parsed)
