"""Inkling's config.json, which has words of its own and a config for each part."""

from __future__ import annotations

from kindling_operator.catalog.reading import Config, ConfigError, Reading, Wire, common, two_kinds


def unwrap(outer: Reading) -> tuple[Config, Wire]:
    """The text model's config, and what stands beside it: inputs and prediction layers."""
    inner = outer.maybe("text_config")
    if not isinstance(inner, dict):
        raise ConfigError("config.json has no text_config: it is not Inkling's.")
    modalities = ["Text"]
    modalities += ["Image"] if (outer.maybe("vision_config") or {}).get("n_layers") else []
    modalities += ["Audio"] if (outer.maybe("audio_config") or {}).get("n_mel_bins") else []
    outer.used.update(("boi_token_id", "tie_word_embeddings"))
    predicting = outer.maybe("mtp_config")
    found: Wire = {"modalities": modalities}
    return inner, found | (_draft(predicting) if predicting else {})


def _draft(predicting: Config) -> Wire:
    depth = Reading(predicting, {"chain_hidden_post_norm"})
    depths = depth.count("num_nextn_predict_layers")
    local = set(depth.indices("local_layer_ids"))
    unknown = sorted(predicting.keys() - depth.used)
    if unknown:
        raise ConfigError(
            f"config.json has mtp_config.{unknown[0]}, which Kindling does not know: describe the"
            " model in spec.model.custom."
        )
    names = ["sliding_window" if each in local else "full_attention" for each in range(depths)]
    draft: Wire = {"depths": depths, "attentionGroup": names[0], "convGroup": "short_conv"}
    if len(set(names)) > 1:
        draft["attentionGroups"] = names
    return {"draft": draft}


def read(reading: Reading) -> Wire:
    """The text model: what vLLM's class does with the fields (models/inkling/nvidia)."""
    found = common(reading)
    layers = found["layers"]
    local = set(reading.indices("local_layer_ids"))
    sliding = {
        "kvHeads": reading.count("swa_num_key_value_heads"),
        "headSize": reading.count("swa_head_dim"),
    }
    position = {"headSizePosition": reading.count("d_rel")}
    size = {"headSize": reading.count("head_dim")}
    if reading.count("swa_num_attention_heads") != found["attentionHeads"]:
        raise ConfigError("config.json has other query heads in sliding layers: not planned yet.")
    groups = two_kinds(
        [index for index in range(layers) if index not in local],
        sorted(local),
        full_shape={"kvHeads": reading.count("num_key_value_heads"), **size, **position},
        sliding_shape={**sliding, **position},
        window=reading.count("sliding_window_size"),
    )
    groups.append(_convolution(reading))
    width = reading.count("intermediate_size")
    return found | {
        "intermediateSize": reading.count("dense_intermediate_size"),
        "attention": groups,
        "experts": {
            "count": reading.count("n_routed_experts"),
            "perToken": reading.count("num_experts_per_tok"),
            "layers": layers - (reading.maybe("dense_mlp_idx") or 0),
            "intermediateSize": width,
            "shared": {"count": reading.count("n_shared_experts"), "intermediateSize": width},
        },
        "replicatedEmbedding": True,
    }


def _convolution(reading: Reading) -> Wire:
    """The short convolutions of every layer, as pages of the KV cache.

    A head holds two streams of a KV head and its share of two residual streams, rounded up to a
    power of two (vLLM 0.33.0, models/inkling/nvidia/sconv_swa_attn.py:150-193).
    """
    heads = reading.count("swa_num_key_value_heads")
    size = 2 * reading.count("swa_head_dim") + 2 * reading.count("hidden_size") // heads
    kernel = reading.count("sconv_kernel_size")
    return {
        "name": "short_conv",
        "kind": "Conv",
        "layers": reading.count("num_hidden_layers"),
        "kvHeads": heads,
        "headSize": 1 << (size - 1).bit_length(),
        "headSizeValue": 0,
        "window": kernel,
        "blockTokens": kernel,
    }
