"""The words of a serving pod's life."""

import enum


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
    DOWNLOADING = "Downloading"
    """Weights are fetched, by this pod or by another one that it waits for; no engine yet."""
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
    LISTING = "Listing"
    DOWNLOADING = "Downloading"
    WAITING_FOR_DOWNLOAD = "WaitingForDownload"
    WEIGHTS_READY = "WeightsReady"
    STORE_REFUSED = "StoreRefused"
    STORE_STALLED = "StoreStalled"
    CACHE_FULL = "CacheFull"
    CHECKSUM_MISMATCH = "ChecksumMismatch"
    ENGINE_EXITED = "EngineExited"
    OUT_OF_MEMORY = "OutOfMemory"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    GROUP_BROKEN = "GroupBroken"
    STUCK = "Stuck"
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
    """Running streams finish, and new requests are refused where a front can do that."""
    EXIT = "Exit"
    """The engine, with nothing left to do, was told to stop."""
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
