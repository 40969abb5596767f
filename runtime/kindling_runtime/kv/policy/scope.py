"""Where the chunks of one deployment lie in a bucket.

Every fact that the bytes of a chunk depend on is in the digest, so that two pods meet in a name
only if they may use each other's bytes. What stands before it is for people who list the bucket.

    kindling-kv/v1/CLUSTER/NAMESPACE/MODEL/WEIGHTS/ENGINE-DTYPE-tp8-DIGEST/g0/3f/3f07…
"""

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

ROOT: Final = "kindling-kv"
FORMAT: Final = 1
"""Of names and objects; objects of another one are never found."""
SHARED: Final = "_shared"
"""Stands for cluster and namespace where a bucket is shared; no namespace is called so."""

_DIGEST_LETTERS: Final = 24
_UNREADABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group of layers; `window` in chunks, None where attention reaches back without end."""

    tokens_per_block: int
    layers: tuple[str, ...]
    window: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the bytes of a chunk depend on.

    `weights` is the digest or commit of the weights, `engine` vLLM's minor version, `portable` says
    that the bytes are the same whatever the parallelism: then it is left out. `chunk_bytes` is one
    chunk of all ranks together. A `salt` keeps apart what is equal otherwise; salts of single
    requests are in vLLM's own block hashes.
    """

    model: str
    weights: str
    engine: str
    layout: str
    dtype: str
    tensor: int
    pipeline: int
    prefill_context: int
    decode_context: int
    portable: bool
    tokens_per_hash: int
    blocks_per_chunk: int
    chunk_bytes: int
    groups: tuple[Group, ...]
    salt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose chunks they are; `shared` gives them to every writer of the bucket."""

    cluster: str
    namespace: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """`home` is what one garbage collection looks after, all revisions of a model; `prefix`, below
    it, what one deployment reads and writes. Neither ends with a slash."""

    home: str
    prefix: str

    def name(self, group: int, anchor: bytes) -> str:
        """Of the object whose last chunk has the block hash `anchor`; spread over 256 folders."""
        text = anchor.hex()
        return f"{self.prefix}/g{group}/{text[:2]}/{text}"


def place(facts: Facts, owner: Owner, *, below: str = "") -> Place:
    """The place of a deployment, `below` a folder of the bucket.

    Raises ValueError where weights or owner are not told: chunks of other weights would be used.
    """
    if not facts.weights:
        raise ValueError(
            "the revision of the weights is not told; chunks of other weights would fit"
        )
    if not owner.shared and not (owner.cluster and owner.namespace):
        raise ValueError("cluster and namespace are not told, and the bucket is not shared")
    whose = (SHARED,) if owner.shared else (owner.cluster, owner.namespace)
    above = [part for part in below.split("/") if part not in {"", ".", ".."}]
    home = "/".join((*above, ROOT, f"v{FORMAT}", *map(readable, whose), readable(facts.model)))
    ranks = "any" if facts.portable else f"tp{facts.tensor}"
    shape = "-".join((readable(facts.engine), readable(facts.dtype), ranks, digest(facts, owner)))
    return Place(home, f"{home}/{readable(facts.weights)[:12]}/{shape}")


def digest(facts: Facts, owner: Owner) -> str:
    """Of everything, exactly as it is; the same on every machine."""
    told = asdict(facts)
    if facts.portable:
        for name in ("tensor", "pipeline", "prefill_context", "decode_context"):
            del told[name]
    told["owner"] = [] if owner.shared else [owner.cluster, owner.namespace]
    told["format"] = FORMAT
    content = msgspec.json.encode(told, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:_DIGEST_LETTERS]


def readable(text: str) -> str:
    """As one part of a name, for people: two texts may look the same."""
    kept = _UNREADABLE.sub("-", text).strip("-.")[-_LONGEST:].strip("-.")
    return kept or "_"
