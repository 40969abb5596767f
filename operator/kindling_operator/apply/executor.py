"""Apply in order, then prune. A write carries what it was decided on, so a late one gets 409."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kindling_operator.apply.names_taken import Child, Taken, conflict, look
from kindling_operator.apply.needs import needs_apply, stamped
from kindling_operator.apply.prune import left_over
from kindling_operator.kube.client import Body, Kube
from kindling_operator.kube.errors import (
    FencedError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
    retry_of,
)
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import CONTROLLER_REVISION, FIELD_MANAGER
from kindling_operator.model.objects import ObjectRef
from kindling_operator.model.outcome import Outcome, Retry
from kindling_operator.model.plan import Decision, Verdict
from kindling_operator.model.snapshot import Snapshot

Counted = Callable[[str, str], None]
"""Called with kind and result after each write: applied, pruned or the error's reason."""


async def execute(
    kube: Kube,
    snapshot: Snapshot,
    decision: Decision,
    manifests: Sequence[Mapping[str, Any]],
    *,
    counted: Counted,
) -> Outcome:
    """Make the cluster have `manifests` and no other child of this model.

    Nothing is written when a name is taken, or for a decision that leaves things untouched. The
    first write that fails ends the pass.
    """
    if decision.untouched:
        return Outcome()
    key = decision.key
    children = snapshot.children.get(key, ())
    uid = snapshot.models[key].metadata.uid
    try:
        looked = await look(kube, manifests, key=key, owner_uid=uid, children=children)
    except KubeError as error:
        return Outcome(retry=retry_of(error))
    taken = [each for each in looked if isinstance(each, Taken)]
    if any(not each.leaving for each in taken):
        return Outcome(verdict=conflict(next(each for each in taken if not each.leaving)))
    if taken:
        return Outcome(retry=Retry("Leaving", f"{taken[0].ref} is about to be removed", after=0.5))
    wanted = [each for each in looked if isinstance(each, Child)]
    outcome = await _apply_all(kube, wanted, counted)
    if outcome.retry is not None or outcome.verdict is not None:
        return outcome
    names = ((each.kind, each.manifest["metadata"]["name"]) for each in wanted)
    return await _prune_all(kube, left_over(snapshot, key, names), outcome, counted)


async def _apply_all(kube: Kube, wanted: Sequence[Child], counted: Counted) -> Outcome:
    applied: list[ObjectRef] = []
    unchanged = 0
    for child in wanted:
        desired = stamped(child.manifest)
        if not needs_apply(desired, child.observed):
            unchanged += 1
            continue
        try:
            applied.append(await _apply(kube, child, desired))
            counted(child.kind.kind, "applied")
        except KubeError as error:
            counted(child.kind.kind, error.reason)
            return _failed(error, Outcome(tuple(applied), unchanged=unchanged))
    return Outcome(tuple(applied), unchanged=unchanged)


async def _apply(kube: Kube, child: Child, desired: Mapping[str, Any]) -> ObjectRef:
    """Write one child; what stood under its name when it was looked at is the precondition.

    Where nothing stood it is created, never applied: an apply would adopt what somebody else has
    made in between, such as a bare ServiceAccount; a creation answers with a conflict, and the
    next look names it.
    """
    if child.ref is None and child.kind == CONTROLLER_REVISION:
        # Its data may never change, byte for byte: a creation keeps our spelling, and every later
        # apply would have the API server's. Nor can an apply adopt another's: its data differ.
        body = await kube.apply(desired, child.kind, manager=FIELD_MANAGER, force=False)
    elif child.ref is None:
        body = await kube.create(desired, child.kind, manager=FIELD_MANAGER)
    else:
        ref = child.ref
        if child.created_entry is not None:
            ref = _written(child, await kube.claim(ref, child.created_entry))
        metadata = {"uid": ref.uid, "resourceVersion": ref.resource_version}
        body = await kube.apply(
            {**desired, "metadata": {**desired["metadata"], **metadata}},
            child.kind,
            manager=FIELD_MANAGER,
        )
    return _written(child, body)


def _written(child: Child, body: Body) -> ObjectRef:
    new = body["metadata"]
    return ObjectRef(child.kind, new["namespace"], new["name"], new["uid"], new["resourceVersion"])


async def _prune_all(
    kube: Kube, leave: Sequence[ObjectRef], outcome: Outcome, counted: Counted
) -> Outcome:
    """Delete each; one that cannot go keeps no other, as long as the API server answers at all."""
    pruned: list[ObjectRef] = []
    failed: KubeError | None = None
    for ref in leave:
        try:
            await kube.delete(ref)
            pruned.append(ref)
            counted(ref.kind.kind, "pruned")
        except NotFoundError:
            continue
        except KubeError as error:
            counted(ref.kind.kind, error.reason)
            failed = failed or error
            if isinstance(error, (UnavailableError, FencedError, TooManyRequestsError)):
                break
    done = Outcome(outcome.applied, tuple(pruned), outcome.unchanged)
    return done if failed is None else _failed(failed, done)


def _failed(error: KubeError, outcome: Outcome) -> Outcome:
    """A refusal is for the user to read; everything else is for the queue to try again."""
    if not isinstance(error, (InvalidError, ForbiddenError)):
        return replace(outcome, retry=retry_of(error))
    verdict = Verdict(
        condition=ConditionType.PROGRESSING,
        reason=Reason.APPLY_REFUSED,
        message=(
            f"The cluster refuses a part of this InferenceModel ({error}): do what the message"
            " asks for, it is tried again by itself."
        ),
    )
    return replace(outcome, verdict=verdict)
