"""A folder with a checkpoint, as an entry of the catalog: its config.json and its files' sizes."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kindling_operator.catalog.families import family_of, wire
from kindling_operator.catalog.reading import Config, ConfigError, Wire

_INDEX: Final = "model.safetensors.index.json"
_LARGEST_HEADER: Final = 100_000_000
"""The format's own limit (huggingface/safetensors, README: header of at most 100 MB)."""
_EXPERT: Final = re.compile(r"(?<!shared_)\bexperts\.")
"""Names of routed experts' tensors in all families that are read."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What the files tell of the weights, in bytes; None where they do not tell.

    `source` says which files were asked.
    """

    format: str
    bytes: int | None
    expert_bytes: int | None
    source: str


@dataclass(frozen=True, slots=True)
class Found:
    """The architecture without its checkpoints, in the catalog's words, and the weights."""

    architecture: Wire
    weights: Weights


def read(folder: Path) -> Found:
    """What is in a folder; raises `ConfigError`, with one sentence, for what cannot be told."""
    config = _json(folder / "config.json")
    classes = config.get("architectures")
    if not isinstance(classes, list) or len(classes) != 1:
        raise ConfigError(f"{folder / 'config.json'} has architectures {classes}: name one class.")
    name = str(classes[0])
    architecture = {"architecture": name, **wire(family_of(name), config)}
    return Found(architecture, _weights(folder, config))


def _weights(folder: Path, config: Config) -> Weights:
    shards = sorted(folder.glob("*.safetensors"))
    packed = sorted(folder.glob("*.gguf"))
    if packed:
        if len(packed) > 1 or shards:
            raise ConfigError(
                f"{folder} has {len(packed)} GGUF files and {len(shards)} of safetensors: vLLM"
                " reads one GGUF file alone, remove the others."
            )
        return Weights("NVFP4", packed[0].stat().st_size, None, packed[0].name)
    written = _format(config)
    if shards:
        sizes = [size for shard in shards for size in _tensors(shard)]
        experts = sum(size for name, size in sizes if _EXPERT.search(name))
        whole = sum(size for _, size in sizes)
        return Weights(written, whole, experts or None, "headers of the safetensors files")
    if (folder / _INDEX).exists():
        whole = _json(folder / _INDEX).get("metadata", {}).get("total_size")
        if not isinstance(whole, int) or whole < 1:
            raise ConfigError(f"{folder / _INDEX} has no total_size: download it again.")
        return Weights(written, whole, None, _INDEX)
    return Weights(written, None, None, "the shapes: the folder has no weights")


def _format(config: Config) -> str:
    quantization: Any = config.get("quantization_config")
    if quantization is None:
        inner = config.get("text_config") or config
        dtype = inner.get("dtype") or inner.get("torch_dtype") or config.get("torch_dtype")
        if dtype not in (None, "bfloat16"):
            raise ConfigError(
                f"config.json has dtype {dtype}: Kindling plans checkpoints in bfloat16 and NVFP4."
            )
        return "BF16"
    if "nvfp4" in json.dumps(quantization).lower():
        return "NVFP4"
    method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
    raise ConfigError(
        f"config.json has quantization_config {method}: Kindling plans checkpoints in bfloat16 and"
        " NVFP4."
    )


def _tensors(shard: Path) -> Iterator[tuple[str, int]]:
    """Name and bytes of every tensor of a safetensors file."""
    with shard.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 0 < length <= _LARGEST_HEADER:
            raise ConfigError(f"{shard} is no safetensors file: download it again.")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            sizes = [(name, each["data_offsets"]) for name, each in header.items()]
            yield from ((name, end - begin) for name, (begin, end) in sizes)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"{shard} is no safetensors file: download it again.") from error


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is no JSON object: it describes no checkpoint.")
    return content
