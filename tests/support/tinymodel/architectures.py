"""The architectures of the tiny models: what config.json says and which tensors it implies.

Names and shapes are those of transformers 5.19 (`models/<type>/modeling_*.py`), which vLLM's
loaders follow. Shapes are in elements, outermost dimension first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

VOCABULARY: Final = 2048
HIDDEN: Final = 256
HEAD: Final = 64

Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape]]


class Architecture(StrEnum):
    """What `--arch` accepts."""

    QWEN3 = "qwen3"
    QWEN3_MOE = "qwen3-moe"
    GEMMA3 = "gemma3"
    GPT_OSS = "gpt-oss"


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One architecture: defaults of its config, norm weights, and layer kinds where it has two."""

    config: Mapping[str, Any]
    attention_heads: int
    kv_heads: int
    layers: str
    """One letter a layer: `s` sliding window, `f` full attention."""
    norm: float = 1.0
    """Initial norm weight; gemma multiplies by one plus it."""


_QWEN3: Final[Mapping[str, Any]] = {
    "hidden_act": "silu",
    "intermediate_size": 512,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "tie_word_embeddings": True,
}
BLUEPRINTS: Final[Mapping[Architecture, Blueprint]] = {
    Architecture.QWEN3: Blueprint(
        config={
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            **_QWEN3,
        },
        attention_heads=8,
        kv_heads=2,
        layers="ffff",
    ),
    Architecture.QWEN3_MOE: Blueprint(
        config={
            "architectures": ["Qwen3MoeForCausalLM"],
            "model_type": "qwen3_moe",
            **_QWEN3,
            "moe_intermediate_size": 128,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        },
        attention_heads=8,
        kv_heads=2,
        layers="ffff",
    ),
    Architecture.GEMMA3: Blueprint(
        config={
            "architectures": ["Gemma3ForCausalLM"],
            "model_type": "gemma3_text",
            "hidden_activation": "gelu_pytorch_tanh",
            "intermediate_size": 512,
            "query_pre_attn_scalar": 64,
            "sliding_window": 512,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
            "tie_word_embeddings": True,
        },
        attention_heads=4,
        kv_heads=1,
        layers="sssssf",
        norm=0.0,
    ),
    Architecture.GPT_OSS: Blueprint(
        config={
            "architectures": ["GptOssForCausalLM"],
            "model_type": "gpt_oss",
            "hidden_act": "silu",
            "intermediate_size": 256,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 128,
            "rms_norm_eps": 1e-5,
            "attention_bias": True,
            "swiglu_limit": 7.0,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150000.0,
                "factor": 32.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 4096,
            },
            "tie_word_embeddings": False,
        },
        attention_heads=4,
        kv_heads=2,
        layers="sfsf",
    ),
}
KINDS: Final = {"s": "sliding_attention", "f": "full_attention"}


def config(architecture: Architecture, *, max_len: int, layers: str) -> dict[str, Any]:
    """Content of config.json; `max_len` in tokens."""
    blueprint = BLUEPRINTS[architecture]
    return {
        **blueprint.config,
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "head_dim": HEAD,
        "num_attention_heads": blueprint.attention_heads,
        "num_key_value_heads": blueprint.kv_heads,
        "num_hidden_layers": len(layers),
        "layer_types": [KINDS[letter] for letter in layers],
        "max_position_embeddings": max_len,
        "attention_bias": blueprint.config.get("attention_bias", False),
        "use_cache": True,
    }


def tensors(settings: Mapping[str, Any]) -> Tensors:
    """Name and shape of every tensor that a checkpoint with this config.json holds."""
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for number in range(settings["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        yield from _attention(f"{layer}.self_attn", settings)
        yield from _norms(layer, settings)
        yield from _MLP[settings["model_type"]](f"{layer}.mlp", settings)
    yield "model.norm.weight", (HIDDEN,)
    if not settings["tie_word_embeddings"]:
        yield "lm_head.weight", (VOCABULARY, HIDDEN)


def _attention(prefix: str, settings: Mapping[str, Any]) -> Tensors:
    heads = settings["num_attention_heads"]
    widths = {"q": heads * HEAD, "k": settings["num_key_value_heads"] * HEAD}
    widths["v"] = widths["k"]
    for name, width in widths.items():
        yield f"{prefix}.{name}_proj.weight", (width, HIDDEN)
    yield f"{prefix}.o_proj.weight", (HIDDEN, widths["q"])
    if settings["attention_bias"]:
        for name, width in {**widths, "o": HIDDEN}.items():
            yield f"{prefix}.{name}_proj.bias", (width,)
    if settings["model_type"] == "gpt_oss":
        yield f"{prefix}.sinks", (heads,)
    else:
        for name in "qk":
            yield f"{prefix}.{name}_norm.weight", (HEAD,)


def _norms(layer: str, settings: Mapping[str, Any]) -> Tensors:
    names = ["input_layernorm", "post_attention_layernorm"]
    if settings["model_type"] == "gemma3_text":
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for name in names:
        yield f"{layer}.{name}.weight", (HIDDEN,)


def _dense(prefix: str, settings: Mapping[str, Any], *, width: int | None = None) -> Tensors:
    inner = width or settings["intermediate_size"]
    yield f"{prefix}.gate_proj.weight", (inner, HIDDEN)
    yield f"{prefix}.up_proj.weight", (inner, HIDDEN)
    yield f"{prefix}.down_proj.weight", (HIDDEN, inner)


def _separate_experts(prefix: str, settings: Mapping[str, Any]) -> Tensors:
    yield f"{prefix}.gate.weight", (settings["num_experts"], HIDDEN)
    for expert in range(settings["num_experts"]):
        width = settings["moe_intermediate_size"]
        yield from _dense(f"{prefix}.experts.{expert}", settings, width=width)


def _fused_experts(prefix: str, settings: Mapping[str, Any]) -> Tensors:
    experts, inner = settings["num_local_experts"], settings["intermediate_size"]
    yield f"{prefix}.router.weight", (experts, HIDDEN)
    yield f"{prefix}.router.bias", (experts,)
    yield f"{prefix}.experts.gate_up_proj", (experts, HIDDEN, 2 * inner)
    yield f"{prefix}.experts.gate_up_proj_bias", (experts, 2 * inner)
    yield f"{prefix}.experts.down_proj", (experts, inner, HIDDEN)
    yield f"{prefix}.experts.down_proj_bias", (experts, HIDDEN)


_MLP: Final = {
    "qwen3": _dense,
    "qwen3_moe": _separate_experts,
    "gemma3_text": _dense,
    "gpt_oss": _fused_experts,
}
