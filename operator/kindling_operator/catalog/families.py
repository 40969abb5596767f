"""How each family of models writes its architecture into config.json.

A family reads every field that memory depends on and knows the names of the others, so that a
field that nobody has looked at is found. The words are those of transformers 5.19, and of the
published configs for Inkling and Flint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kindling_operator.catalog import inkling_config
from kindling_operator.catalog.reading import Config, ConfigError, Reading, Wire, common, groups


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Family:
    """Classes with one way to write a config: how it is read, and the fields that do not matter.

    `unwrap` takes the text model's config out of one that has several.
    """

    classes: tuple[str, ...]
    read: Callable[[Reading], Wire]
    ignored: frozenset[str] = frozenset()
    unwrap: Callable[[Reading], tuple[Config, Wire]] | None = None


_EVERYWHERE: Final = _words(
    "architectures attention_bias attention_dropout attn_implementation auto_map bos_token_id"
    " chunk_size_feed_forward dtype eos_token_id hidden_act hidden_activation id2label"
    " initializer_range is_encoder_decoder label2id model_type output_attentions"
    " output_hidden_states pad_token_id pretraining_tp problem_type quantization_config"
    " return_dict rms_norm_eps rope_local_base_freq rope_parameters rope_scaling rope_theta"
    " torch_dtype transformers_version use_cache"
)


def wire(family: Family, fields: Config) -> Wire:
    """The architecture in the catalog's own words.

    Raises `ConfigError` for a value that is none, and for a field that the family does not know.
    """
    beside: Wire = {}
    if family.unwrap is not None and "text_config" in fields:
        outer = Reading(fields, set())
        inner, beside = family.unwrap(outer)
        _refuse_unknown(family, outer, known=_EVERYWHERE)
        fields = inner
    reading = Reading(fields, set())
    found = family.read(reading)
    _refuse_unknown(family, reading, known=_EVERYWHERE | family.ignored)
    return found | beside


def _refuse_unknown(family: Family, reading: Reading, *, known: frozenset[str]) -> None:
    unknown = sorted(reading.fields.keys() - reading.used - known)
    if unknown:
        raise ConfigError(
            f"config.json has {', '.join(unknown)}, which Kindling does not know of"
            f" {family.classes[0]}, so that its memory cannot be computed: describe the model in"
            " spec.model.custom, or remove what does not matter."
        )


def _dense(reading: Reading) -> Wire:
    width = {"intermediateSize": reading.count("intermediate_size")}
    return common(reading) | width | {"attention": groups(reading)}


def _gemma(reading: Reading) -> Wire:
    """Gemma's head is its embedding unless the config says otherwise."""
    found = _dense(reading)
    return found | {"tiedEmbedding": reading.maybe("tie_word_embeddings") is not False}


def _mixture(reading: Reading) -> Wire:
    """Experts beside a dense MLP in the layers of `mlp_only_layers`."""
    found = _dense(reading)
    dense = reading.indices("mlp_only_layers") if reading.maybe("mlp_only_layers") else []
    if sorted(dense) != list(range(len(dense))) or (reading.maybe("decoder_sparse_step") or 1) != 1:
        raise ConfigError(
            "config.json has dense layers between sparse ones: Kindling plans those before them."
        )
    experts: Wire = {
        "count": reading.count("num_experts"),
        "perToken": reading.count("num_experts_per_tok"),
        "layers": found["layers"] - len(dense),
        "intermediateSize": reading.count("moe_intermediate_size"),
    }
    shared = reading.maybe("shared_expert_intermediate_size")
    if shared:
        experts["shared"] = {"count": 1, "intermediateSize": shared}
    if not dense:
        del found["intermediateSize"]
    return found | {"experts": experts}


def _gpt_oss(reading: Reading) -> Wire:
    found = common(reading) | {"attention": groups(reading)}
    return found | {
        "experts": {
            "count": reading.count("num_local_experts"),
            "perToken": reading.count("num_experts_per_tok"),
            "layers": found["layers"],
            "intermediateSize": reading.count("intermediate_size"),
        }
    }


FAMILIES: Final = (
    Family(
        ("Qwen3ForCausalLM", "Qwen2ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"),
        _dense,
        frozenset({"max_window_layers", "mlp_bias"}),
    ),
    Family(
        ("Gemma3ForCausalLM",),
        _gemma,
        _words(
            "query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping"
            " sliding_window_pattern _sliding_window_pattern use_bidirectional_attention"
        ),
    ),
    Family(
        ("Qwen3MoeForCausalLM",),
        _mixture,
        _words("max_window_layers norm_topk_prob output_router_logits router_aux_loss_coef"),
    ),
    Family(
        ("FlintForCausalLM",),
        _mixture,
        _words(
            "no_rope_layer_indices norm_topk_prob router_score_function router_aux_loss_coef"
            " output_router_logits use_sliding_window"
        ),
    ),
    Family(
        ("GptOssForCausalLM",),
        _gpt_oss,
        _words(
            "experts_per_token initial_context_length output_router_logits router_aux_loss_coef"
            " swiglu_limit"
        ),
    ),
    Family(
        ("InklingForConditionalGeneration", "InklingForCausalLM"),
        inkling_config.read,
        _words(
            "final_logit_softcapping gate_activation inference_moe_w13_interleaved"
            " log_scaling_alpha log_scaling_n_floor logits_mup_width_multiplier norm_after_topk"
            " o_bias q_bias rel_extent rms_norm_eps_moe_gate route_scale shared_expert_sink"
            " unpadded_vocab_size use_embed_norm use_gate_bias use_global_scale use_sconv"
            " v_head_dim swa_v_head_dim"
        ),
        unwrap=inkling_config.unwrap,
    ),
)


def family_of(name: str) -> Family:
    """The family of a class in `architectures`; raises `ConfigError` for one that has none."""
    found = next((family for family in FAMILIES if name in family.classes), None)
    if found is None:
        known = ", ".join(sorted(each for family in FAMILIES for each in family.classes))
        raise ConfigError(
            f"config.json is of a {name}, which is none of {known}: describe the model in"
            " spec.model.custom."
        )
    return found
