"""The launch plan of a pod: the part of the engine plan that the runtime obeys."""

from kindling_operator.model.plan import EnginePlan, GpuPlan, GroupPlan
from kindling_operator.plan.kv import pool_is_fixed
from kindling_operator.render.fetching import launch_weights
from kindling_runtime import contract

_ENDPOINT_SECONDS = 5
"""Until every node has taken the pod out of the Service: one change of an EndpointSlice, and
kube-proxy's next sync."""
_LONGEST_ENDPOINT_SECONDS = 20
"""Where a front sees whether requests still come, those that are slower are waited for."""
_GRACE_SECONDS = 30
"""vLLM 0.32 needed up to 14 s after its last stream to end."""
_LOOK_SECONDS = 5
"""Between two looks at an engine that is ready: 3 ms of CPU per second where it is idle, a read of
its counters where it is not."""
_TOKEN_SECONDS = 10
"""For one token of an engine whose counters stand still: the first look without one is told of
within half a minute of what stopped the engine, operator and kubelet included."""
_GATHER_SECONDS = 3600
"""Until all pods of a group run: a node that pulls an image of 15 GB is the slowest among them."""
_TENSORS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
"""What vLLM loads from a folder by itself (vLLM 0.33.0, model_executor/model_loader)."""
_GGUF = ("*.gguf",)
_CONFIG_PATH = "--hf-config-path="
"""Given where the weights are a GGUF file, which brings no config."""


def launch_text(plan: EnginePlan) -> str:
    """The launch plan as canonical JSON."""
    return contract.encode(launch_plan(plan)).decode()


def launch_plan(plan: EnginePlan) -> contract.LaunchPlan:
    """The runtime's orders for the pods of one replica, all the same."""
    fixed = pool_is_fixed(plan)
    return contract.LaunchPlan(
        model=contract.Model(name=plan.model, served_name=plan.served_name),
        weights=launch_weights(plan),
        engine=contract.Engine(argv=plan.argv, env=plan.env),
        probe=contract.Probe(
            startup_seconds=plan.startup_seconds,
            interval_seconds=_LOOK_SECONDS,
            token_seconds=_TOKEN_SECONDS,
        ),
        drain=drain(plan),
        expected=contract.Expected(
            kv_blocks=plan.kv.blocks if fixed else None,
            kv_tokens=plan.kv.tokens if fixed else None,
            max_model_len=plan.context_length,
        ),
        requires=_requires(plan),
        group=_group(plan, plan.group) if plan.group is not None else None,
        front=_front(plan) if _has_front(plan) else None,
    )


def _requires(plan: EnginePlan) -> contract.Requires:
    """What the runtime checks before it starts the engine; a plan of an earlier release has no
    packages, and nothing to compare with GPUs but their number."""
    return contract.Requires(
        tensors=_GGUF if any(each.startswith(_CONFIG_PATH) for each in plan.argv) else _TENSORS,
        packages=tuple(_package(each) for each in plan.packages),
        memory=plan.pod.memory,
        shared_memory=plan.pod.shared_memory,
        device=_device(plan.gpu),
    )


def _package(text: str) -> contract.Package:
    name, _, version = text.partition("==")
    return contract.Package(name=name, version=version)


def _device(gpu: GpuPlan | None) -> contract.Device | None:
    if gpu is None or not gpu.capability:
        return None
    return contract.Device(
        product=gpu.product,
        count=gpu.count,
        memory=gpu.memory,
        capability=gpu.capability,
        driver=gpu.driver,
    )


def _has_front(plan: EnginePlan) -> bool:
    """A plan of an earlier release may have none."""
    return contract.FRONT_ARGUMENT in plan.argv


def _front(plan: EnginePlan) -> contract.Front:
    """vLLM 0.33.0 starts a server for each data-parallel rank of the pod (entrypoints/cli/serve.py,
    `api_server_count`), and the planner lets nobody choose another number."""
    data = plan.parallelism.data
    pods = plan.group.size if plan.group is not None and data > 1 else 1
    return contract.Front(servers=data // pods, settle_seconds=_ENDPOINT_SECONDS)


def _group(plan: EnginePlan, group: GroupPlan) -> contract.Group:
    fetch = plan.weights.fetch
    return contract.Group(
        ranks=tuple(
            contract.Rank(argv=arguments, serves=serves)
            for arguments, serves in zip(group.rank_arguments, group.serving, strict=True)
        ),
        # Pods that find the weights in the cache wait for one that has to download them.
        gather_seconds=_GATHER_SECONDS + (fetch.seconds if fetch is not None else 0),
    )


def drain(plan: EnginePlan) -> contract.Drain:
    """How a pod leaves; the pod's grace period is computed from the same numbers."""
    return contract.Drain(
        endpoint_seconds=_LONGEST_ENDPOINT_SECONDS if _has_front(plan) else _ENDPOINT_SECONDS,
        stream_seconds=plan.drain_seconds,
        grace_seconds=_GRACE_SECONDS,
    )
