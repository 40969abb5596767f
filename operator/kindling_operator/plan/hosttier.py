"""How much host memory the KV tier of a candidate gets: as asked, or what its nodes can spare.

Of a pod's share of its node's memory; the smallest node counts, so that the plan is the same
wherever it lands.
"""

from __future__ import annotations

from dataclasses import replace

from kindling_operator.model.architecture import CapabilityStatus
from kindling_operator.model.objects import GpuShare
from kindling_operator.plan import memory
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import Feature, status_of
from kindling_operator.plan.fleet import Pool
from kindling_operator.plan.offload import default_tier_bytes, kv_layout_of, least_tier_bytes
from kindling_operator.plan.rules.features import asked_host_memory, engine_spans_nodes
from kindling_operator.plan.sizing import Sizing, pod_lines


def with_tier(way: Candidate, sizing: Sizing, pool: Pool) -> Sizing:
    """The sizing with the tier that the user asks for, else with one that the nodes can spare."""
    asked = asked_host_memory(way.subject)
    size = chosen_tier(way, sizing, pool) if asked is None else asked
    return with_bytes(way, sizing, size) if size else sizing


def with_bytes(way: Candidate, sizing: Sizing, size: int) -> Sizing:
    """The sizing with a tier of so many bytes in the memory of each pod."""
    per_pod = pod_lines(way, host_tier=size)
    return replace(sizing, per_pod=per_pod, memory=memory.total(per_pod), host_tier=size)


def chosen_tier(way: Candidate, sizing: Sizing, pool: Pool) -> int:
    """Bytes of a tier that nobody asked for: none where it does not work or finds nothing."""
    if not _works(way):
        return 0
    gpus = way.layout.gpus_per_node
    shares = (size * gpus // of for of, size in pool.least_memory.items() if of >= gpus)
    left = min(shares, default=0) - sizing.memory
    size = default_tier_bytes(left=left, pool=sizing.kv.bytes * gpus)
    least = least_tier_bytes(kv_layout_of(way), tensor=way.layout.tensor)
    return size if size >= least else 0


def _works(way: Candidate) -> bool:
    """Only what is known to work is chosen, and only where one node has the whole engine."""
    known = status_of(way.subject, way.checkpoint.name, way.gpu, Feature.HOST_TIER)
    supported = known is not None and known.status is CapabilityStatus.SUPPORTED
    whole = way.gpu.share is GpuShare.WHOLE
    return supported and whole and not engine_spans_nodes(way.layout)
