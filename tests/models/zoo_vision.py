"""Rows of the zoo that read images: transformers over patches, convolutions, and dense prediction."""

from row import images, normal, row

VIT = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}
CONVNEXT = {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [1, 1]}
RESNET = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}
STAGES = {
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "sr_ratios": [2, 1],
    "hidden_sizes": [16, 32],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "num_attention_heads": [2, 4],
    "mlp_ratios": [2, 2],
}
DETR = {
    "num_queries": 5,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
CLASSES = {"id2label": {0: "cat", 1: "dog", 2: "bird"}, "label2id": {"cat": 0, "dog": 1, "bird": 2}}


def vision(name, family, inputs=None, head="Model", sizes=VIT, **settings):
    return row(name, "vision", family + head, family + "Config", inputs or images(), **{**sizes, **settings})


VISION = [
    vision("vit", "ViT"),
    vision("vit.classifier", "ViT", images(classes=3), "ForImageClassification", **CLASSES),
    vision("deit", "DeiT"),
    vision("beit", "Beit", use_relative_position_bias=True),
    vision("data2vec-vision", "Data2VecVision", use_relative_position_bias=True),
    vision("dinov2", "Dinov2"),
    vision("dinov3", "DINOv3ViT", num_register_tokens=2),
    vision("ijepa", "IJepa"),
    vision("yolos", "Yolos", image_size=[32, 32], num_detection_tokens=5),
    vision("swin", "Swin", sizes=SWIN),
    vision("swinv2", "Swinv2", sizes=SWIN),
    vision("hiera", "Hiera", sizes={}, image_size=[32, 32], patch_size=[3, 3], patch_stride=[4, 4],
           patch_padding=[1, 1], embed_dim=16, depths=[1, 1], num_heads=[1, 2], query_stride=[2, 2],
           masked_unit_size=[4, 4], num_query_pool=1),
    vision("focalnet", "FocalNet", sizes={}, image_size=32, patch_size=2, embed_dim=16, hidden_sizes=[16, 32],
           depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3]),
    vision("convnext", "ConvNext", sizes=CONVNEXT),
    vision("convnextv2", "ConvNextV2", sizes=CONVNEXT),
    vision("resnet", "ResNet", sizes=RESNET),
    vision("resnet.classifier", "ResNet", images(classes=3), "ForImageClassification", sizes=RESNET, **CLASSES),
    vision("regnet", "RegNet", sizes=RESNET, groups_width=8),
    vision("bit", "Bit", sizes=RESNET, num_groups=4),
    vision("mobilenet-v1", "MobileNetV1", sizes={}, depth_multiplier=0.25, image_size=32),
    vision("mobilenet-v2", "MobileNetV2", sizes={}, depth_multiplier=0.25, image_size=32),
    vision("mobilevit", "MobileViT", images(64), sizes={}, image_size=64, hidden_sizes=[16, 20, 24],
           neck_hidden_sizes=[8, 8, 12, 12, 16, 20, 24], num_attention_heads=4),
    vision("mobilevitv2", "MobileViTV2", images(64), sizes={}, image_size=64, width_multiplier=0.25,
           n_attn_blocks=[1, 1, 1]),
    vision("efficientnet", "EfficientNet", sizes={}, image_size=32, hidden_dim=320, width_coefficient=0.25,
           depth_coefficient=0.25, in_channels=[32, 16], out_channels=[16, 24], kernel_sizes=[3, 5], strides=[1, 2],
           num_block_repeats=[1, 1], expand_ratios=[1, 4], depthwise_padding=[]),
    vision("segformer", "Segformer", sizes=STAGES),
    vision("segformer.segmentation", "Segformer", head="ForSemanticSegmentation", sizes=STAGES, decoder_hidden_size=16,
           **CLASSES),
    vision("poolformer", "PoolFormer", sizes={}, depths=[1, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3],
           strides=[4, 2], padding=[2, 1], num_encoder_blocks=2),
    vision("pvt", "Pvt", sizes={}, image_size=32, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32],
           sequence_reduction_ratios=[4, 2, 1, 1], num_attention_heads=[1, 2, 2, 4], patch_sizes=[4, 2, 2, 2],
           strides=[4, 2, 2, 2], mlp_ratios=[2, 2, 2, 2]),
    vision("pvt-v2", "PvtV2", sizes={}, image_size=32, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32],
           sr_ratios=[4, 2, 1, 1], num_attention_heads=[1, 2, 2, 4], mlp_ratios=[2, 2, 2, 2]),
    vision("cvt", "Cvt", sizes={}, embed_dim=[16, 32], num_heads=[1, 2], depth=[1, 2], patch_sizes=[7, 3],
           patch_stride=[4, 2], patch_padding=[2, 1], mlp_ratio=[2.0, 2.0], attention_drop_rate=[0.0, 0.0],
           drop_rate=[0.0, 0.0], drop_path_rate=[0.0, 0.0], qkv_bias=[True, True], cls_token=[False, True],
           qkv_projection_method=["dw_bn", "dw_bn"], kernel_qkv=[3, 3], padding_kv=[1, 1], stride_kv=[2, 2],
           padding_q=[1, 1], stride_q=[1, 1]),
    vision("levit", "Levit", images(64), sizes={}, image_size=64, hidden_sizes=[16, 24, 32],
           num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8], mlp_ratio=[2, 2, 2],
           attention_ratio=[2, 2, 2]),
    vision("dpt", "DPT", head="ForDepthEstimation", num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3],
           neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, readout_type="project"),
    vision("glpn", "GLPN", head="ForDepthEstimation", sizes=STAGES, decoder_hidden_size=16),
    vision("vit-mae", "ViTMAE", head="ForPreTraining", decoder_hidden_size=16, decoder_num_hidden_layers=1,
           decoder_num_attention_heads=4, decoder_intermediate_size=24),
    vision("vit-msn", "ViTMSN"),
    vision("videomae", "VideoMAE", normal(pixel_values=(2, 4, 3, 32, 32)), num_frames=4, tubelet_size=2),
    vision("timesformer", "Timesformer", normal(pixel_values=(2, 2, 3, 32, 32)), num_frames=2),
    vision("vivit", "Vivit", normal(pixel_values=(2, 4, 3, 32, 32)), num_frames=4, tubelet_size=[2, 8, 8]),
    vision("swin2sr", "Swin2SR", head="ForImageSuperResolution", sizes={**SWIN, "patch_size": 1, "embed_dim": 8},
           inputs=images(16), image_size=16),
]  # fmt: skip
