"""Why nothing fits: the nearest candidate's shortfall, or where the GPUs are that are of no use."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from msgspec import structs

from kindling_operator.model.api_placement import Placement
from kindling_operator.model.architecture import CapabilityStatus, Checkpoint
from kindling_operator.model.conditions import MESSAGE_BYTES, Reason
from kindling_operator.model.layout import Layout
from kindling_operator.model.plan import Verdict
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import status_of, supported_families
from kindling_operator.plan.devices import GpuClass, selector_text, wanted_class
from kindling_operator.plan.fleet import Fleet
from kindling_operator.plan.kept_out import counted, kept_out
from kindling_operator.plan.kinds import kinds
from kindling_operator.plan.layouts import MOST_NODES, Extent, extent_of, layouts
from kindling_operator.plan.listing import few, joined
from kindling_operator.plan.pins import most_gpus
from kindling_operator.plan.question import question_of, searched
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.search import Search, fitting
from kindling_operator.plan.silent import unplannable
from kindling_operator.plan.sizing import least_gpu_memory
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.ways import checkpoints

_ONE_NODE = Extent(sizes=((8, 1),))
"""The node that a model is measured by where there is none."""
_USUAL_GIB = (24, 32, 48, 80, 96, 141, 180, 288)
"""Memory of GPUs that one can buy."""
_MEND = "; add a node or correct what keeps them out."
_MORE_BYTES = len(" and 99 more") + 1


def nothing_fits(subject: Subject, found: Search, fleet: Fleet) -> Verdict:
    """The refusal of the nearest candidate; without any, why there is none."""
    seen = searched(subject)
    question = "nothing fits", question_of(seen)
    return fleet.answer(question, lambda: _nothing_fits(seen, found, fleet))


def _nothing_fits(subject: Subject, found: Search, fleet: Fleet) -> Verdict:
    if not found.rejected:
        return refusal(Reason.NO_SUPPORTED_GPU, _no_gpu(subject, fleet))
    nearest = found.rejected[0]
    misfit = nearest.misfit
    if misfit is None:
        return refusal(nearest.reason, nearest.message)
    larger = _way_out(replace(misfit.engine.candidate, subject=subject), fleet)
    # A shorter context may do; weights need the room that they need.
    lower = [misfit.way_out] if misfit.less_would_do else []
    return refusal(nearest.reason, f"{misfit.shortfall}: {', or '.join([*lower, larger])}.")


def _way_out(candidate: Candidate, fleet: Fleet) -> str:
    """The smallest layout that would hold the model on more GPUs of this kind."""
    pools = kinds(candidate.subject, fleet)
    pool = next(pool for pool in pools if pool.gpu == candidate.gpu)
    extent = extent_of(pool)
    free = replace(candidate, subject=_without_limit(candidate.subject))
    within = next(fitting(free, extent), None)
    most = most_gpus(candidate.subject)
    if within is not None and most is not None:
        return f"raise spec.placement.maxGpusPerReplica from {most} to {within.gpus}"
    beyond = next(fitting(free, replace(extent, spare=MOST_NODES)), None)
    if beyond is None:
        return "use GPUs with more memory or a smaller checkpoint"
    return _more_nodes(beyond, extent)


def _more_nodes(layout: Layout, extent: Extent) -> str:
    each = layout.gpus_per_node
    lacking = max(1, layout.nodes - extent.nodes_with(each))
    plural = "" if lacking == 1 else "s"
    return (
        f"{layout.nodes} nodes of {each} hold it, add {lacking} node{plural} or use GPUs with more"
        " memory"
    )


def _without_limit(subject: Subject) -> Subject:
    """The subject as if its user allowed any number of GPUs."""
    placement = subject.spec.placement
    if placement is None or placement.max_gpus_per_replica is None:
        return subject
    free = structs.replace(placement, max_gpus_per_replica=None)
    spec = structs.replace(subject.spec, placement=free)
    return replace(subject, model=replace(subject.model, spec=spec))


def _no_gpu(subject: Subject, fleet: Fleet) -> str:
    """What the model needs, and where the GPUs are that it cannot use."""
    placement = subject.spec.placement
    families = supported_families(subject)
    parts = [
        *([f"the usable nodes have {has}"] if (has := _gpus_text(fleet, placement)) else []),
        *kept_out(fleet, placement, lambda gpu: _is_of_use(gpu, placement, families)),
        *unplannable(fleet),
    ]
    head = f"No GPU for {subject.entry.title}{_needs_text(subject)}{_limits_text(subject)}:"
    if not parts:
        return f"{head} no node has such a GPU; add one."
    room = MESSAGE_BYTES - len(head.encode()) - len(_MEND) - _MORE_BYTES
    return f"{head} {few(parts, within=room)}{_MEND}"


def _is_of_use(gpu: GpuClass, placement: Placement | None, families: tuple[str, ...]) -> bool:
    """Whether the spec admits such a GPU, and the model is known to run on it or pinned to it."""
    wish = placement.gpu if placement is not None else None
    known = not families or gpu.capability in families
    return wanted_class(gpu, placement) and (known or bool(wish and wish.products))


def _needs_text(subject: Subject) -> str:
    """The families that run it, and the fewest GPUs of a usual size that hold it."""
    families = supported_families(subject)
    if not families:
        return ""
    least = _least(subject, families)
    return f" (it needs {joined(families, 'or')}{f', {least}' if least else ''})"


def _least(subject: Subject, families: tuple[str, ...]) -> str:
    """The fewest GPUs of one node that hold a supported checkpoint, and how large they must be."""
    found = [
        (layout.gpus, gib, checkpoint.name.value)
        for checkpoint in checkpoints(subject)
        for layout in layouts(subject, _ONE_NODE)
        if layout.pipeline == layout.data == 1
        and (gib := _usual_gib(subject, checkpoint, families, layout)) is not None
    ]
    if not found:
        return ""
    gpus, gib, name = min(found)
    return f"such as {'one GPU' if gpus == 1 else f'{gpus} GPUs'} of {gib} GiB for {name}"


def _usual_gib(
    subject: Subject, checkpoint: Checkpoint, families: tuple[str, ...], layout: Layout
) -> int | None:
    """Memory of the smallest usual GPU, of a family that is known to run it, that is enough."""
    for family in families:
        way = Candidate(subject, checkpoint, GpuClass("", family, 0, ""), layout)
        known = status_of(subject, checkpoint.name, way.gpu)
        if known is not None and known.status is CapabilityStatus.SUPPORTED:
            needed = least_gpu_memory(way)
            return next((gib for gib in _USUAL_GIB if gib << 30 >= needed), None)
    return None


def _gpus_text(fleet: Fleet, placement: Placement | None) -> str:
    """GPUs of the usable nodes by product: "8 x NVIDIA-L4 (sm89)"."""
    anything = structs.replace(placement, gpu=None) if placement is not None else None
    counts: Counter[str] = Counter()
    for pool in fleet.pools(anything):
        if pool.gpu is not None:
            counts[f"{pool.gpu.product} ({pool.gpu.capability})"] += pool.gpus
    return counted(counts)


def _limits_text(subject: Subject) -> str:
    """What the spec itself excludes."""
    placement = subject.spec.placement
    gpu = placement.gpu if placement is not None else None
    limits = [
        f"spec.placement.gpu.products {few(gpu.products)}" if gpu and gpu.products else "",
        f"spec.placement.gpu.minMemory {gpu.min_memory}" if gpu and gpu.min_memory else "",
        f"spec.placement.nodeSelector {selector}" if (selector := selector_text(placement)) else "",
    ]
    given = [limit for limit in limits if limit]
    return f" within {' and '.join(given)}" if given else ""
