"""What the operator and the runtime of a serving pod say to each other.

The operator renders a `LaunchPlan` into the pod as JSON and the runtime obeys it; the runtime
answers `GET /status` with a `Status`. Both sides import this module and nothing else of each other,
so it does no I/O and needs only msgspec.

The plan's JSON is canonical (sorted keys, every field written): equal plans are equal bytes. Any
change of its shape raises `CONTRACT_VERSION`: a runtime that reads another version, or a field that
it does not know, refuses with one sentence instead of guessing.

Units: every duration is in whole seconds, every KV size in vLLM's own blocks or tokens.
"""

import enum
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

CONTRACT_VERSION: Final = 2

BIND_HOST: Final = "0.0.0.0"
"""Where engine and runtime listen: the kubelet and Services reach a pod by its address."""
ENGINE_PORT: Final = 8000
"""Where vLLM serves the OpenAI API in the pod (container port name `http`)."""
RUNTIME_PORT: Final = 9400
"""Where the runtime serves its own endpoints (container port name `runtime`)."""
GROUP_PORT: Final = 9401
"""Where a leader's runtime hears the others of its group; nobody else may reach it."""

STATUS_PATH: Final = "/status"
STARTED_PATH: Final = "/startupz"
"""Answers once the start is over, not before: a question takes as long as the start does."""
READY_PATH: Final = "/readyz"
LIVE_PATH: Final = "/livez"
METRICS_PATH: Final = "/metrics"
MODELS_PATH: Final = "/v1/models"
"""Where the engine lists its models, on its own port: what the operator asks through the Service
to learn which pod answers. The runtime asks for tokens instead."""

LEADER_VARIABLE: Final = "LWS_LEADER_ADDRESS"
RANK_VARIABLE: Final = "LWS_WORKER_INDEX"
"""What LeaderWorkerSet v0.8 tells each container (api/leaderworkerset/v1)."""
LEADER_PLACEHOLDER: Final = "{leader}"
"""Stands for the leader's address in the arguments of a rank."""

PLAN_PATH: Final = "/etc/kindling/plan.json"
SHARED_MEMORY_PATH: Final = "/dev/shm"
TERMINATION_LOG_PATH: Final = "/dev/termination-log"
TERMINATION_MESSAGE_BYTES: Final = 4096
"""The kubelet cuts a container's termination message here (Container.terminationMessagePath)."""

KILL_SECONDS: Final = 5
"""How long the runtime waits for the kernel after SIGKILL before it leaves without the engine."""
EXIT_MARGIN_SECONDS: Final = 5
"""Room in the pod's grace period for signals, logs and the runtime's own exit."""


class ExitCode(enum.IntEnum):
    """What the exit status of `kindling-runtime` means; 64, 70 and 78 as in sysexits.h."""

    CLEAN = 0
    CONTRACT = 64
    ENGINE = 70
    PREFLIGHT = 78


class Phase(enum.StrEnum):
    """Where the pod is in its life. Never an input to the operator's decisions: read `ready`."""

    STARTING = "Starting"
    """Preflight checks run, or the group gathers; there is no engine yet."""
    LOADING = "Loading"
    """The engine runs and has not generated a token."""
    READY = "Ready"
    """A token was generated, and the evidence for it is fresh."""
    STALLED = "Stalled"
    """It was ready, and several looks in a row found no sign of a token."""
    DRAINING = "Draining"
    """It was told to leave; nothing leads back from here."""
    STOPPED = "Stopped"
    FAILED = "Failed"


class Reason(enum.StrEnum):
    """Why the pod is in its phase."""

    PREFLIGHT = "Preflight"
    GATHERING = "Gathering"
    ENGINE_STARTED = "EngineStarted"
    TOKEN_GENERATED = "TokenGenerated"
    LEADER_ANSWERS = "LeaderAnswers"
    NO_TOKEN = "NoToken"
    TERMINATION_REQUESTED = "TerminationRequested"
    DRAINED = "Drained"
    STOPPED_WHILE_LOADING = "StoppedWhileLoading"
    CONTRACT_REFUSED = "ContractRefused"
    PREFLIGHT_FAILED = "PreflightFailed"
    WEIGHTS_INCOMPLETE = "WeightsIncomplete"
    ENGINE_EXITED = "EngineExited"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    GROUP_BROKEN = "GroupBroken"
    WEDGED = "Wedged"
    DRAIN_DEADLINE_EXCEEDED = "DrainDeadlineExceeded"
    RUNTIME_FAILED = "RuntimeFailed"


