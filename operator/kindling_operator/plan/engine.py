"""From a chosen option to the complete plan of one replica."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from math import ceil
from typing import Any, Final

import msgspec

from kindling_operator.model.api_placement import Placement, Runtime
from kindling_operator.model.api_serving import Frontend
from kindling_operator.model.architecture import Device
from kindling_operator.model.layout import Layout
from kindling_operator.model.names import LABEL_ARCHITECTURE, LABEL_GPU_PRODUCT
from kindling_operator.model.objects import GpuShare
from kindling_operator.model.plan import (
    EnginePlan,
    GpuPlan,
    HostTierPlan,
    NodeRequirement,
    PodPlan,
)
from kindling_operator.model.quantities import duration_seconds
from kindling_operator.model.status import MAX_REJECTED, ParallelismStatus, RejectedOption
from kindling_operator.plan.argument import reasons, texts
from kindling_operator.plan.capabilities import (
    attention_backends,
    cpu_architectures,
    image_is_unknown,
    image_of,
    needs_of,
    runtime_for,
)
from kindling_operator.plan.command import engine_arguments, engine_env
from kindling_operator.plan.devices import GPU_TOLERATION, compute_capability
from kindling_operator.plan.media import allowed_domains
from kindling_operator.plan.memory import GIB, shared_memory, storage_items, total
from kindling_operator.plan.mounts import config_is_beside, downloaded, weights_of
from kindling_operator.plan.offload import host_tier, kv_layout_of
from kindling_operator.plan.ranks import group_plan, rank_arguments
from kindling_operator.plan.refusal import rejected
from kindling_operator.plan.requirements import node_requirements
from kindling_operator.plan.search import Option, Search, preference
from kindling_operator.plan.speed import engine_speed
from kindling_operator.plan.subject import Subject

SPLIT_KV_CORRECTION = "split-kv"
"""As the runtime calls it in its status."""
_STARTUP_SECONDS = 900
"""A start with nothing cached: 480 s of compiling were measured for Flint on one H200."""
_GROUP_SECONDS = 300
"""The pods of a group are made one after the other, and meet."""
_TIER_BYTES_PER_SECOND = GIB
"""A KV tier in host memory is touched page by page before the engine is ready: 64 GiB took 35 s
beside one H200, and other hosts are slower."""
_LOAD_BYTES_PER_SECOND = GIB // 5
"""A slow shared file system."""
_LONGEST_STARTUP = 6 * 86_400
"""Within what a launch plan may ask for."""


def engine_plan(subject: Subject, option: Option, found: Search) -> EnginePlan:
    """Everything that a replica of `option` runs; `found` gives the options not taken."""
    sizing = option.sizing
    weights = weights_of(subject.weights, option.checkpoint)
    drain = ceil(duration_seconds(subject.spec.rollout.drain_deadline))
    startup = _startup_seconds(option)
    tier = _tier(option)
    arguments = engine_arguments(subject, option, weights=weights, drain_seconds=drain, tier=tier)
    of_ranks = chain.from_iterable(rank_arguments(option.layout))
    return EnginePlan(
        summary=_summary(option),
        model=subject.entry.name,
        checkpoint=option.checkpoint.name.value,
        image=image_of(subject, Device.CPU if option.gpu is None else Device.GPU),
        served_name=subject.served_name,
        weights=weights,
        context_length=sizing.context,
        max_num_batched_tokens=sizing.batched_tokens,
        max_num_seqs=sizing.sequences,
        argv=texts(arguments),
        env=engine_env(subject, option),
        startup_seconds=startup,
        drain_seconds=drain,
        packages=_packages(subject, option),
        kv=sizing.kv,
        pod=_pod(subject, option),
        gpu=_gpu(subject, option),
        parallelism=_parallelism(option.layout),
        group=group_plan(option.layout),
        draft_tokens=option.draft,
        attention_backends=attention_backends(subject, option.gpu) if option.gpu else (),
        host_tier=tier,
        media_domains=allowed_domains(subject),
        speed=option.speed,
        why=_why(subject, option),
        reasons=reasons((*arguments, *of_ranks)),
        warning=option.warning,
        rejected=tuple(islice(_rejected(option, found), MAX_REJECTED)),
        rejected_total=len(found.options) - 1 + len(found.rejected),
    )


def _pod(subject: Subject, option: Option) -> PodPlan:
    runtime = subject.spec.runtime or Runtime()
    placement = subject.spec.placement or Placement()
    environment = subject.environment
    own = sorted(ref.name for ref in runtime.image_pull_secrets)
    secrets = (*environment.image_pull_secrets, *own)
    tolerations = (*placement.tolerations, *((GPU_TOLERATION,) if option.gpu else ()))
    return PodPlan(
        cpu_millis=option.sizing.cpu_millis,
        memory=option.sizing.memory,
        shared_memory=shared_memory(option.sizing.per_pod),
        ephemeral=total(storage_items(downloaded=downloaded(subject.weights, option.checkpoint))),
        service_account=runtime.service_account_name or subject.model.key.name,
        own_account=runtime.service_account_name is None,
        image_pull_policy=environment.image_pull_policy,
        image_pull_secrets=tuple(dict.fromkeys(secrets)),
        node_selector=_node_selector(subject, option),
        node_requirements=_node_requirements(subject, option),
        tolerations=tuple(_wire(toleration) for toleration in tolerations),
        priority_class=placement.priority_class_name or "",
        memory_items=option.sizing.per_pod,
    )


def _node_selector(subject: Subject, option: Option) -> dict[str, str]:
    """The user's own labels, and those without which the plan would not be true."""
    placement = subject.spec.placement or Placement()
    needed = {}
    if option.gpu is not None:
        needed[LABEL_GPU_PRODUCT] = option.gpu.product
    elif len(built_for := cpu_architectures(subject)) == 1:
        needed[LABEL_ARCHITECTURE] = built_for[0]
    return dict(sorted({**placement.node_selector, **needed}.items()))


