"""Where the pod has what it reads: weights and adapters, from a claim, the image, or a cache."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from kindling_operator.model.api_model import Weights
from kindling_operator.model.architecture import Checkpoint
from kindling_operator.model.plan import FetchPlan, WeightsMount
from kindling_operator.plan.memory import download_room

WEIGHTS_ROOT: Final = "/mnt/weights"
"""Where the claim with the weights is mounted."""
CACHE_ROOT: Final = "/mnt/cache"
"""Where the cache is: a claim, or a volume of the pod's own."""


LOCAL_SCHEMES: Final = ("pvc", "file")
"""What is already where the pod can read it."""

_KEY_LENGTH: Final = 80
_DIGEST_LENGTH: Final = 12


def weights_mount(uri: str) -> WeightsMount:
    """Where the engine finds the folder of a pvc:// or file:// URI."""
    scheme, _, rest = uri.partition("://")
    if scheme == "file":
        return WeightsMount(uri=uri, path=rest)
    claim, _, folder = rest.partition("/")
    path = f"{WEIGHTS_ROOT}/{folder}".rstrip("/")
    return WeightsMount(uri=uri, path=path, claim=claim)


def weights_of(asked: Weights, checkpoint: Checkpoint) -> WeightsMount:
    """Where the engine finds a checkpoint, and what has to be downloaded for it.

    Without a URI the checkpoint's own repository is meant.
    """
    uri, cache = asked.uri or checkpoint.repository or "", asked.cache_claim or ""
    if is_local(uri):
        mount = weights_mount(uri)
        return WeightsMount(uri=uri, path=mount.path, claim=mount.claim, cache_claim=cache)
    token, revision = asked.token_secret_ref, asked.revision or ""
    config = config_source(asked, checkpoint)
    key = cache_key(uri, revision, config)
    fetch = FetchPlan(
        key=key,
        revision=revision,
        config_uri=config,
        bytes=checkpoint.bytes,
        room=0 if cache else download_room(checkpoint.bytes),
        token_secret=token.name if token is not None else "",
        token_key=token.key if token is not None else "",
    )
    return WeightsMount(uri=uri, path=f"{CACHE_ROOT}/weights/{key}", fetch=fetch, cache_claim=cache)


def config_source(asked: Weights, checkpoint: Checkpoint) -> str:
    """Where config and tokenizer are downloaded from beside the catalog's own weights; "" for
    nowhere else."""
    if asked.uri not in (None, checkpoint.repository):
        return ""
    return checkpoint.config_repository or ""


def config_is_beside(asked: Weights, checkpoint: Checkpoint) -> str:
    """What to know of a checkpoint whose weights are published without config and tokenizer; ""
    for others."""
    published = checkpoint.config_repository
    if not published:
        return ""
    if config_source(asked, checkpoint):
        return f"Config and tokenizer come from {published} where {checkpoint.repository} has none."
    return (
        f"{asked.uri} needs config.json and the tokenizer beside the {checkpoint.name.value}"
        f" weights, which have neither: copy them from {published}."
    )


def is_local(uri: str) -> bool:
    """Whether nothing has to be downloaded."""
    return uri.partition("://")[0] in LOCAL_SCHEMES


def takes_room(asked: Weights) -> bool:
    """Whether the weights are downloaded to the pod's own storage."""
    return asked.cache_claim is None and not is_local(asked.uri or "")


def downloaded(asked: Weights, checkpoint: Checkpoint) -> int:
    """Bytes that a download takes of the pod's own storage."""
    return download_room(checkpoint.bytes) if takes_room(asked) else 0


def cache_key(uri: str, revision: str, config: str = "") -> str:
    """The name of a folder of the cache: readable, and another one for another URI, revision, or
    source of config and tokenizer."""
    named = "\0".join((uri, revision, config) if config else (uri, revision))
    digest = hashlib.sha256(named.encode()).hexdigest()[:_DIGEST_LENGTH]
    shown = uri.replace("://", "-") + (f"@{revision[:12]}" if revision else "")
    plain = re.sub(r"[^A-Za-z0-9.@]+", "-", shown).strip("-.")[:_KEY_LENGTH]
    return f"{plain}-{digest}"
