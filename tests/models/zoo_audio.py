"""Rows of the zoo that read sound, or more than one kind of thing."""

import torch
import transformers
from row import BATCH, VOCAB, Row, images, images_and_text, integers, normal, row, text, together
from zoo_text import BART, BERT, LLAMA
from zoo_vision import DETR, RESNET, VIT

SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": [16, 16],
    "conv_kernel": [8, 4],
    "conv_stride": [4, 4],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "vocab_size": VOCAB,
    "apply_spec_augment": False,
}
WAVE = normal(input_values=(BATCH, 800))
REPLY = integers(decoder_input_ids=(BATCH, 6))
TEXT_PART = {**BERT, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def speech(name, family, inputs=WAVE, sizes=SPEECH, head="Model", **settings):
    return row(name, "audio", family + head, family + "Config", inputs, **{**sizes, **settings})


def multimodal(name, model, config, inputs, **settings):
    return row(name, "multimodal", model, config, inputs, **settings)


def detector(name, family):
    """Over a small ResNet of transformers' own, so that no other model library is needed."""

    def config():
        backbone = transformers.ResNetConfig(**RESNET, out_features=["stage2"])
        return getattr(transformers, family + "Config")(
            backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False, **DETR
        )

    return Row(name, "vision", family + "ForObjectDetection", config, images(64))


def image_and_prompt(generator):
    """Four image places open each prompt, as many as the vision part gives."""
    inputs = together(images(16), text(10))(generator)
    inputs["input_ids"][:, :4] = VOCAB - 1
    inputs["input_ids"][:, 4:] %= VOCAB - 1
    return inputs


AUDIO = [
    speech("wav2vec2", "Wav2Vec2"),
    speech("wav2vec2.layer-norm", "Wav2Vec2", feat_extract_norm="layer", do_stable_layer_norm=True),
    speech("wav2vec2-conformer", "Wav2Vec2Conformer"),
    speech("hubert", "Hubert"),
    speech("wavlm", "WavLM", num_buckets=16, max_bucket_distance=32),
    speech("data2vec-audio", "Data2VecAudio", conv_pos_kernel_size=3, num_conv_pos_embeddings=2),
    speech("unispeech", "UniSpeech"),
    speech("sew", "SEW", squeeze_factor=2),
    speech("sew-d", "SEWD", squeeze_factor=2, position_buckets=16),
    speech("whisper", "Whisper", together(normal(input_features=(BATCH, 8, 32)), REPLY),
           {**BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16,
            "bos_token_id": 1, "eos_token_id": 2}, "ForConditionalGeneration"),
    speech("speech-to-text", "Speech2Text",
           together(normal(input_features=(BATCH, 32, 8)), REPLY),
           {**BART, "input_feat_per_channel": 8, "conv_channels": 16, "num_conv_layers": 2, "max_source_positions": 64,
            "max_target_positions": 64}, "ForConditionalGeneration"),
    speech("ast", "AST", normal(input_values=(BATCH, 32, 16)), {**VIT}, max_length=32, num_mel_bins=16,
           frequency_stride=8, time_stride=8),
    speech("moonshine", "Moonshine", together(normal(input_values=(BATCH, 3200)), REPLY),
           {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2, "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4},
           "ForConditionalGeneration"),
    speech("encodec", "Encodec", normal(input_values=(BATCH, 1, 320)), {}, num_filters=4, hidden_size=16,
           codebook_size=16, upsampling_ratios=[4, 2], num_lstm_layers=1, target_bandwidths=[48.0]),
]  # fmt: skip

DETECTORS = [detector("detr", "Detr"), detector("conditional-detr", "ConditionalDetr")]

MULTIMODAL = [
    multimodal("clip", "CLIPModel", "CLIPConfig", images_and_text(),
               text_config=TEXT_PART, vision_config=VIT, projection_dim=16),
    multimodal("siglip", "SiglipModel", "SiglipConfig", images_and_text(mask=False),
               text_config={**TEXT_PART, "max_position_embeddings": 8, "projection_size": 32}, vision_config=VIT),
    multimodal("blip", "BlipModel", "BlipConfig", images_and_text(),
               text_config={**TEXT_PART, "encoder_hidden_size": 32}, vision_config=VIT, projection_dim=16),
    multimodal("altclip", "AltCLIPModel", "AltCLIPConfig", images_and_text(),
               text_config={**TEXT_PART, "project_dim": 16}, vision_config=VIT, projection_dim=16),
    multimodal("chinese-clip", "ChineseCLIPModel", "ChineseCLIPConfig", images_and_text(),
               text_config=TEXT_PART, vision_config=VIT, projection_dim=16),
    multimodal("clipseg", "CLIPSegModel", "CLIPSegConfig", images_and_text(),
               text_config=TEXT_PART, vision_config=VIT, projection_dim=16),
    multimodal("owlvit", "OwlViTModel", "OwlViTConfig", images_and_text(),
               text_config={**TEXT_PART, "max_position_embeddings": 8}, vision_config=VIT, projection_dim=16),
    multimodal("groupvit", "GroupViTModel", "GroupViTConfig", images_and_text(), text_config=TEXT_PART,
               vision_config={**VIT, "depths": [1, 1], "num_group_tokens": [4, 2], "num_output_groups": [4, 2]},
               projection_dim=16, projection_intermediate_dim=24),
    multimodal("clap", "ClapModel", "ClapConfig",
               together(normal(input_features=(BATCH, 1, 60, 16)), text(mask=True),
                        is_longer=torch.zeros(BATCH, 1, dtype=torch.bool)),
               text_config={**TEXT_PART, "projection_dim": 16},
               audio_config={"spec_size": 32, "num_mel_bins": 16, "patch_size": 4, "patch_stride": [4, 4],
                             "window_size": 4, "hidden_size": 32, "patch_embeds_hidden_size": 16, "depths": [1, 1],
                             "num_attention_heads": [2, 4], "num_hidden_layers": 2, "projection_dim": 16},
               projection_dim=16),
    multimodal("git", "GitForCausalLM", "GitConfig", images_and_text(), **TEXT_PART, vision_config=VIT),
    multimodal("vilt", "ViltModel", "ViltConfig", images_and_text(), **{**VIT, **BERT}),
    multimodal("visual-bert", "VisualBertModel", "VisualBertConfig",
               together(text(mask=True), normal(visual_embeds=(BATCH, 4, 16))), **BERT, visual_embedding_dim=16),
    multimodal("lxmert", "LxmertModel", "LxmertConfig",
               together(text(mask=True), normal(visual_feats=(BATCH, 4, 16), visual_pos=(BATCH, 4, 4))),
               vocab_size=VOCAB, hidden_size=32, num_attention_heads=4, intermediate_size=48, l_layers=1, x_layers=1,
               r_layers=1, visual_feat_dim=16, max_position_embeddings=64),
    multimodal("llava", "LlavaForConditionalGeneration", "LlavaConfig", image_and_prompt,
               text_config={**LLAMA, "model_type": "llama"},
               vision_config={**VIT, "image_size": 16, "model_type": "clip_vision_model", "projection_dim": 16},
               image_token_index=VOCAB - 1, vision_feature_layer=-1),
    multimodal("paligemma", "PaliGemmaForConditionalGeneration", "PaliGemmaConfig", image_and_prompt,
               text_config={**LLAMA, "head_dim": 8, "model_type": "gemma"},
               vision_config={**VIT, "image_size": 16, "model_type": "siglip_vision_model"},
               image_token_id=VOCAB - 1, projection_dim=32, hidden_size=32),
    multimodal("layoutlmv3", "LayoutLMv3Model", "LayoutLMv3Config",
               together(images_and_text(), bbox=torch.zeros(BATCH, 8, 4, dtype=torch.int64)),
               **BERT, input_size=32, patch_size=8, coordinate_size=4, shape_size=8, max_2d_position_embeddings=64,
               rel_pos_bins=8, rel_2d_pos_bins=8),
]  # fmt: skip

OTHER = AUDIO + DETECTORS + MULTIMODAL