def _node_requirements(subject: Subject, option: Option) -> tuple[NodeRequirement, ...]:
    if option.gpu is None:
        return ()
    floor = runtime_for(subject, Device.GPU).driver
    return node_requirements(option.gpu, floor, option.pool)


def _tier(option: Option) -> HostTierPlan | None:
    """The KV tier in host memory with its chunks and kept ends, if there is one."""
    if option.gpu is None or not option.sizing.host_tier:
        return None
    return host_tier(
        kv_layout_of(option.candidate),
        size=option.sizing.host_tier,
        tensor=option.layout.tensor,
        draft=option.draft,
    )


def _gpu(subject: Subject, option: Option) -> GpuPlan | None:
    if option.gpu is None:
        return None
    whole = option.gpu.share is GpuShare.WHOLE
    return GpuPlan(
        product=option.gpu.product,
        architecture=option.gpu.architecture,
        count=option.layout.gpus_per_node,
        nodes=option.layout.nodes,
        one_clique=option.layout.tensor_spans_nodes,
        memory=option.gpu.memory,
        # Of a slice the driver tells the whole GPU.
        capability=compute_capability(option.gpu) if whole else "",
        driver=runtime_for(subject, Device.GPU).driver if whole else "",
        corrections=_corrections(option),
        memory_items=option.sizing.per_gpu,
    )


def _corrections(option: Option) -> tuple[str, ...]:
    """Trap T33: long contexts on Hopper count on a cache in pieces where the image splits it."""
    counted = engine_speed(option.candidate).split_kv is True
    return (SPLIT_KV_CORRECTION,) if counted else ()


def _packages(subject: Subject, option: Option) -> tuple[str, ...]:
    """What the image is known to have; of one that nobody described nothing is asked."""
    device = Device.CPU if option.gpu is None else Device.GPU
    if image_is_unknown(subject, device):
        return ()
    facts = runtime_for(subject, device)
    needs = needs_of(subject, option.checkpoint) if option.gpu is not None else ()
    torch = (f"torch=={facts.torch}",) if facts.torch else ()
    return (f"vllm=={facts.vllm}", *torch, *(need.package for need in needs))


