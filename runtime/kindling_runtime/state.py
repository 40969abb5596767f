"""What is known of a serving pod, and what can happen to it: the values of `lifecycle`."""

import dataclasses
import enum

from kindling_runtime.contract import DrainStep, EvidenceSource, ExitCode, Phase, Reason


class Order(enum.IntEnum):
    """What must have been done to the engine; it only ever rises."""

    RUN = 0
    CLOSE = 1
    """The front closes connections after each answer. This and the next two: as in front/board."""
    REFUSE = 2
    CUT = 3
    TERMINATE = 4
    KILL = 5
    LEAVE = 6
    """The kernel did not end it either: exit without it."""


class EngineState(enum.Enum):
    """What is known of the engine process."""

    ABSENT = enum.auto()
    RUNNING = enum.auto()
    GONE = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class EngineStarted:
    """The engine process exists."""

    pid: int


@dataclasses.dataclass(frozen=True, slots=True)
class PreflightFailed:
    """The pod cannot serve as it is; `problem` is one sentence."""

    problem: str
    reason: Reason = Reason.PREFLIGHT_FAILED


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """The engine generated."""

    source: EvidenceSource


@dataclasses.dataclass(frozen=True, slots=True)
class Miss:
    """A look for a token found none; `why` is a clause without a full stop."""

    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class Worked:
    """A loading engine did something: it `moved` on, or only computed."""

    moved: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Idle:
    """A loading engine has done nothing at all for so many seconds; of a group, no engine has for
    `stuck_seconds`, and that of `pod` for longest."""

    seconds: int
    pod: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class EngineExited:
    """The engine is gone. `how` completes "the engine ..."; `clean` as after a wanted SIGTERM.
    `cut` counts the requests that were cut since the drain began, those that it was at included.
    `starved` if the kernel ended a process of it at the container's memory limit."""

    how: str
    clean: bool
    cut: int = 0
    starved: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class GroupBroken:
    """Another engine of the group is gone; `why` is one sentence without a full stop."""

    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class Requests:
    """What the front counts while the pod drains: how many run, for how long no new one has come,
    and how many have been cut since the drain began. Once none runs, `untaken` are the answers that
    their clients have not taken all of yet; `left` counts the clients that went since new requests
    are refused."""

    active: int
    quiet_seconds: float
    cut: int
    untaken: int = 0
    left: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Paused:
    """The runtime itself stood still for so many seconds: stopped, frozen, or on a machine that
    was. Nothing was looked at meanwhile."""

    seconds: float


class Signal(enum.Enum):
    """Events that carry nothing."""

    TERMINATE = enum.auto()
    """SIGTERM came."""
    GATHERING = enum.auto()
    """The pod could serve, and waits for the others of its group."""
    GATHERED = enum.auto()
    """All pods of the group are there and wait."""
    UNCOUNTED = enum.auto()
    """The front does not tell what runs."""
    LEADER_GONE = enum.auto()
    """Nobody needs this engine any more."""
    TICK = enum.auto()
    """Time passed."""


Event = (
    EngineStarted
    | PreflightFailed
    | Worked
    | Idle
    | Token
    | Miss
    | EngineExited
    | GroupBroken
    | Requests
    | Paused
    | Signal
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where the pod stands. Times are seconds of the injected clock."""

    phase: Phase
    reason: Reason
    message: str
    since: float
    order: Order = Order.RUN
    engine: EngineState = EngineState.ABSENT
    gathered: float | None = None
    moved: float | None = None
    """When the loading engine last read or wrote something."""
    first_token: float | None = None
    last_token: float | None = None
    source: EvidenceSource | None = None
    misses: int = 0
    missing_since: float | None = None
    last_miss: str | None = None
    step: DrainStep | None = None
    step_since: float = 0.0
    running: int | None = None
    """Requests that ran when new ones began to be refused; None before, and without a front."""
    cut: int = 0
    left: int = 0
    """Of those `running`, whose clients went before the end."""
    cut_after: int | None = None
    """Seconds after which what still ran was cut; None where that was not ordered."""

    @property
    def ready(self) -> bool:
        """Whether clients may be sent here."""
        return self.phase is Phase.READY

    @property
    def started(self) -> bool:
        """Whether a token was ever generated."""
        return self.first_token is not None

    @property
    def alive(self) -> bool:
        """Whether a restart would not help."""
        return self.phase is not Phase.FAILED

    @property
    def finished(self) -> bool:
        """Whether the runtime has nothing left to do but exit."""
        over = self.phase in {Phase.STOPPED, Phase.FAILED}
        return over and (self.engine is not EngineState.RUNNING or self.order is Order.LEAVE)

    @property
    def refused(self) -> bool:
        """Whether the pod cannot run its plan, so that no engine was started."""
        early = self.reason in {Reason.PREFLIGHT_FAILED, Reason.WEIGHTS_INCOMPLETE}
        return self.phase is Phase.FAILED and early

    @property
    def exit_code(self) -> ExitCode:
        """The runtime's exit status; meaningful once finished."""
        if self.phase is not Phase.FAILED:
            return ExitCode.CLEAN
        return ExitCode.PREFLIGHT if self.refused else ExitCode.ENGINE
