"""Prompts as vLLM tells a tier of them: the hash of each chunk covers all before it."""

import hashlib
from collections.abc import Iterable

from kindling_runtime.kv.policy.chains import Chunk


def keys_of(
    prompt: str, count: int, *, group: int = 0, shared: str = "", until: int = 0
) -> list[bytes]:
    """The keys of a prompt of so many chunks, of which the first `until` are those of the prompt
    `shared`."""
    keys, above = [], b""
    for index in range(count):
        text = shared if index < until else prompt
        above = hashlib.sha256(above + f"{text}/{index}".encode()).digest()
        keys.append(above + group.to_bytes(4, "big"))
    return keys


def chunks_of(keys: list[bytes], indexes: Iterable[int]) -> list[Chunk]:
    """Some chunks of a prompt; each lies in the row of its index."""
    return [Chunk(keys[index], index, index) for index in indexes]
