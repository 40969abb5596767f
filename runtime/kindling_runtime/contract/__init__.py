"""What the operator and the runtime of a serving pod say to each other.

The operator renders a `LaunchPlan` into the pod as JSON and the runtime obeys it; the runtime
answers `GET /status` with a `Status`. Both sides import this module and nothing else of each other,
so it does no I/O and needs only msgspec.

The plan's JSON is canonical (sorted keys, every field written): equal plans are equal bytes. Any
change of its shape raises `CONTRACT_VERSION`: a runtime that reads another version, or a field that
it does not know, refuses with one sentence instead of guessing.

Units: every duration is in whole seconds, every KV size in vLLM's own blocks or tokens.
"""

from kindling_runtime.contract.codec import ContractError, decode, encode
from kindling_runtime.contract.phases import DrainStep, EvidenceSource, ExitCode, Phase, Reason
from kindling_runtime.contract.places import (
    BIND_HOST,
    ENGINE_PORT,
    EXIT_MARGIN_SECONDS,
    GROUP_PORT,
    KILL_SECONDS,
    LEADER_PLACEHOLDER,
    LEADER_VARIABLE,
    LIVE_PATH,
    METRICS_PATH,
    MODELS_PATH,
    PLAN_PATH,
    RANK_VARIABLE,
    READY_PATH,
    RUNTIME_PORT,
    SHARED_MEMORY_PATH,
    STARTED_PATH,
    STATUS_PATH,
    TERMINATION_LOG_PATH,
    TERMINATION_MESSAGE_BYTES,
)
from kindling_runtime.contract.plan import (
    CONTRACT_VERSION,
    Drain,
    Engine,
    Expected,
    Group,
    LaunchPlan,
    Model,
    Probe,
    Rank,
    Requires,
    Weights,
    startup_timeout_seconds,
    termination_grace_seconds,
)
from kindling_runtime.contract.status import (
    EngineFacts,
    EngineStatus,
    Evidence,
    GroupBackend,
    GroupStatus,
    MemoryUse,
    Status,
    last_words,
    read_last_words,
)

__all__ = [
    "BIND_HOST",
    "CONTRACT_VERSION",
    "ENGINE_PORT",
    "EXIT_MARGIN_SECONDS",
    "GROUP_PORT",
    "KILL_SECONDS",
    "LEADER_PLACEHOLDER",
    "LEADER_VARIABLE",
    "LIVE_PATH",
    "METRICS_PATH",
    "MODELS_PATH",
    "PLAN_PATH",
    "RANK_VARIABLE",
    "READY_PATH",
    "RUNTIME_PORT",
    "SHARED_MEMORY_PATH",
    "STARTED_PATH",
    "STATUS_PATH",
    "TERMINATION_LOG_PATH",
    "TERMINATION_MESSAGE_BYTES",
    "ContractError",
    "Drain",
    "DrainStep",
    "Engine",
    "EngineFacts",
    "EngineStatus",
    "Evidence",
    "EvidenceSource",
    "ExitCode",
    "Expected",
    "Group",
    "GroupBackend",
    "GroupStatus",
    "LaunchPlan",
    "MemoryUse",
    "Model",
    "Phase",
    "Probe",
    "Rank",
    "Reason",
    "Requires",
    "Status",
    "Weights",
    "decode",
    "encode",
    "last_words",
    "read_last_words",
    "startup_timeout_seconds",
    "termination_grace_seconds",
]
