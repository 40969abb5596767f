"""What the operator orders: the launch plan.

Units: every duration is in whole seconds, every KV size in vLLM's own blocks or tokens.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kindling_runtime.contract.places import (
    CUT_SECONDS,
    ENGINE_PORT,
    EXIT_MARGIN_SECONDS,
    GROUP_PORT,
    KILL_SECONDS,
    RUNTIME_PORT,
)

CONTRACT_VERSION: Final = 3

Seconds = Annotated[int, Meta(ge=1, le=7 * 86_400)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Uri = Annotated[str, Meta(min_length=1, max_length=512)]
Text = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]
AbsolutePath = Annotated[str, Meta(pattern=r"\A/[^\x00]*\Z", max_length=4096)]
RelativePath = Annotated[
    str, Meta(pattern=r"\A(?!/)(?!(?s:.*/)?\.{1,2}(/|\Z))[^\x00]+\Z", max_length=1024)
]
VariableName = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z")]
Count = Annotated[int, Meta(ge=0)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One object of the contract: immutable, by keyword only, camelCase in JSON."""


class Model(_Part, frozen=True, kw_only=True):
    """Which model the pod serves: its catalog `name` and the name that clients ask for."""

    name: Name
    served_name: Name


class Fetch(_Part, frozen=True, kw_only=True):
    """What `kindling-runtime fetch` does before the engine's container starts.

    `volume` is the folder of the cache as the fetching container sees it, and `key` the name under
    which the weights stand in it, "" where they are on a volume of their own and nothing is
    fetched. `revision` is the commit of an hf:// repository, "" for its default branch. From
    `config_uri`, if there is one, come config and tokenizer files that the weights' own source does
    not have. `kernels` is the folder, relative to the volume, in which the engine keeps what it
    compiles, "" for none. `shared` tells whether other pods use the volume too. With `budget_bytes`
    the cache holds no more than that, unless CACHE_LIMIT_VARIABLE says another limit; without
    either as much as the volume does. `bytes` is what the checkpoint should have, 0 where nobody
    knows. The fetch has failed after `stall_seconds` at less than 1 KiB/s.
    """

    volume: AbsolutePath
    key: Annotated[str, Meta(pattern=r"\A(?!\.)[A-Za-z0-9._@-]{0,128}\Z")] = ""
    revision: Annotated[str, Meta(max_length=512)] = ""
    config_uri: Uri | None = None
    kernels: Annotated[
        str, Meta(pattern=r"\A(?!/)(?!(?s:.*/)?\.{1,2}(/|\Z))[A-Za-z0-9._@/-]{0,256}\Z")
    ] = ""
    shared: bool = False
    budget_bytes: Count | None = None
    bytes: Count = 0
    stall_seconds: Seconds = 300


class Weights(_Part, frozen=True, kw_only=True):
    """Where the weights come from, and the folder in which the engine's container sees them.

    `fetch` is None where nothing is to be done before the engine starts. While the engine runs, the
    runtime keeps the mark of its use in the folder `use` alive: what a pod uses is not evicted.
    """

    uri: Uri
    path: AbsolutePath
    fetch: Fetch | None = None
    use: AbsolutePath | None = None


class Engine(_Part, frozen=True, kw_only=True):
    """The engine process.

    `argv` is the complete command; it binds `port` and carries `--shutdown-timeout` equal to
    `Drain.stream_seconds`. `env` is laid over the container's environment and holds no secret:
    secrets reach the engine as container variables taken from a Secret, never through this file.
    """

    argv: Annotated[tuple[Text, ...], Meta(min_length=1)]
    env: dict[VariableName, Text] = {}
    port: Port = ENGINE_PORT


class Probe(_Part, frozen=True, kw_only=True):
    """How the runtime proves that the engine generates.

    `startup_seconds` runs from process start to the first token; after it the engine has failed
    once it has neither read nor written for `stuck_seconds`. As long without computing either end a
    load at any time.
    `token_seconds` is the deadline of one one-token generation, and of the next token where
    requests run. `interval_seconds` is how often a ready engine's evidence is renewed; a request is
    only sent when none runs or waits and its own counters did not move.
    `unready_failures` misses in a row end readiness; `wedged_seconds` after them `/livez` fails.
    """

    startup_seconds: Seconds
    token_seconds: Seconds = 30
    interval_seconds: Seconds = 15
    unready_failures: Annotated[int, Meta(ge=1, le=100)] = 2
    wedged_seconds: Seconds = 60
    stuck_seconds: Seconds = 60


