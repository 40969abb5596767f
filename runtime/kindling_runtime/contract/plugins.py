"""What is told of the corrections that the image makes to vLLM."""

import enum

import msgspec


class PluginState(enum.StrEnum):
    """Whether a correction is in place."""

    ON = "On"
    """In every process of the engine that has loaded it."""
    OFF = "Off"
    """vLLM runs as it was published, in one process of the engine at least."""
    PENDING = "Pending"
    """No process of the engine has come to it."""


class PluginStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One correction of vLLM; `why` is one sentence for people, without a full stop."""

    name: str
    state: PluginState
    why: str
