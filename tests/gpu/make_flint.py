"""Write a folder with Flint's shape and random NVFP4 weights in one GGUF file (22 GiB).

Usage: python tests/gpu/make_flint.py FOLDER

The tokenizer knows the words w0 to w149999 and the marks that vLLM's glm47 parsers ask for. The
weights repeat 64 MiB of random blocks: no run looks at what the model says.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

words: Any = importlib.import_module("word_tokenizer")  # beside this script

HIDDEN: Final = 2048
VOCABULARY: Final = 150_144
LAYERS: Final = 49
EXPERTS: Final = 256
FULL: Final = (0, 1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 48)
"""The full-attention layers, as in the catalog."""
MARKS: Final = {
    "<|begin|>": 150_001, "<|end|>": 150_002, "<think>": 150_003, "</think>": 150_004,
    "<tool_call>": 150_005, "</tool_call>": 150_006, "<arg_key>": 150_007, "</arg_key>": 150_008,
    "<arg_value>": 150_009, "</arg_value>": 150_010,
}  # fmt: skip

_NVFP4: Final = 40
"""GGUF's number of the type: 64 values in 36 bytes, four UE4M3 scales and 32 bytes of E2M1."""
_BLOCK: Final = 36


def config() -> dict[str, Any]:
    """config.json of the published shape."""
    return {
        "architectures": ["FlintForCausalLM"], "model_type": "flint", "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN, "intermediate_size": 6144, "num_hidden_layers": LAYERS,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "max_position_embeddings": 262_144, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "sliding_window": 513, "use_sliding_window": True,
        "layer_types": [
            "full_attention" if layer in FULL else "sliding_attention" for layer in range(LAYERS)
        ],
        "no_rope_layer_indices": list(FULL), "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 1024, "num_experts_per_tok": 6, "num_experts": EXPERTS,
        "norm_topk_prob": True, "router_score_function": "sigmoid", "mlp_only_layers": [0, 1],
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "bos_token_id": MARKS["<|begin|>"], "eos_token_id": MARKS["<|end|>"],
    }  # fmt: skip


class Weights:
    """A GGUF file in the layout that vLLM's Flint loader reads."""

    def __init__(self, file: Path) -> None:
        self._gguf: Any = importlib.import_module("gguf")
        self._writer = self._gguf.GGUFWriter(file, "flint")
        chance = np.random.default_rng(0)
        blocks = chance.integers(0, 256, size=((64 << 20) // _BLOCK, _BLOCK), dtype=np.uint8)
        blocks[:, :4] = chance.integers(0x30, 0x38, size=(len(blocks), 4), dtype=np.uint8)
        self._blocks = blocks.reshape(-1)
        self._normal = chance.standard_normal(1 << 22, dtype=np.float32)

    def four_bit(self, name: str, rows: int, columns: int, experts: int | None = None) -> None:
        """One matrix, or one for each expert, with its scale."""
        lead = () if experts is None else (experts,)
        shape = (*lead, rows, columns // 64 * _BLOCK)
        kind = self._gguf.GGMLQuantizationType(_NVFP4)
        self._writer.add_tensor(
            f"{name}.weight", np.resize(self._blocks, shape), raw_shape=shape, raw_dtype=kind
        )
        self._writer.add_tensor(f"{name}.scale", np.full(lead or (1,), 0.01, np.float32))

    def normal(self, name: str, rows: int, columns: int, scale: float) -> None:
        """A matrix of normal numbers."""
        self._writer.add_tensor(f"{name}.weight", np.resize(self._normal, (rows, columns)) * scale)

    def constant(self, name: str, size: int, value: float = 1.0) -> None:
        """A vector of one number."""
        self._writer.add_tensor(f"{name}.weight", np.full(size, value, np.float32))

    def write(self) -> None:
        """Everything that was added."""
        self._writer.write_header_to_file()
        self._writer.write_kv_data_to_file()
        self._writer.write_tensors_to_file()
        self._writer.close()


def fill(weights: Weights) -> None:
    """All tensors of the model."""
    weights.normal("token_embd", VOCABULARY, HIDDEN, 0.02)
    weights.constant("output_norm", HIDDEN)
    weights.four_bit("output", VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        for norm, size in (("attn_norm", HIDDEN), ("ffn_norm", HIDDEN)):
            weights.constant(at + norm, size)
        for norm in ("attn_q_norm", "attn_k_norm"):
            weights.constant(at + norm, 128)
        weights.constant(at + "attn_sinks", 32, 0.1)
        for part, rows, columns in (
            ("q", 4096, HIDDEN),
            ("k", 512, HIDDEN),
            ("v", 512, HIDDEN),
            ("output", HIDDEN, 4096),
        ):
            weights.four_bit(f"{at}attn_{part}", rows, columns)
        if layer < 2:
            _feed_forward(weights, at, "", 6144, None)
            continue
        _feed_forward(weights, at, "_shexp", 1024, None)
        _feed_forward(weights, at, "_exps", 512, EXPERTS)
        weights.normal(at + "ffn_gate_inp", EXPERTS, HIDDEN, 0.05)


def _feed_forward(weights: Weights, at: str, kind: str, width: int, experts: int | None) -> None:
    weights.four_bit(f"{at}ffn_gate{kind}", width, HIDDEN, experts)
    weights.four_bit(f"{at}ffn_up{kind}", width, HIDDEN, experts)
    weights.four_bit(f"{at}ffn_down{kind}", HIDDEN, width, experts)


def make(folder: Path) -> None:
    """Write the folder, made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "config.json": config(),
        "tokenizer.json": words.tokenizer(150_000, MARKS),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 262_144,
            "eos_token": "<|end|>",
            "unk_token": "w0",
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    weights = Weights(folder / "flint.gguf")
    fill(weights)
    weights.write()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
