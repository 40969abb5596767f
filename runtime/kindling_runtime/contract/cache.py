"""What is told of the object-store tier of the KV cache."""

import enum

import msgspec


class CacheReason(enum.StrEnum):
    """Why the tier is in use or is not; those of the condition CacheReady that a pod can tell."""

    IN_USE = "TiersInUse"
    UNPROVEN = "Unproven"
    """The store has not been heard yet."""
    UNREACHABLE = "StoreUnreachable"
    REFUSED = "StoreRefuses"
    """The store, or what gives credentials for it, refuses the pod's identity."""
    BREAKER_OPEN = "BreakerOpen"
    DOES_NOT_PAY = "DoesNotPay"
    BROKEN = "Broken"
    """The tier itself does not run: its settings, or a fault of its own."""


class CacheStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tier of one pod; `message` is one sentence for people, without a full stop.

    Requests are served whether it is `ready` or not. Counts are since the engine's start: tokens of
    prompts that were looked for, and those of them that were found; bytes that were read and
    written. Below `pays_from` tokens a prompt is computed again because that is quicker; 0 while
    that is not known, null where a load never pays.
    """

    ready: bool
    reason: CacheReason
    message: str
    prompt_tokens: int = 0
    hit_tokens: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0
    pays_from: int | None = 0