class Drain(_Part, frozen=True, kw_only=True):
    """How the pod leaves, from SIGTERM on.

    `endpoint_seconds` is what endpoints get to let go of the pod after the end of its readiness:
    at most with a front, which sees when they have, all of it without. `stream_seconds` is what
    running streams get. `grace_seconds` is what the engine gets to exit after them; then SIGKILL.
    vLLM 0.32 on CPU needed 10.3 s and 14.0 s after the last stream, so plan at least 20.
    """

    endpoint_seconds: Annotated[int, Meta(ge=0, le=3600)]
    stream_seconds: Seconds
    grace_seconds: Seconds


class Front(_Part, frozen=True, kw_only=True):
    """The engine's HTTP server has our front (`Engine.argv` names it), which lists what is served,
    counts what runs, and refuses new requests while the pod leaves.

    Endpoints have let go of the pod once no new request has come for `quiet_seconds`, and not
    before `settle_seconds` are over: a pod that nobody asks is quiet all the time. The pod's engine
    has so many `servers` (processes), each with counts of its own; where those of one are missing,
    none are believed.
    """

    servers: Annotated[int, Meta(ge=1)] = 1
    quiet_seconds: Seconds = 3
    settle_seconds: Annotated[int, Meta(ge=0, le=3600)] = 5


class Expected(_Part, frozen=True, kw_only=True):
    """Numbers that the planner computed and the engine's own must equal; null where unplanned."""

    kv_blocks: Count | None = None
    kv_tokens: Count | None = None
    max_model_len: Count | None = None


class Device(_Part, frozen=True, kw_only=True):
    """The GPUs that each pod has: `count` of `product` (as nvidia.com/gpu.product) with at least
    `memory` bytes, of compute `capability` (9.0), under a `driver` of that version or later; ""
    where it does not matter."""

    product: Name
    count: Annotated[int, Meta(ge=1)]
    memory: Count
    capability: Text = ""
    driver: Text = ""


class Package(_Part, frozen=True, kw_only=True):
    """A Python distribution that the image must have, in this version; any where it is ""."""

    name: Name
    version: Text = ""


class Requires(_Part, frozen=True, kw_only=True):
    """What must be there before the engine is started: `files` in the weights folder, relative to
    it, and one at least that fits one of the patterns `tensors` (none: any), `packages` in the
    image, the container's memory limit and its /dev/shm of at least so many bytes (0: any), and
    the GPUs."""

    files: tuple[RelativePath, ...] = ("config.json",)
    tensors: tuple[RelativePath, ...] = ()
    packages: tuple[Package, ...] = ()
    memory: Count = 0
    shared_memory: Count = 0
    device: Device | None = None


class Rank(_Part, frozen=True, kw_only=True):
    """One pod of a group: `argv` follows the engine's own, with the leader's address in the place
    of LEADER_PLACEHOLDER; `serves` tells whether its engine answers HTTP."""

    argv: tuple[Text, ...] = ()
    serves: bool


class Group(_Part, frozen=True, kw_only=True):
    """A replica of several pods, each with the same plan; which of `ranks` a pod is, and who leads
    (rank 0), LeaderWorkerSet tells it.

    No engine starts before all pods are there and wait, at most `gather_seconds`; the time of
    `Probe.startup_seconds` begins then. An engine that lost another of its group is given up, and
    the group gathers anew.
    """

    ranks: Annotated[tuple[Rank, ...], Meta(min_length=2)]
    port: Port = GROUP_PORT
    gather_seconds: Seconds = 3600


class LaunchPlan(_Part, frozen=True, kw_only=True):
    """One pod's orders; `group` is None where the pod is a replica of its own, `front` where the
    engine's HTTP server is reached as it is."""

    version: int = CONTRACT_VERSION
    model: Model
    weights: Weights
    engine: Engine
    probe: Probe
    drain: Drain
    runtime_port: Port = RUNTIME_PORT
    expected: Expected = Expected()
    requires: Requires = Requires()
    group: Group | None = None
    front: Front | None = None


def termination_grace_seconds(drain: Drain) -> int:
    """The pod's `terminationGracePeriodSeconds`: every wait of a drain, one after the other."""
    waits = drain.endpoint_seconds + drain.stream_seconds + drain.grace_seconds
    return waits + CUT_SECONDS + KILL_SECONDS + EXIT_MARGIN_SECONDS


def startup_timeout_seconds(plan: LaunchPlan) -> int:
    """How long STARTED_PATH may keep a question at most: the start's own deadlines, then the end of
    an engine that missed them. Who asks with this patience hears of a start only how it ended.
    """
    gather = plan.group.gather_seconds if plan.group is not None else 0
    ends = plan.drain.grace_seconds + KILL_SECONDS + EXIT_MARGIN_SECONDS
    return gather + plan.probe.startup_seconds + ends
