"""A config.json while it is read, and the words that most families share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]
Wire = dict[str, Any]


class ConfigError(ValueError):
    """A config.json that cannot be read; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A config while it is read: `fields` by name, `used` the names that were asked for."""

    fields: Config
    used: set[str]

    def count(self, name: str, *others: str) -> int:
        """A positive whole number under one of these names; raises `ConfigError` without."""
        value = self.maybe(name, *others)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"config.json has {name} {value!r}: a whole number is needed there.")
        return value

    def maybe(self, name: str, *others: str) -> Any:
        """The value under the first of these names that is there, or None."""
        self.used.update((name, *others))
        given = (self.fields[each] for each in (name, *others) if each in self.fields)
        return next((value for value in given if value is not None), None)

    def indices(self, name: str) -> list[int]:
        """A list of layer indices; raises `ConfigError` without one."""
        value = self.maybe(name)
        if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
            raise ConfigError(
                f"config.json has {name} {value!r}: a list of layers is needed there."
            )
        return value


def common(reading: Reading) -> Wire:
    """What all decoders have."""
    found: Wire = {
        "hiddenSize": reading.count("hidden_size"),
        "vocabularySize": reading.count("vocab_size"),
        "attentionHeads": reading.count("num_attention_heads"),
        "layers": reading.count("num_hidden_layers"),
        "contextLength": reading.count("max_position_embeddings", "model_max_length"),
    }
    if reading.maybe("tie_word_embeddings"):
        found["tiedEmbedding"] = True
    return found


def head_size(reading: Reading) -> int:
    given = reading.maybe("head_dim")
    if given is not None:
        return reading.count("head_dim")
    return reading.count("hidden_size") // reading.count("num_attention_heads")


def groups(reading: Reading) -> list[Wire]:
    """Full and sliding layers by `layer_types`, or all of one kind without it."""
    layers = reading.count("num_hidden_layers")
    kinds = reading.maybe("layer_types") or ["full_attention"] * layers
    window = reading.maybe("sliding_window")
    slides = window is not None and reading.maybe("use_sliding_window") is not False
    if slides and reading.maybe("layer_types") is None:
        raise ConfigError(
            "config.json has sliding_window and no layer_types: add the list, so that it is clear"
            " which layers slide."
        )
    if len(kinds) != layers:
        raise ConfigError(f"config.json has {len(kinds)} layer_types and {layers} layers.")
    shape = {
        "kvHeads": reading.count("num_key_value_heads", "num_attention_heads"),
        "headSize": head_size(reading),
    }
    full = [index for index, kind in enumerate(kinds) if kind == "full_attention"]
    sliding = [index for index, kind in enumerate(kinds) if kind == "sliding_attention"]
    strange = sorted({str(kind) for kind in kinds} - {"full_attention", "sliding_attention"})
    if strange:
        raise ConfigError(f"config.json has layer_types {', '.join(strange)}: not known here.")
    return two_kinds(full, sliding, full_shape=shape, sliding_shape=shape, window=window)


def two_kinds(
    full: list[int],
    sliding: list[int],
    *,
    full_shape: Wire,
    sliding_shape: Wire,
    window: Any,
) -> list[Wire]:
    found: list[Wire] = []
    if full:
        where = {"positions": full} if sliding else {}
        found.append(
            {"name": "full_attention", "kind": "Full", "layers": len(full), **full_shape, **where}
        )
    if sliding:
        if not isinstance(window, int) or window < 1:
            raise ConfigError("config.json has sliding layers and no sliding_window.")
        found.append(
            {
                "name": "sliding_window",
                "kind": "Sliding",
                "layers": len(sliding),
                **sliding_shape,
                "window": window,
            }
        )
    return found
