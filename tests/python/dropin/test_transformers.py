"""transformers on Firesteel: generate() in its ways of decoding, and Trainer with torch_compile, as in eager code."""

from processes import printed_by

MODEL = """
import copy, tempfile
import torch, transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
import firesteel

transformers.logging.set_verbosity_error()
config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=64, eos_token_id=None, bos_token_id=1,
                     pad_token_id=0)


def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(config)
"""


def test_generate(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        MODEL
        + """
ways = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "top_k": 5},
    "beams": {"do_sample": False, "num_beams": 3},
    "a static cache": {"do_sample": False, "cache_implementation": "static"},
}
prompt = torch.randint(1, 64, (2, 5), generator=torch.Generator().manual_seed(0))


def written(model, way):
    torch.manual_seed(1)
    return model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, **way)


plain = model().eval()
for name, way in ways.items():
    compiled = copy.deepcopy(plain)
    compiled.forward = torch.compile(compiled.forward, backend="aot_eager")
    firesteel.reset_counters()
    assert torch.equal(written(compiled, way), written(plain, way)), name
    counts = firesteel.counters()
    assert counts["captured"] > 0 and counts["hits"] > 4 and not counts["fallbacks"], (name, counts)
"""
    )
    printed_by("-m", "firesteel", script, cwd=tmp_path)


def test_trainer(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        MODEL
        + """
class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        tokens = torch.randint(1, 64, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def losses(compiles):
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=4, max_steps=4, logging_steps=1, save_strategy="no", report_to=[],
            use_cpu=True, torch_compile=compiles, seed=3, learning_rate=1e-2, disable_tqdm=True)
        trainer = Trainer(model(), arguments, train_dataset=Texts())
        trainer.train()
        return torch.tensor([row["loss"] for row in trainer.state.log_history if "loss" in row])


plain = losses(False)
firesteel.reset_counters()
torch.testing.assert_close(losses(True), plain, rtol=1e-4, atol=1e-5)
counts = firesteel.counters()
assert counts["captured"] == 1 and counts["hits"] == 4 and not counts["fallbacks"], counts
"""
    )
    printed_by("-m", "firesteel", script, cwd=tmp_path)
