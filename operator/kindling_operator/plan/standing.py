"""What stands in the cluster of each stored revision of a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from kindling_operator.model.objects import PodView
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Revision
from kindling_operator.model.snapshot import Answers, Snapshot
from kindling_operator.plan.causes import clause, why_ended
from kindling_operator.plan.revision import stored_revisions, wanted_hash
from kindling_operator.plan.workloads import workload_of


@dataclass(frozen=True, slots=True)
class Standing:
    """One revision and what runs of it: `replicas` asked for, None if nothing is.

    `placed` of them have their nodes, `available` are ready, `routed` are also among the endpoints;
    `leaving` ones are on their way out and hold their GPUs until they are gone. `proven` is True if
    an answer of a routed one is known to have come through the Service.

    `deployed_at` is when the replicas were first asked for. `trying_since` is since when they have
    nodes and none is ready, None while that is not so; `crashes` are the restarts of the one among
    them that has most. `refused` is True while the cluster lets no pod be made (a quota, a Pod
    Security profile). `why` is how the one that ended last did, or what keeps one from starting.
    """

    revision: Revision
    replicas: int | None = None
    placed: int = 0
    available: int = 0
    routed: int = 0
    leaving: int = 0
    proven: bool = False
    deployed_at: datetime | None = None
    trying_since: datetime | None = None
    crashes: int = 0
    refused: bool = False
    why: str = ""

    @property
    def deployed(self) -> bool:
        return self.replicas is not None

    @property
    def serving(self) -> int:
        """Replicas that are known to serve through the Service."""
        return self.routed if self.proven else 0

    @property
    def settled(self) -> bool:
        """Whether every ready replica gets traffic: whichever leaves, the others do."""
        return self.routed == self.available


def standings(snapshot: Snapshot, model: ParsedModel | Invalid) -> tuple[Standing, ...]:
    """Every stored revision, the newest first."""
    return tuple(
        standing_of(snapshot, model, revision) for revision in stored_revisions(snapshot, model)
    )


def standing_of(snapshot: Snapshot, model: ParsedModel | Invalid, revision: Revision) -> Standing:
    """One revision as it stands."""
    workload = workload_of(snapshot, model, revision)
    pods = [pod for pod in snapshot.pods_of(model.key) if pod.revision == revision.hash]
    seen = replace(_seen(snapshot, model, revision, pods), why=_why(pods))
    asked = workload.replicas if workload is not None else None
    return replace(
        seen,
        replicas=asked,
        leaving=seen.leaving + max(0, seen.placed - (asked or 0)),
        deployed_at=workload.created if workload is not None else None,
        refused=workload is not None and workload.refused,
    )


def _seen(
    snapshot: Snapshot, model: ParsedModel | Invalid, revision: Revision, pods: Iterable[PodView]
) -> Standing:
    """What the pods tell. A group is ready when its leader is: that answers for all of it."""
    members: dict[str, list[PodView]] = {}
    for pod in pods:
        if not pod.ended:
            members.setdefault(pod.group or pod.name, []).append(pod)
    size = revision.plan.group.size if revision.plan.group is not None else 1
    leaving = [each for each in members.values() if any(pod.terminating for pod in each)]
    placed = [
        min(each, key=lambda pod: pod.rank)
        for each in members.values()
        if each not in leaving and sum(1 for pod in each if pod.node) >= size
    ]
    ready = [pod for pod in placed if pod.ready]
    names = set(snapshot.endpoints.get(model.key, ()))
    routed = [pod for pod in ready if pod.name in names]
    # Members of a group may answer beside their leader.
    behind = {pod.uid for each in members.values() for pod in each if pod.name in names}
    known = snapshot.answers.get(model.key, Answers()).pods
    return Standing(
        revision=revision,
        placed=len(placed),
        available=len(ready),
        routed=len(routed),
        leaving=sum(1 for each in leaving if any(pod.node for pod in each)),
        proven=bool(routed) and (not snapshot.environment.prove_endpoint or bool(known & behind)),
        trying_since=None if ready else _trying_since(revision, placed),
        crashes=0 if ready else max((pod.restarts for pod in placed), default=0),
    )


def _why(pods: Iterable[PodView]) -> str:
    """As a clause; "" where nothing has ended and nothing stands in the way."""
    told = sorted(pods, key=lambda pod: pod.ended_at or pod.created, reverse=True)
    for pod in told:
        if pod.ended_exit_code:
            return why_ended(pod)
    for pod in told:
        if pod.unschedulable or pod.waiting_message:
            return clause(pod.unschedulable or f"{pod.waiting_reason}: {pod.waiting_message}")
    return ""


def _trying_since(revision: Revision, placed: Iterable[PodView]) -> datetime | None:
    """Groups that gave their GPUs back have been trying all the time."""
    if revision.released is not None:
        return revision.created
    return min((pod.unready_since or pod.scheduled or pod.created for pod in placed), default=None)


def stored_for(model: ParsedModel, standing: Iterable[Standing]) -> Standing | None:
    """The stored revision that the spec asks for."""
    stored = tuple(standing)
    name = wanted_hash(model) if stored else ""
    return next((each for each in stored if each.revision.hash == name), None)
