"""Write a folder with Inkling's shape of each layer, cut to 12 layers and 8 experts, for random
weights (`load_format=dummy`). Usage: python tests/gpu/make_inkling.py FOLDER

Of the published config.json only the counts of layers and experts are changed. The tokenizer knows
the words w0 to w199999 and the marks that vLLM's renderer of Inkling asks for.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

words: Any = importlib.import_module("word_tokenizer")  # beside this script

LAYERS: Final = 12
EXPERTS: Final = 8
END: Final = 200_010
MARKS: Final = {
    "<|message_user|>": 200_001, "<|message_model|>": 200_002, "<|message_system|>": 200_003,
    "<|message_tool|>": 200_004, "<|content_image|>": 200_005, "<|content_text|>": 200_006,
    "<|content_model_end_sampling|>": 200_008, "<|content_thinking|>": 200_009,
    "<|endoftext|>": END, "<|content_tool_error|>": 200_012,
    "<|content_invoke_tool_json|>": 200_014, "<|content_invoke_tool_text|>": 200_015,
    "<|end_message|>": 200_016, "<|audio_end|>": 200_017, "<|content_audio_input|>": 200_020,
    "<|unused_200024|>": 200_024, "<|unused_200053|>": 200_053, "<|unused_200054|>": 200_054,
}  # fmt: skip


def text_config() -> dict[str, Any]:
    """One full-attention layer in six, as in the published model."""
    return {
        "model_type": "inkling_model", "vocab_size": 201024, "unpadded_vocab_size": 200058,
        "hidden_size": 6144, "intermediate_size": 3072, "dense_intermediate_size": 24576,
        "num_hidden_layers": LAYERS, "num_attention_heads": 64, "num_key_value_heads": 8,
        "head_dim": 128, "v_head_dim": 128, "swa_num_attention_heads": 64,
        "swa_num_key_value_heads": 16, "swa_head_dim": 128, "swa_v_head_dim": 128, "d_rel": 16,
        "rel_extent": 1024, "local_layer_ids": [n for n in range(LAYERS) if (n + 1) % 6],
        "sliding_window_size": 512, "rms_norm_eps": 1e-6, "use_embed_norm": True,
        "use_sconv": True, "sconv_kernel_size": 4, "dense_mlp_idx": 2,
        "n_routed_experts": EXPERTS, "n_shared_experts": 2, "num_experts_per_tok": 6,
        "route_scale": 8.0, "use_gate_bias": True, "use_global_scale": True,
        "norm_after_topk": True, "gate_activation": "sigmoid", "shared_expert_sink": True,
        "inference_moe_w13_interleaved": True, "log_scaling_n_floor": 131072,
        "log_scaling_alpha": 0.1, "logits_mup_width_multiplier": 24.0,
        "model_max_length": 1048576, "tie_word_embeddings": False,
    }  # fmt: skip


def model_config() -> dict[str, Any]:
    """Without towers, with all eight prediction layers."""
    return {
        "architectures": ["InklingForConditionalGeneration"],
        "model_type": "inkling_mm_model",
        "text_config": text_config(),
        "audio_config": {},
        "vision_config": {},
        "mtp_config": {
            "num_nextn_predict_layers": 8,
            "chain_hidden_post_norm": False,
            "local_layer_ids": [],
        },
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "eos_token_id": END,
    }


def make(folder: Path) -> None:
    """Write the folder, made if missing."""
    files: dict[str, Any] = {
        "config.json": model_config(),
        "tokenizer.json": words.tokenizer(200_000, MARKS),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 1048576,
            "eos_token": "<|endoftext|>",
            "unk_token": "w0",
        },
        "processor_config.json": {
            "processor_class": "InklingProcessor",
            "image_processor": {"image_processor_type": "InklingImageProcessor"},
            "feature_extractor": {"feature_extractor_type": "InklingFeatureExtractor"},
        },
        "preprocessor_config.json": {
            "image_processor_type": "InklingImageProcessor",
            "feature_extractor_type": "InklingFeatureExtractor",
            "processor_class": "InklingProcessor",
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
