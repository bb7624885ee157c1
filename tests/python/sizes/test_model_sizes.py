"""Models of transformers over many sizes: two captures, eager's results and gradients, no fallback."""

import copy

import pytest
import torch
from over_sizes import gradients

import firesteel

transformers = pytest.importorskip("transformers")

SIZES = [(3, 7), (5, 9), (2, 30), (9, 2), (4, 17), (7, 64), (16, 3)]
SMALL = {"vocab_size": 100, "use_cache": False}


def tokens(n, length):
    return torch.randint(0, 100, (n, length))


def bert():
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100
    )
    return transformers.BertModel(config), lambda n, length: {
        "input_ids": tokens(n, length),
        "attention_mask": torch.ones(n, length, dtype=torch.long),
    }


def gpt2():
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=128, **SMALL)
    return transformers.GPT2LMHeadModel(config), lambda n, length: {"input_ids": tokens(n, length)}


def llama():
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, **SMALL
    )
    return transformers.LlamaForCausalLM(config), lambda n, length: {"input_ids": tokens(n, length)}


def t5():
    config = transformers.T5Config(d_model=32, d_kv=8, num_layers=2, num_heads=4, d_ff=64, **SMALL)
    return transformers.T5ForConditionalGeneration(config), lambda n, length: {
        "input_ids": tokens(n, length),
        "decoder_input_ids": tokens(n, length + 3),
    }


def vit():
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
    )
    return transformers.ViTModel(config), lambda n, length: {"pixel_values": torch.randn(n, 3, 32, 32)}


def as_good_as_eager(ours, theirs, model, given):
    """Near eager's; where much cancels out, as near what doubles give as eager is, three times over."""
    exact = None
    for place, (own, eager) in enumerate(zip(ours, theirs, strict=True)):
        assert (own is None) == (eager is None)
        if own is None or torch.allclose(own, eager, rtol=1e-4, atol=1e-4):
            continue
        if exact is None:
            wide = copy.deepcopy(model).double()
            inputs = {name: value.double() if value.is_floating_point() else value for name, value in given.items()}
            exact = gradients(wide(**inputs)[0], list(wide.parameters()))
        apart, allowed = ((tensor - exact[place]).abs().max().item() for tensor in (own, eager))
        assert apart <= 3 * allowed, (place, apart, allowed)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("backend", ["aot_eager", "firesteel"])
@pytest.mark.parametrize("build", [bert, gpt2, llama, t5, vit])
def test_two_captures(build, backend, train, monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CHECK_SHAPES", "1")
    monkeypatch.setenv("FIRESTEEL_WAIT", "0")  # sizes get native code of their own when they come again
    torch.manual_seed(0)
    model, inputs = build()
    model.eval()
    compiled = firesteel.compile(model, backend=backend, fullgraph=True)
    parameters = list(model.parameters())
    firesteel.reset_counters()
    for size in SIZES:
        given = inputs(*size)
        with torch.set_grad_enabled(train):
            expected, found = model(**given)[0], compiled(**given)[0]
        torch.testing.assert_close(found, expected)
        if not train:
            continue
        as_good_as_eager(gradients(found, parameters), gradients(expected, parameters), model, given)
    counted = firesteel.counters()
    assert counted["captured"] == 2, counted
    assert counted["hits"] == len(SIZES), counted
    assert counted["fallbacks"] == {}, counted


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("build", [bert, gpt2, llama, t5])
def test_one_code_for_all_sizes(build, train):
    """What the second graph compiles serves every size."""
    firesteel.reset_native_counters()
    firesteel.trace(lambda x: (x + 1) * 2, torch.ones(2), native=True)(torch.ones(2))
    if firesteel.native_counters()["native_ops"] == 0:
        pytest.skip("built without LLVM")
    torch.manual_seed(0)
    model, inputs = build()
    model.eval()
    compiled = firesteel.compile(model, backend="firesteel", fullgraph=True)
    parameters = list(model.parameters())
    for place, size in enumerate(SIZES):
        firesteel.reset_native_counters()
        given = inputs(*size)
        with torch.set_grad_enabled(train):
            expected, found = model(**given)[0], compiled(**given)[0]
        torch.testing.assert_close(found, expected)
        if train:
            as_good_as_eager(gradients(found, parameters), gradients(expected, parameters), model, given)
        counts = firesteel.native_counters()
        assert place < 1 or counts["open_kernels"] > 5, counts
        assert place < 2 or counts["kernels_compiled"] + counts["kernels_loaded"] == 0, counts


def test_decoding_with_a_growing_cache_comes_to_an_end():
    """Prompts of other lengths, the cache one longer at each step: after two prompts nothing is captured again."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        vocab_size=100,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    compiled = firesteel.compile(model, backend="aot_eager", recompile_limit=16)

    def decode(called, prompt, steps):
        logits, cache, now = [], None, prompt
        with torch.no_grad():
            for _ in range(steps):
                result = called(input_ids=now, past_key_values=cache, use_cache=True)
                cache, now = result.past_key_values, result.logits[:, -1:].argmax(-1)
                logits.append(result.logits[:, -1])
        return torch.stack(logits)

    firesteel.reset_counters()
    for n, length, steps in ((2, 7, 12), (3, 9, 12)):
        prompt = tokens(n, length)
        torch.testing.assert_close(decode(compiled, prompt, steps), decode(model, prompt, steps))
    before = firesteel.counters()["captured"]
    for n, length, steps in ((4, 20, 12), (5, 33, 30)):
        prompt = tokens(n, length)
        torch.testing.assert_close(decode(compiled, prompt, steps), decode(model, prompt, steps))
    assert firesteel.counters()["captured"] == before
    assert firesteel.counters()["fallbacks"] == {}
