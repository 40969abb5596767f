"""From a decision to manifests. Pure: the same decision gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from kindling_operator.model.names import CHILD_KINDS, SERVICE_ACCOUNT
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Decision, RevisionTarget
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.cachelimit import cache_limit, limit_problem
from kindling_operator.plan.subject import subject_of
from kindling_operator.render.configmap import launch_config, limits_config
from kindling_operator.render.deployment import deployment
from kindling_operator.render.leaderworkerset import leader_worker_set
from kindling_operator.render.metadata import Manifest
from kindling_operator.render.networkpolicy import network_policy
from kindling_operator.render.revision import controller_revision
from kindling_operator.render.service import service
from kindling_operator.render.serviceaccount import service_account

__all__ = ["Manifest", "render"]


def render(snapshot: Snapshot, decision: Decision) -> tuple[Manifest, ...]:
    """Every child that the model should have, in the order of apply.

    Nothing for a decision that leaves things untouched: it is not to be applied at all.
    """
    model = snapshot.models[decision.key]
    if decision.untouched or isinstance(model, Invalid):
        return ()
    order = {kind.kind: place for place, kind in enumerate(CHILD_KINDS)}
    found = _children(snapshot, model, decision)
    return tuple(sorted(found, key=lambda m: (order[m["kind"]], m["metadata"]["name"])))


def _children(snapshot: Snapshot, model: ParsedModel, decision: Decision) -> Iterator[Manifest]:
    owner = model.metadata
    for target in decision.targets:
        yield controller_revision(owner, target.revision)
        yield launch_config(owner, target.revision)
        yield from _workloads(model, target)
    for revision in decision.kept:
        yield controller_revision(owner, revision)
    yield from _limits(snapshot, model, decision)
    if decision.targets:
        yield network_policy(owner, (target.revision.plan for target in decision.targets))
        yield service(owner, port=model.spec.endpoint.port)
    if _has_account(snapshot, model, decision):
        yield service_account(owner)


def _limits(snapshot: Snapshot, model: ParsedModel, decision: Decision) -> Iterator[Manifest]:
    """The limit of the cache, for as long as pods of the decision download to a claim; none while
    it is refused."""
    subject = subject_of(model, snapshot.environment)
    if subject is None:
        return
    plans = (target.revision.plan for target in decision.targets)
    sound = (each for each in plans if limit_problem(subject, each) is None)
    limits = (cache_limit(subject, each.weights) for each in sound)
    limit = next((each for each in limits if each is not None), None)
    if limit is not None:
        yield limits_config(model.metadata, limit)


def _workloads(model: ParsedModel, target: RevisionTarget) -> Iterator[Manifest]:
    """What runs a revision's replicas: one Deployment, or a LeaderWorkerSet for each group."""
    group = target.revision.plan.group
    if group is None:
        yield deployment(model.metadata, target, model.spec.rollout)
        return
    for number in target.groups:
        yield leader_worker_set(model.metadata, target.revision, group, number)


def _has_account(snapshot: Snapshot, model: ParsedModel, decision: Decision) -> bool:
    """Whether a pod of the decision runs as an account of ours.

    One that the spec names is the user's, also where it bears the model's name. But if we made it
    in an earlier revision, it stays for as long as pods run as it.
    """
    name = model.key.name
    pods = [target.revision.plan.pod for target in decision.targets]
    if any(pod.own_account for pod in pods):
        return True
    made = any(
        child.ref.kind == SERVICE_ACCOUNT
        and child.ref.name == name
        and child.owner_uid == model.metadata.uid
        for child in snapshot.children.get(model.key, ())
    )
    return made and any(pod.service_account == name for pod in pods)
