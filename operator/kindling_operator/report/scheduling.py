"""Scheduled: does every wanted replica have a node. Pure; the scheduler's words are repeated."""

from collections.abc import Sequence

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.objects import ChildView
from kindling_operator.model.plan import Revision, Verdict
from kindling_operator.report import failures
from kindling_operator.report.replicas import PodState, Replicas


def scheduled(
    replicas: Replicas,
    deployments: Sequence[ChildView],
    *,
    wanted: int,
    revision: Revision | None,
) -> Verdict:
    """The condition of a model that has a Deployment, or is about to.

    Only replicas of the current revision count: older ones are on their way out, and have nodes.
    """
    for deployment in deployments:
        if deployment.failure:
            return _verdict(
                Reason.PODS_REFUSED,
                f"The cluster refuses the pods of {deployment.ref}"
                f" ({deployment.failure.rstrip('.')}): {_fix_of_refusal(deployment.failure)}.",
            )
    for pod in replicas.of(PodState.IMAGE):
        return failures.image(pod, revision, ConditionType.SCHEDULED)
    hash_ = revision.hash if revision is not None else None
    living = [pod for pod in replicas.living if hash_ in {None, pod.revision}]
    stuck = [pod for pod in replicas.of(PodState.UNSCHEDULABLE) if pod in living]
    if stuck:
        return _unschedulable(stuck[0].unschedulable, len(stuck), wanted)
    placed = sum(1 for pod in living if pod.node)
    if placed < wanted:
        return _verdict(
            Reason.PODS_PENDING,
            f"{wanted - placed} of {wanted} replicas wait for the scheduler's first answer.",
        )
    return _verdict(
        Reason.PODS_SCHEDULED, f"{placed} of {max(wanted, placed)} replicas have a node."
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


def _unschedulable(message: str, stuck: int, wanted: int) -> Verdict:
    reason, fix = _reading(message)
    return _verdict(
        reason,
        f"{stuck} of {max(wanted, stuck)} replicas have no node ({message.rstrip('.')}): {fix}.",
    )


def _reading(message: str) -> tuple[Reason, str]:
    """The reason behind a message of the scheduler, and the fix.

    Its texts: pkg/scheduler/framework/plugins in Kubernetes 1.37 (noderesources, volumebinding,
    nodeaffinity, tainttoleration).
    """
    if "persistentvolumeclaim" in message.lower():
        return Reason.CLAIM_NOT_BOUND, "create or bind the claim, or name another one"
    if "Insufficient nvidia.com/gpu" in message:
        return Reason.INSUFFICIENT_GPU, "free GPUs, add a node or lower spec.replicas"
    if "Insufficient" in message:
        return (
            Reason.INSUFFICIENT_RESOURCES,
            "free what is short, add a node or lower spec.runtime.resources",
        )
    return (
        Reason.NO_MATCHING_NODE,
        "label a node, or correct spec.placement.nodeSelector or tolerations",
    )


def _verdict(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionType.SCHEDULED, reason, message)
