"""Make a tiny model folder that vLLM serves: in seconds, no network, the same bytes each time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import TensorSpec, serialize_file
from tests.support.tinymodel.architectures import (
    BLUEPRINTS,
    KINDS,
    Architecture,
    Shape,
    config,
    tensors,
)
from tests.support.tinymodel.vocabulary import END, PAD, tokenizer_config, train

SPREAD: Final = 0.02
"""Standard deviation of the weights: `initializer_range` of these architectures."""
READABLE: Final = 0o644
"""A pod without root reads the files: safetensors alone would leave them to their owner."""


def make_model(
    folder: Path,
    architecture: Architecture = Architecture.QWEN3,
    *,
    max_len: int = 4096,
    layers: str | None = None,
    seed: int = 0,
) -> int:
    """Write the model into `folder` (made if missing); the number of its parameters.

    `layers` has one letter a layer, `s` sliding window or `f` full attention; sliding windows
    need an architecture that has them. Raises ValueError if it does not fit.
    """
    layers = layers or BLUEPRINTS[architecture].layers
    _check(architecture, layers)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    end, pad = tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)
    ids = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": pad}
    settings = config(architecture, max_len=max_len, layers=layers) | ids
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    _write_json(folder / "tokenizer_config.json", tokenizer_config(max_len))
    _write_json(folder / "config.json", settings)
    _write_json(
        folder / "generation_config.json",
        {"eos_token_id": end, "pad_token_id": pad, "temperature": 1.0},
    )
    count = _write_weights(
        folder / "model.safetensors", settings, norm=BLUEPRINTS[architecture].norm, seed=seed
    )
    for path in folder.iterdir():
        path.chmod(READABLE)
    return count


def _check(architecture: Architecture, layers: str) -> None:
    if set(layers) - set(KINDS):
        raise ValueError(f"--layers {layers} has letters other than s and f: use one a layer.")
    if "s" in layers and "s" not in BLUEPRINTS[architecture].layers:
        raise ValueError(f"--layers {layers}: {architecture} has no sliding windows, use f alone.")


def _write_weights(path: Path, settings: Mapping[str, Any], *, norm: float, seed: int) -> int:
    # RandomState, because its stream is frozen for good; Generator's may change with numpy.
    chance = np.random.RandomState(seed)
    arrays = {
        name: _bfloat16(_initial(name, shape, norm=norm, chance=chance))
        for name, shape in tensors(settings)
    }
    specs = {
        name: TensorSpec(
            dtype="bfloat16", shape=bits.shape, data_ptr=bits.ctypes.data, data_len=bits.nbytes
        )
        for name, bits in arrays.items()
    }
    serialize_file(specs, str(path), {"format": "pt"})  # reads `arrays` through their addresses
    return sum(bits.size for bits in arrays.values())


def _initial(
    name: str, shape: Shape, *, norm: float, chance: np.random.RandomState
) -> NDArray[np.float32]:
    if name.endswith("norm.weight"):
        return np.full(shape, norm, dtype=np.float32)
    # Uniform with the wanted deviation: exact on every machine, where a normal needs log and sqrt.
    width = SPREAD * 3**0.5
    return ((chance.random_sample(shape) * 2 - 1) * width).astype(np.float32)


def _bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper half of each float32, rounded to nearest; ties are too rare to matter here."""
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64) + 0x8000
    return (bits >> 16).astype("<u2")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
