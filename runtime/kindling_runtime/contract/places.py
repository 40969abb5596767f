"""Where operator, kubelet, engine and runtime meet: ports, paths, variables, and fixed times."""

from typing import Final

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

POD_VARIABLE: Final = "KINDLING_POD_UID"
"""The pod's uid: by it a fetch that starts again knows what it left behind."""
CACHE_LIMIT_VARIABLE: Final = "KINDLING_CACHE_MAX_BYTES"
"""Bytes that the cache may hold when a fetch makes room; absent or "" for all that the volume has.
Of the moment in which the container starts, not of the plan: a change of it restarts nothing."""
TOKEN_VARIABLE: Final = "HF_TOKEN"
"""The access token of an hf:// repository, taken from a Secret; huggingface_hub reads the same."""

PLAN_PATH: Final = "/etc/kindling/plan.json"
SHARED_MEMORY_PATH: Final = "/dev/shm"
TERMINATION_LOG_PATH: Final = "/dev/termination-log"
TERMINATION_MESSAGE_BYTES: Final = 4096
"""The kubelet cuts a container's termination message here (Container.terminationMessagePath)."""

FRONT: Final = "kindling_runtime.front.asgi.Front"
"""What `vllm serve --middleware` takes: lists the routes that are served, counts, refuses."""
FRONT_ARGUMENT: Final = f"--middleware={FRONT}"

CUT_SECONDS: Final = 1
"""How long the front has to tell the clients of what it cuts."""
KILL_SECONDS: Final = 5
"""How long the runtime waits for the kernel after SIGKILL before it leaves without the engine."""
EXIT_MARGIN_SECONDS: Final = 5
"""Room in the pod's grace period for signals, logs and the runtime's own exit."""

KILLED: Final = "was killed by"
"""In the last words of an engine that died of a signal; those of a rank that lost it lack it."""
