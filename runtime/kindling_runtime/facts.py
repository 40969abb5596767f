"""Everything that can be told about a running pod, read at one moment."""

import dataclasses

from kindling_runtime.contract import (
    CacheStatus,
    Checked,
    EngineFacts,
    GroupStatus,
    PluginStatus,
    Traffic,
)
from kindling_runtime.state import State


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A snapshot. Moments are on the monotonic clock, `*_seconds` count from process start."""

    version: str
    state: State
    deadline: float | None
    engine_pid: int | None
    engine_started: float | None
    engine_launch_seconds: float | None
    first_token_seconds: float | None
    canaries: int
    orphans: int
    leftover_bytes: int
    group: GroupStatus | None = None
    traffic: Traffic | None = None
    plugins: tuple[PluginStatus, ...] = ()
    loaded_bytes: int | None = None
    engine: EngineFacts | None = None
    preflight: tuple[Checked, ...] = ()
    cache: CacheStatus | None = None