class DrainStep(enum.StrEnum):
    """What a draining pod waits for."""

    ENDPOINTS = "Endpoints"
    """Endpoints that still name the pod; the engine takes requests as before."""
    LEADER = "Leader"
    """The leader, whose streams need this engine too."""
    STREAMS = "Streams"
    """The engine was told to stop and finishes what it has."""
    KILL = "Kill"
    """The engine overran its time and was killed."""


class EvidenceSource(enum.StrEnum):
    """How the last token was seen."""

    CANARY = "Canary"
    """The runtime asked for one."""
    COUNTERS = "Counters"
    """The engine's own counters moved: clients are being served."""
    LEADER = "Leader"
    """The leader of the group answers, and has not lost this engine."""


class ContractError(ValueError):
    """A launch plan that cannot be obeyed; the text is one sentence for people."""


_Shape = TypeVar("_Shape", bound=msgspec.Struct)

Seconds = Annotated[int, Meta(ge=1, le=7 * 86_400)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Uri = Annotated[str, Meta(min_length=1, max_length=512)]
Text = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]
AbsolutePath = Annotated[str, Meta(pattern=r"\A/[^\x00]*\Z", max_length=4096)]
RelativePath = Annotated[str, Meta(pattern=r"\A[^/\x00][^\x00]*\Z", max_length=1024)]
VariableName = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z")]
Count = Annotated[int, Meta(ge=0)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One object of the contract: immutable, by keyword only, camelCase in JSON."""


class Model(_Part, frozen=True, kw_only=True):
    """Which model the pod serves: its catalog `name` and the name that clients ask for."""

    name: Name
    served_name: Name


class Weights(_Part, frozen=True, kw_only=True):
    """Where the weights come from, and the folder in which the container sees them."""

    uri: Uri
    path: AbsolutePath


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

    `startup_seconds` runs from process start to the first token; the engine has failed after it.
    `token_seconds` is the deadline of one one-token generation. `interval_seconds` is how often a
    ready engine's evidence is renewed; a request is only sent when its own counters did not move.
    `unready_failures` misses in a row end readiness; `wedged_seconds` after them `/livez` fails.
    """

    startup_seconds: Seconds
    token_seconds: Seconds = 30
    interval_seconds: Seconds = 15
    unready_failures: Annotated[int, Meta(ge=1, le=100)] = 2
    wedged_seconds: Seconds = 60


class Drain(_Part, frozen=True, kw_only=True):
    """How the pod leaves, from SIGTERM on.

    `endpoint_seconds` pass between the end of readiness and the engine's SIGTERM, so that no
    endpoint sends new requests to an engine that refuses them. `stream_seconds` is what running
    streams get. `grace_seconds` is what the engine gets to exit after them; then SIGKILL.
    vLLM 0.32 on CPU needed 10.3 s and 14.0 s after the last stream, so plan at least 20.
    """

    endpoint_seconds: Annotated[int, Meta(ge=0, le=3600)]
    stream_seconds: Seconds
    grace_seconds: Seconds


class Expected(_Part, frozen=True, kw_only=True):
    """Numbers that the planner computed and the engine's own must equal; null where unplanned."""

    kv_blocks: Count | None = None
    kv_tokens: Count | None = None
    max_model_len: Count | None = None


class Requires(_Part, frozen=True, kw_only=True):
    """What must be in the weights folder before the engine is started; paths relative to it."""

    files: tuple[RelativePath, ...] = ("config.json",)


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
    """One pod's orders; `group` is None where the pod is a replica of its own."""

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


class _Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object of a report. Unlike in a plan, unknown fields pass: a report orders nothing."""


class EngineStatus(_Report, frozen=True, kw_only=True):
    """The engine process; `started_at` in RFC 3339."""

    pid: int | None
    started_at: str | None


class Evidence(_Report, frozen=True, kw_only=True):
    """What is known about tokens.

    `first_token_seconds` is counted from process start, `last_token_at` is RFC 3339. `canaries`
    counts the runtime's own attempts at a request, most of which are refused connections while the
    engine loads; `misses` counts the looks in a row that found no token, and `last_miss` says what
    the engine did instead, the last time.
    """

    first_token_seconds: float | None
    last_token_at: str | None
    source: EvidenceSource | None
    canaries: int
    misses: int
    last_miss: str | None


class GroupStatus(_Report, frozen=True, kw_only=True):
    """The pod's place in its group; `met` once all were there together."""

    rank: int
    size: int
    met: bool


class Status(_Report, frozen=True, kw_only=True):
    """The answer of `GET /status`.

    `since` is when the phase began, `deadline` when time alone ends it or the present step of the
    drain (both RFC 3339); a ready engine has a deadline while it shows no token. `models_answers`
    counts the engine's answers at MODELS_PATH since its start, null where it does not tell.
    """

    contract_version: int
    runtime_version: str
    phase: Phase
    since: str
    deadline: str | None
    reason: Reason
    message: str
    ready: bool
    alive: bool
    model: Model
    engine: EngineStatus
    evidence: Evidence
    drain: DrainStep | None
    expected: Expected
    models_answers: int | None = None
    group: GroupStatus | None = None


def termination_grace_seconds(drain: Drain) -> int:
    """The pod's `terminationGracePeriodSeconds`: every wait of a drain, one after the other."""
    waits = drain.endpoint_seconds + drain.stream_seconds + drain.grace_seconds
    return waits + KILL_SECONDS + EXIT_MARGIN_SECONDS


def startup_timeout_seconds(plan: LaunchPlan) -> int:
    """How long STARTED_PATH may keep a question at most: the start's own deadlines, then the end of
    an engine that missed them. Who asks with this patience hears of a start only how it ended.
    """
    gather = plan.group.gather_seconds if plan.group is not None else 0
    ends = plan.drain.grace_seconds + KILL_SECONDS + EXIT_MARGIN_SECONDS
    return gather + plan.probe.startup_seconds + ends


def last_words(reason: Reason, sentence: str) -> str:
    """The termination message: for `kubectl describe`, and for the operator to read back."""
    return f"{reason}: {sentence}"


def read_last_words(message: str) -> tuple[Reason | None, str]:
    """Reason and sentence of a termination message; no reason in one that is not the runtime's."""
    word, colon, sentence = message.partition(": ")
    known = bool(colon) and word in set(Reason)
    return (Reason(word), sentence) if known else (None, message)


def encode(plan: LaunchPlan) -> bytes:
    """The canonical JSON of `plan`.

    Raises ContractError for a plan that `decode` would refuse: a struct checks nothing when it is
    built in code, and a bad plan must fail at its author, not in a pod.
    """
    data = msgspec.json.encode(plan, order="sorted")
    decode(data)
    return data


def decode(data: bytes) -> LaunchPlan:
    """The plan in `data`; raises ContractError when it is not one of this version."""
    # The version is read first and alone: of another version nothing else may be assumed.
    found = _parse(data, _Versioned).version
    if found != CONTRACT_VERSION:
        raise ContractError(
            f"the launch plan has contract version {found}, this runtime speaks version "
            f"{CONTRACT_VERSION}; use the runtime image of the operator's own release"
        )
    return _parse(data, LaunchPlan)


class _Versioned(msgspec.Struct):
    version: int


def _parse(data: bytes, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as error:
        what, where = _located(str(error))
        raise ContractError(
            f"the launch plan is wrong at {where}: {what}; use the runtime image of the "
            f"operator's own release (contract version {CONTRACT_VERSION})"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContractError(
            f"the launch plan is not JSON: {_one_line(str(error))}; have the operator render it"
        ) from None


def _located(problem: str) -> tuple[str, str]:
    """Split msgspec's "Expected `int`, got `str` - at `$.drain`" into what and where."""
    what, _, where = problem.partition(" - at ")
    path = where.replace("`", "").replace("$.", "").replace("$", "") or "its top level"
    return _one_line(what[:1].lower() + what[1:]), path


def _one_line(text: str) -> str:
    return " ".join(text.split())
