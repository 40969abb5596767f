"""How far the tensors of a GGUF file reach, told from its header.

Sources: ggml-org/ggml, docs/gguf.md (versions 2 and 3, little endian): magic, version, counts, the
metadata by name and type, of each tensor name, shape, type and offset, then the tensors from the
next multiple of `general.alignment` (32) on. ggml-org/llama.cpp, gguf-py/gguf/constants.py
(GGML_QUANT_SIZES): how many values of a type are one block, of how many bytes.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from kindling_runtime import foreign

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ALIGNMENT: Final = "general.alignment"
_PARTS: Final = "split.count"
_MOST: Final = 1 << 24
"""Tensors, entries, items of a list, characters of a name: more are no header."""
_MOST_DIMENSIONS: Final = 8
"""Twice ggml's own limit."""
_SCALARS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type."""
_WHOLE: Final = {2: "<H", 4: "<I", 10: "<Q"}
"""Unsigned whole numbers among them."""
_TEXT: Final = 8
_LIST: Final = 9
_BLOCKS: Final = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    9: (32, 40),  # Q8_1
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
    40: (64, 36),  # NVFP4
    41: (128, 18),  # Q1_0
}
"""Values and bytes of a block by the tensor's type."""


@dataclass(frozen=True, slots=True)
class Header:
    """`size` is the bytes of a whole file: to the end of the last tensor, or of one whose type is
    not known, to its first byte. `parts` is how many files the model is split into."""

    size: int
    parts: int


def header(file: Path) -> Header | None:
    """What the header tells; None for what is none, or ends within it."""
    with foreign.opened(file) as opened:
        try:
            return _header(opened)
        except (struct.error, ValueError, RecursionError, OverflowError):
            return None


def _header(file: BinaryIO) -> Header:
    if file.read(4) != _MAGIC or _number(file, "<I") not in _VERSIONS:
        raise ValueError("no GGUF")
    tensors, entries = _count(file), _count(file)
    found = {_ALIGNMENT: 32, _PARTS: 1}
    for _ in range(entries):
        name = _text(file)
        value = _value(file, _number(file, "<I"))
        if name in found and value:
            found[name] = value
    reach = max((_end(file) for _ in range(tensors)), default=0)
    alignment = found[_ALIGNMENT]
    begins = -(-file.tell() // alignment) * alignment
    return Header(begins + reach, found[_PARTS])


def _end(file: BinaryIO) -> int:
    """Where the next tensor of the list ends, from the beginning of all on."""
    _text(file)
    dimensions = _count(file, "<I")
    if dimensions > _MOST_DIMENSIONS:
        raise ValueError(f"{dimensions} dimensions")
    values = math.prod(_number(file, "<Q") for _ in range(dimensions))
    kind, offset = _number(file, "<I"), _number(file, "<Q")
    if kind not in _BLOCKS:
        return offset + min(values, 1)
    block, size = _BLOCKS[kind]
    return offset + values // block * size


def _value(file: BinaryIO, kind: int) -> int | None:
    """A value's number where it is an unsigned whole one; of the rest only its end matters."""
    if kind == _TEXT:
        _text(file)
    elif kind == _LIST:
        inner, count = _number(file, "<I"), _count(file)
        if inner in _SCALARS:
            file.seek(_SCALARS[inner] * count, 1)
        else:
            for _ in range(count):
                _value(file, inner)
    elif kind in _WHOLE:
        return _number(file, _WHOLE[kind])
    elif kind in _SCALARS:
        file.seek(_SCALARS[kind], 1)
    else:
        raise ValueError(f"type {kind}")
    return None


def _text(file: BinaryIO) -> str:
    return file.read(_count(file)).decode()


def _count(file: BinaryIO, form: str = "<Q") -> int:
    found = _number(file, form)
    if found > _MOST:
        raise ValueError(f"{found} of something")
    return found


def _number(file: BinaryIO, form: str) -> int:
    number: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return number
