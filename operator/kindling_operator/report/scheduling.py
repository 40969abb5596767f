"""Scheduled: does every wanted replica have a node. Pure.

Where the planner agrees with the scheduler that there is no room, its words are told: they name the
best node, who holds it, and how much to free. Else the scheduler's are repeated.
"""

from collections.abc import Sequence

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import group_number
from kindling_operator.model.objects import ChildView, PodView
from kindling_operator.model.plan import GroupPlan, Revision, Verdict
from kindling_operator.plan.groups import half_group_ends
from kindling_operator.plan.listing import lowered
from kindling_operator.report import failures
from kindling_operator.report.replicas import PodState, Replicas

_ROOM = frozenset({Reason.INSUFFICIENT_GPU, Reason.INSUFFICIENT_RESOURCES})


def scheduled(
    replicas: Replicas,
    workloads: Sequence[ChildView],
    *,
    wanted: int,
    revision: Revision | None,
    unmade: str = "",
    short: Verdict | None = None,
) -> Verdict:
    """The condition of a model that has a Deployment, or is about to: `unmade` is why not yet.

    `short` is what a replica without room lacks.
    Only replicas of the current revision count: older ones are on their way out, and have nodes.
    """
    for workload in workloads:
        if workload.failure:
            return _verdict(
                Reason.PODS_REFUSED,
                f"The cluster refuses the pods of {workload.ref}"
                f" ({workload.failure.rstrip('.')}): {_fix_of_refusal(workload.failure)}.",
            )
    for pod in replicas.of(PodState.IMAGE):
        return failures.image(pod, revision, ConditionType.SCHEDULED)
    hash_, group = (revision.hash, revision.plan.group) if revision is not None else (None, None)
    living = [pod for pod in replicas.living if hash_ in {None, pod.revision}]
    stuck = [pod for pod in replicas.of(PodState.UNSCHEDULABLE) if pod in living]
    if stuck and group is not None:
        return _half_group(stuck[0], replicas.members.get(stuck[0].group, ()), group)
    if stuck:
        return _unschedulable(stuck, wanted, short, _claims(stuck[0], revision))
    placed = [pod for pod in living if _has_nodes(pod, replicas, group)]
    if len(placed) < wanted:
        sets = [each for each in workloads if each.revision == hash_]
        told = _incomplete(sets, replicas, group) if group is not None else None
        return told or _without_node(len(living), len(placed), wanted=wanted, unmade=unmade)
    return _verdict(
        Reason.PODS_SCHEDULED,
        f"{len(placed)} of {max(wanted, len(placed))} replicas have"
        f" {'a node' if group is None else f'{group.size} nodes'}.",
    )


def _has_nodes(pod: PodView, replicas: Replicas, group: GroupPlan | None) -> bool:
    """Whether a replica has all the nodes that it needs."""
    if group is None:
        return bool(pod.node)
    return _placed(replicas.members.get(pod.group, ())) >= group.size


def _placed(members: Sequence[PodView]) -> int:
    return sum(1 for pod in members if pod.node and not pod.terminating)


def _without_node(living: int, placed: int, *, wanted: int, unmade: str) -> Verdict:
    """Some have no node, and nobody has said why yet: the scheduler is only asked about pods."""
    if living > placed:
        told = f"{living - placed} of {wanted} replicas wait for the scheduler's first answer."
    elif unmade:
        told = f"{wanted - placed} of {wanted} replicas do not exist: {unmade}."
    else:
        told = f"{wanted - placed} of {wanted} replicas have no pod of the newest revision yet."
    return _verdict(Reason.PODS_PENDING, told)


def _incomplete(sets: Sequence[ChildView], replicas: Replicas, group: GroupPlan) -> Verdict | None:
    """The first group without all its nodes.

    Pods that are refused (a quota, a Pod Security profile) do not exist, and only the events of
    their StatefulSet say why: it is named.
    """
    for each in sets:
        members = replicas.members.get(each.ref.name, ())
        if _placed(members) >= group.size:
            continue
        told = (
            f"Replica {group_number(each.ref.name)}: {_placed(members)} of {group.size} pods have a"
            f" node, {len(members)} exist"
        )
        if len(members) < group.size:
            maker = f"{each.ref.name}-0" if members else each.ref.name
            told += (
                f"; if it stays so, `kubectl describe statefulset -n {each.ref.namespace} {maker}`"
                " tells why"
            )
        return _verdict(Reason.PODS_PENDING, f"{told}.")
    return None


def _half_group(pod: PodView, members: Sequence[PodView], group: GroupPlan) -> Verdict:
    """A group of which a pod has no node, with what becomes of those that have one."""
    reason, fix = _reading(pod.unschedulable)
    end = half_group_ends(members, group)
    release = f", or it gives its GPUs back at {end:%H:%M} UTC" if end is not None else ""
    return _verdict(
        reason,
        f"Replica {group_number(pod.group)}: {_placed(members)} of {group.size} pods have a node,"
        f" and {pod.name} has none ({pod.unschedulable.rstrip('.')}): {fix}{release}.",
    )


def _fix_of_refusal(message: str) -> str:
    """The field that the cluster's words are about, as far as the spec has one.

    The texts are those of Kubernetes 1.37: plugin/pkg/admission/priority and serviceaccount, and
    staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota.
    """
    if "no PriorityClass with name" in message:
        return "create the PriorityClass or correct spec.placement.priorityClassName"
    if "error looking up service account" in message:
        return "create the ServiceAccount or correct spec.runtime.serviceAccountName"
    if "exceeded quota" in message:
        return "raise the quota or lower spec.runtime.resources or spec.replicas"
    return "do what the message asks for"


def _claims(pod: PodView, revision: Revision | None) -> str:
    """The claims that a pod mounts, to be named: the scheduler only says that one is not bound."""
    weights = revision.plan.weights if revision is not None else None
    names = (weights.claim, weights.cache_claim) if weights is not None else ()
    return " or ".join(f"{pod.namespace}/{name}" for name in names if name) or "the claim"


def _unschedulable(
    pods: Sequence[PodView], wanted: int, short: Verdict | None, claims: str
) -> Verdict:
    message, stuck = pods[0].unschedulable, len(pods)
    reason, fix = _reading(message, claims)
    told = f"{stuck} of {max(wanted, stuck)} replicas have no node"
    if short is not None and reason in _ROOM:
        return _verdict(short.reason, f"{told}: {lowered(short.message)}")
    return _verdict(reason, f"{told} ({message.rstrip('.')}): {fix}.")


def _reading(message: str, claims: str = "the claim") -> tuple[Reason, str]:
    """The reason behind a message of the scheduler, and the fix.

    Its texts: pkg/scheduler/framework/plugins in Kubernetes 1.37 (noderesources, volumebinding,
    nodeaffinity, nodeunschedulable, tainttoleration).
    """
    if "persistentvolumeclaim" in message.lower():
        return Reason.CLAIM_NOT_BOUND, f"create or bind {claims}, or name another one"
    if "Insufficient nvidia.com/gpu" in message:
        return Reason.INSUFFICIENT_GPU, "free GPUs, add a node or lower spec.replicas"
    if "Insufficient" in message:
        return (
            Reason.INSUFFICIENT_RESOURCES,
            "free what is short, add a node or lower spec.runtime.resources",
        )
    if "node(s) were unschedulable" in message:
        return Reason.NO_MATCHING_NODE, "uncordon a node (`kubectl uncordon`) or add one"
    return (
        Reason.NO_MATCHING_NODE,
        "label a node, or correct spec.placement.nodeSelector or tolerations",
    )


def _verdict(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionType.SCHEDULED, reason, message)
