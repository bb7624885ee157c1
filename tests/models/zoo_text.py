"""Rows of the zoo that read text: encoders, decoders, mixtures of experts, state spaces, and encoder-decoders."""

from row import VOCAB, row, text, text_to_text

BERT = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
LLAMA = {**BERT, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GPT = {"vocab_size": VOCAB, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
       "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
EXPERTS = {**LLAMA, "moe_intermediate_size": 24, "num_experts_per_tok": 2}
T5 = {"vocab_size": VOCAB, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}  # fmt: skip
BART = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
}

MASKED = text(mask=True)
LABELLED = text(labels=True)


def encoder(name, family, inputs=MASKED, head="Model", **settings):
    return row(name, "encoder", family + head, family + "Config", inputs, **{**BERT, **settings})


def decoder(name, family, inputs=LABELLED, sizes=LLAMA, **settings):
    return row(name, "decoder", family + "ForCausalLM", family + "Config", inputs, **{**sizes, **settings})


def translator(name, family, inputs=None, sizes=BART, head="ForConditionalGeneration", **settings):
    inputs = inputs or text_to_text(labels=True, mask=True)
    return row(name, "encoder-decoder", family + head, family + "Config", inputs, **{**sizes, **settings})


ENCODERS = [
    encoder("bert", "Bert"),
    encoder("bert.masked-lm", "Bert", text(mask=True, labels=True), "ForMaskedLM"),
    encoder("bert.plain", "Bert", text()),
    encoder("roberta", "Roberta"),
    encoder("xlm-roberta", "XLMRoberta"),
    encoder("camembert", "Camembert"),
    encoder("albert", "Albert", embedding_size=16),
    row("distilbert", "encoder", "DistilBertModel", "DistilBertConfig", MASKED,
        vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64),
    encoder("electra", "Electra", embedding_size=16),
    encoder("deberta", "Deberta", relative_attention=True, pos_att_type=["p2c", "c2p"], max_relative_positions=16),
    encoder("deberta-v2", "DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16,
            norm_rel_ebd="layer_norm", share_att_key=True),
    encoder("mpnet", "MPNet"),
    row("xlnet", "encoder", "XLNetModel", "XLNetConfig", MASKED,
        vocab_size=VOCAB, d_model=32, n_layer=2, n_head=4, d_inner=48),
    row("longformer", "encoder", "LongformerModel", "LongformerConfig", text(16, mask=True), **BERT,
        attention_window=[4, 4]),
    encoder("big-bird", "BigBird", attention_type="original_full"),
    row("funnel", "encoder", "FunnelModel", "FunnelConfig", MASKED, vocab_size=VOCAB, block_sizes=[1, 1],
        num_decoder_layers=1, d_model=32, n_head=4, d_head=8, d_inner=48),
    encoder("fnet", "FNet", text(token_type_ids=None)),
    encoder("squeezebert", "SqueezeBert", embedding_size=32),
    encoder("mobilebert", "MobileBert", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    encoder("convbert", "ConvBert", embedding_size=16, conv_kernel_size=3),
    encoder("layoutlm", "LayoutLM"),
    encoder("roformer", "RoFormer", embedding_size=16),
    encoder("ernie", "Ernie"),
    encoder("nystromformer", "Nystromformer", text(), num_landmarks=8, segment_means_seq_len=8),
    encoder("modernbert", "ModernBert", pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
            sep_token_id=2),
    encoder("esm", "Esm", pad_token_id=1, mask_token_id=2, position_embedding_type="rotary"),
    encoder("canine", "Canine", text(16, mask=True), num_hash_buckets=16, num_hash_functions=2,
            local_transformer_stride=4, downsampling_rate=2),
]  # fmt: skip

DECODERS = [
    row("gpt2", "decoder", "GPT2LMHeadModel", "GPT2Config", LABELLED, **GPT),
    row("gpt2.plain", "decoder", "GPT2LMHeadModel", "GPT2Config", text(), **GPT, use_cache=False),
    row("gpt2.no-cache", "decoder", "GPT2LMHeadModel", "GPT2Config", LABELLED, **GPT, use_cache=False),
    row("gpt-neo", "decoder", "GPTNeoForCausalLM", "GPTNeoConfig", LABELLED, vocab_size=VOCAB, hidden_size=32,
        num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4, intermediate_size=48,
        max_position_embeddings=64, bos_token_id=1, eos_token_id=2),
    decoder("gpt-neox", "GPTNeoX", sizes=BERT),
    row("gptj", "decoder", "GPTJForCausalLM", "GPTJConfig", LABELLED, **GPT, rotary_dim=4),
    row("gpt-bigcode", "decoder", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", LABELLED, **GPT),
    row("codegen", "decoder", "CodeGenForCausalLM", "CodeGenConfig", LABELLED, **GPT, rotary_dim=4, n_ctx=64),
    decoder("opt", "OPT", sizes={**BERT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    row("bloom", "decoder", "BloomForCausalLM", "BloomConfig", LABELLED, vocab_size=VOCAB, hidden_size=32, n_layer=2,
        n_head=4),
    decoder("llama", "Llama"),
    decoder("llama.no-cache", "Llama", use_cache=False),
    decoder("llama.plain", "Llama", text(), use_cache=False),
    decoder("llama.masked", "Llama", text(mask=True, labels=True)),
    decoder("llama.eager-attention", "Llama", attn_implementation="eager"),
    decoder("mistral", "Mistral", sliding_window=4),
    decoder("qwen2", "Qwen2"),
    decoder("qwen3", "Qwen3", head_dim=8),
    decoder("gemma", "Gemma", head_dim=8),
    decoder("gemma2", "Gemma2", head_dim=8, sliding_window=4),
    row("gemma3", "decoder", "Gemma3ForCausalLM", "Gemma3TextConfig", LABELLED, **LLAMA, head_dim=8, sliding_window=4,
        layer_types=["sliding_attention", "full_attention"]),
    decoder("phi", "Phi"),
    decoder("phi3", "Phi3"),
    decoder("falcon", "Falcon", sizes=BERT, bos_token_id=1, eos_token_id=2),
    row("mpt", "decoder", "MptForCausalLM", "MptConfig", LABELLED, vocab_size=VOCAB, d_model=32, n_heads=4, n_layers=2,
        max_seq_len=64, expansion_ratio=2),
    decoder("stablelm", "StableLm"),
    decoder("starcoder2", "Starcoder2"),
    decoder("olmo", "Olmo"),
    decoder("olmo2", "Olmo2"),
    decoder("cohere", "Cohere"),
    decoder("granite", "Granite"),
    decoder("glm", "Glm", head_dim=8),
    decoder("persimmon", "Persimmon", sizes=BERT),
    decoder("biogpt", "BioGpt", sizes=BERT),
    decoder("smollm3", "SmolLM3"),
    decoder("nemotron", "Nemotron"),
    decoder("mixtral", "Mixtral", num_local_experts=4, num_experts_per_tok=2),
    # Its other way with experts; the first one's backward reads data in eager code itself.
    decoder("mixtral.batched", "Mixtral", num_local_experts=4, num_experts_per_tok=2,
            experts_implementation="batched_mm"),
    decoder("qwen2-moe", "Qwen2Moe", sizes=EXPERTS, num_experts=4, shared_expert_intermediate_size=24),
    decoder("qwen3-moe", "Qwen3Moe", sizes=EXPERTS, num_experts=4, head_dim=8),
    decoder("olmoe", "Olmoe", num_experts=4, num_experts_per_tok=2),
    decoder("deepseek-v3", "DeepseekV3", sizes=EXPERTS, n_routed_experts=4, n_group=2, topk_group=1,
            first_k_dense_replace=1, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
            v_head_dim=8, num_key_value_heads=4),
    row("mamba", "decoder", "MambaForCausalLM", "MambaConfig", LABELLED, vocab_size=VOCAB, hidden_size=32,
        num_hidden_layers=2, state_size=4),
    row("mamba2", "decoder", "Mamba2ForCausalLM", "Mamba2Config", LABELLED, vocab_size=VOCAB, hidden_size=32,
        num_hidden_layers=2, state_size=4, num_heads=8, head_dim=8, n_groups=1, chunk_size=4),
    row("rwkv", "decoder", "RwkvForCausalLM", "RwkvConfig", LABELLED, vocab_size=VOCAB, hidden_size=32,
        num_hidden_layers=2, context_length=64, attention_hidden_size=32, intermediate_size=48, use_cache=False),
]  # fmt: skip

ENCODER_DECODERS = [
    translator("t5", "T5", sizes=T5),
    translator("t5.no-cache", "T5", sizes=T5, use_cache=False),
    translator("mt5", "MT5", sizes=T5),
    translator("umt5", "UMT5", sizes=T5),
    translator("longt5", "LongT5", sizes=T5, local_radius=3),
    translator("switch-transformers", "SwitchTransformers", sizes=T5, num_experts=4, num_sparse_encoder_layers=1,
               num_sparse_decoder_layers=1, expert_capacity=8),
    translator("bart", "Bart"),
    translator("mbart", "MBart"),
    translator("blenderbot", "Blenderbot"),
    translator("pegasus", "Pegasus"),
    translator("marian", "Marian", text_to_text(mask=True), head="MTModel"),
    translator("m2m100", "M2M100"),
    translator("led", "LED", text_to_text(8, mask=True), attention_window=4, max_encoder_position_embeddings=64,
               max_decoder_position_embeddings=64),
    translator("bigbird-pegasus", "BigBirdPegasus", attention_type="original_full"),
    translator("plbart", "PLBart"),
    translator("prophetnet", "ProphetNet", sizes={
        "vocab_size": VOCAB, "hidden_size": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_encoder_layers": 2,
        "num_decoder_layers": 2, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4,
        "max_position_embeddings": 64, "ngram": 2, "num_buckets": 8, "relative_max_distance": 16}),
]  # fmt: skip

TEXT = ENCODERS + DECODERS + ENCODER_DECODERS