def _summary(option: Option) -> str:
    checkpoint, context = option.checkpoint.name.value, option.sizing.context
    if option.gpu is None:
        return f"CPU, {checkpoint}, {context} ctx"
    layout = option.layout
    nodes = "one node" if layout.nodes == 1 else f"{layout.nodes} nodes"
    drafts = f", MTP {option.draft}" if option.draft else ""
    return (
        f"{layout.gpus}x {option.gpu.product} in {nodes}, {checkpoint}, {layout.name}{drafts},"
        f" {context} ctx"
    )


def _parallelism(layout: Layout) -> ParallelismStatus:
    return ParallelismStatus(
        tensor=layout.tensor, pipeline=layout.pipeline, data=layout.data, expert=layout.expert
    )


def _startup_seconds(option: Option) -> int:
    """Whole minutes, so that a small change of a checkpoint does not make another plan.

    Each pod reads all the weights at worst: of the experts it needs every rank's part.
    """
    seconds = _STARTUP_SECONDS + option.checkpoint.bytes // _LOAD_BYTES_PER_SECOND
    seconds += option.sizing.host_tier // _TIER_BYTES_PER_SECOND
    seconds += _GROUP_SECONDS if option.layout.nodes > 1 else 0
    return min(_LONGEST_STARTUP, -(-seconds // 60) * 60)


def _rejected(taken: Option, found: Search) -> Iterator[RejectedOption]:
    """The options that fit first, then those that do not, the nearest first."""
    best = preference(taken)
    for option in found.options:
        if option.name != taken.name:
            why = _not_preferred(option, taken, preferred=preference(option) < best)
            yield rejected(option.name, "NotPreferred", why)
    for each in found.rejected:
        yield rejected(each.name, each.reason.value, each.message)


def _why(subject: Subject, option: Option) -> tuple[str, ...]:
    """What the plan chose where the user said nothing, and what a choice of the user's costs."""
    drafts = (
        f"{option.draft} drafted tokens per step: {_pace(option.token_nanoseconds)} instead of"
        f" {_pace(option.undrafted_nanoseconds)} without."
        if option.undrafted_nanoseconds
        else ""
    )
    open_routes = _OPEN_ROUTES if subject.spec.serving.frontend is Frontend.RUST else ""
    config = config_is_beside(subject.weights, option.checkpoint)
    return tuple(each for each in (option.sizing.why, drafts, config, open_routes) if each)


_OPEN_ROUTES: Final = (
    "The Rust frontend takes no middleware: every route of vLLM is reachable on the serving port,"
    " and new requests are not refused while a pod leaves."
)


def _not_preferred(option: Option, taken: Option, *, preferred: bool) -> str:
    """The first difference in the order of preference, or that there is no room for what is
    `preferred`."""
    if preferred:
        return f"Fits, but has no room now, as {taken.name} has."
    if option.layout.gpus != taken.layout.gpus:
        more = f"takes {_gpus(option)} instead of {_gpus(taken)}"
        speed = (
            f", at {_pace(option.token_nanoseconds)} instead of {_pace(taken.token_nanoseconds)}"
            if option.gpu is not None
            else ""
        )
        return f"Fits, but {more}{speed}: pin spec.placement.parallelism to take it."
    if option.checkpoint.name is not taken.checkpoint.name:
        return f"Fits, but {taken.checkpoint.name.value} is more precise on as many GPUs."
    if option.token_nanoseconds != taken.token_nanoseconds:
        return f"Fits, but is slower: {_paces(option, taken)}."
    return f"Fits as well as {taken.name}, which leaves fewer GPUs unused or comes first by name."


def _gpus(option: Option) -> str:
    count = option.layout.gpus if option.gpu is not None else 0
    return f"{count} GPU{'' if count == 1 else 's'}"


def _paces(option: Option, taken: Option) -> str:
    return f"{_pace(option.token_nanoseconds)} instead of {_pace(taken.token_nanoseconds)}"


def _pace(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.2f} ms a token"


def _wire(value: Any) -> dict[str, Any]:
    wire: dict[str, Any] = msgspec.to_builtins(value)
    return wire
