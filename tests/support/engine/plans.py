"""Launch plans for tests: everything has a default, so that a test names only what it is about."""

from pathlib import Path
from typing import Final

from kindling_runtime.contract import (
    ENGINE_PORT,
    RUNTIME_PORT,
    Drain,
    Engine,
    Front,
    LaunchPlan,
    Model,
    Probe,
    Weights,
)

ON_CPU: Final = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
"""The environment of a small vLLM on CPU."""


def launch_plan(
    folder: Path | str = "/models",
    *,
    argv: tuple[str, ...] = ("vllm", "serve", "/models"),
    env: dict[str, str] | None = None,
    port: int = ENGINE_PORT,
    runtime_port: int = RUNTIME_PORT,
    probe: Probe | None = None,
    drain: Drain | None = None,
    front: Front | None = None,
) -> LaunchPlan:
    """A plan for the model `tiny` in `folder`."""
    return LaunchPlan(
        model=Model(name="custom", served_name="tiny"),
        weights=Weights(uri="pvc://models/tiny", path=str(folder)),
        engine=Engine(argv=argv, env=env or {}, port=port),
        probe=probe or Probe(startup_seconds=600),
        drain=drain or Drain(endpoint_seconds=5, stream_seconds=30, grace_seconds=20),
        runtime_port=runtime_port,
        front=front,
    )
