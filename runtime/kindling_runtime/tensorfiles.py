"""What files of tensors hold, told from their headers: safetensors, and what torch.save wrote.

Sources: huggingface/safetensors, README (format): eight bytes with the header's length, the header
as JSON with dtype, shape and place of each tensor, the tensors without a hole; tensor.rs (Dtype):
bits of a value. PyTorch, serialization.py: a zip archive since 1.6, before it a pickle of protocol
2, and before that a tar archive.
"""

import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from kindling_runtime import foreign

_LENGTH: Final = 8
_LONGEST_HEADER: Final = 100_000_000
"""The format's own limit."""
_METADATA: Final = "__metadata__"
_BITS: Final = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
_ZIP: Final = b"PK\x03\x04"
_PICKLE: Final = b"\x80"
_TAR: Final = b"ustar"
_TAR_AT: Final = 257


@dataclass(frozen=True, slots=True)
class Header:
    """`sizes` has the bytes of each tensor, `size` those of a whole file; `wrong` is a clause of
    what contradicts itself, "" for nothing."""

    sizes: dict[str, int]
    size: int
    wrong: str


def safetensors(file: Path) -> Header | None:
    """What the header tells; None for what is none."""
    with foreign.opened(file) as opened:
        length = int.from_bytes(opened.read(_LENGTH), "little")
        if not 2 <= length <= _LONGEST_HEADER:
            return None
        text = opened.read(length)
    try:
        places = {
            name: _place(tensor)
            for name, tensor in msgspec.json.decode(text).items()
            if name != _METADATA
        }
    except (
        msgspec.DecodeError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):
        return None
    sizes = {name: end - begin for name, (begin, end, _) in places.items()}
    reach = max((end for _, end, _ in places.values()), default=0)
    return Header(sizes, _LENGTH + length + reach, _contradiction(places))


def _place(tensor: dict[str, Any]) -> tuple[int, int, int | None]:
    """Begin, end, and bytes by type and shape; None of a type that is not known."""
    begin, end = tensor["data_offsets"]
    shape = tensor["shape"]
    if not all(type(each) is int and each >= 0 for each in (begin, end, *shape)):
        raise ValueError("no numbers")
    bits = _BITS.get(tensor["dtype"])
    return begin, end, None if bits is None else -(-math.prod(shape) * bits // 8)


def _contradiction(places: dict[str, tuple[int, int, int | None]]) -> str:
    last = 0
    for name, (begin, end, needs) in sorted(places.items(), key=lambda each: each[1][:2]):
        if needs is not None and end - begin != needs:
            return (
                f"gives its tensor {foreign.quoted(name)} {end - begin} bytes and its shape needs"
                f" {needs}"
            )
        if begin != last:
            return (
                f"has its tensor {foreign.quoted(name)} at byte {begin} and the one before ends at"
                f" {last}"
            )
        last = end
    return ""


def torch_file_is_whole(file: Path) -> bool:
    """Whether a file that torch.save wrote has its end. A pickle's is known only by reading it."""
    with foreign.opened(file) as opened:
        begins = opened.read(_TAR_AT + len(_TAR))
        if not begins.startswith(_ZIP):
            return begins.startswith(_PICKLE) or begins[_TAR_AT:] == _TAR
        try:
            with zipfile.ZipFile(opened) as archive:
                return bool(archive.namelist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError):
            return False
