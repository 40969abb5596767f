"""Which chunks are worth a write: those of a prefix that has been asked for before."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final


class Admission(enum.StrEnum):
    """The values of spec.cache.objectStore.admission."""

    ALWAYS = "Always"
    SECOND_USE = "SecondUse"


_BITS: Final = 1 << 22
_PROBES: Final = 4
_PROBE_BYTES: Final = 3


@dataclass(slots=True)
class Sightings:
    """Keys that were seen, of late: at least the last `kept`, at most twice as many, in 1 MiB.

    Two Bloom filters, of which the older is dropped when the younger is full. With 262,144 keys
    each, one of about 200 unseen keys is taken for seen (4 probes in 2^22 bits: 0.2 % in each);
    that costs a write, no more.
    """

    kept: int = 262_144
    _young: bytearray = field(default_factory=lambda: bytearray(_BITS // 8))
    _old: bytearray = field(default_factory=lambda: bytearray(_BITS // 8))
    _count: int = 0

    def see(self, keys: Iterable[bytes]) -> frozenset[bytes]:
        """Note the keys of one request; those that an earlier request had."""
        return frozenset([key for key in keys if self._seen(key)])

    def _seen(self, key: bytes) -> bool:
        bits = _bits(key)
        before = _has(self._young, bits)
        known = before or _has(self._old, bits)
        if not before:
            for bit in bits:
                self._young[bit >> 3] |= 1 << (bit & 7)
            self._count += 1
            if self._count >= self.kept:
                self._old, self._young = self._young, bytearray(_BITS // 8)
                self._count = 0
        return known


def _has(filled: bytearray, bits: list[int]) -> bool:
    return all(filled[bit >> 3] & (1 << (bit & 7)) for bit in bits)


def _bits(key: bytes) -> list[int]:
    """A key is a hash already, and ends with the number of its group."""
    group = int.from_bytes(key[-4:], "big") * 0x9E3779B1
    return [
        (int.from_bytes(key[at : at + _PROBE_BYTES], "big") + group) % _BITS
        for at in range(0, _PROBES * _PROBE_BYTES, _PROBE_BYTES)
    ]
