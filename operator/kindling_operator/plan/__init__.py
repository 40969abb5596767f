"""The planner: a pure function of the snapshot. No I/O, no clock, no randomness, no logging."""

from __future__ import annotations

from dataclasses import replace

from kindling_operator.model.names import Key
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Decision, RevisionTarget, RolloutState, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.better import better_plan
from kindling_operator.plan.checks import judge_beside_the_plan
from kindling_operator.plan.choice import Choice, accepted
from kindling_operator.plan.groups import Groups, lacks_groups, with_groups
from kindling_operator.plan.placement import Placements, placements
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.revision import new_revision, wanted_hash
from kindling_operator.plan.rollout import Step, next_step, policy_of
from kindling_operator.plan.standing import Standing, standings, stored_for
from kindling_operator.plan.subject import subject_of
from kindling_operator.plan.verdicts import (
    change_waits,
    overdue_verdict,
    waiting_verdicts,
)

__all__ = ["plan"]


def plan(snapshot: Snapshot, key: Key, placed: Placements | None = None) -> Decision:
    """What one model should be now, and why. Raises `KeyError` if the snapshot has no such model.

    `placed` is a sweep over the same models, None to make it now. An object that is being deleted
    needs no plan: its children go with it.
    """
    model = snapshot.models[key]
    # 1. What stands already.
    standing = standings(snapshot, model)
    # 2. A spec that cannot be read says nothing: everything stays as it is.
    if isinstance(model, Invalid):
        return _untouched(model, standing)
    # 3. The revision that the spec asks for: stored and therefore frozen, or chosen now.
    frozen = stored_for(model, standing)
    mine = (placed or placements(snapshot, until=key)).of(key)
    choice = _with_api(snapshot, mine.choice)
    wanted = frozen or _fresh(model, choice) or _running(standing)
    # 4. Nothing to run: say why.
    if wanted is None:
        return Decision(
            key=key,
            verdicts=waiting_verdicts(choice.accepted, choice.waiting, model.spec.replicas),
            desired_replicas=model.spec.replicas,
        )
    # 5. One step of the rollout towards it.
    step = next_step(
        wanted,
        tuple(each for each in standing if each.revision.hash != wanted.revision.hash),
        desired=model.spec.replicas,
        policy=policy_of(model.spec.rollout),
        now=snapshot.now,
    )
    if frozen is not None:
        choice = replace(choice, accepted=_still_accepted(snapshot, model, frozen))
    # 6. Which of its groups exist, where a replica is more than one pod.
    judged = step.targets[0].revision.hash == wanted_hash(model) and not step.overdue
    groups = with_groups(snapshot, model, step.targets, room=mine.room_now if judged else None)
    return _decision(model, replace(step, targets=groups.targets), choice, frozen, groups)


def _with_api(snapshot: Snapshot, choice: Choice) -> Choice:
    """A plan of groups waits for the API that makes them."""
    lacks = lacks_groups(snapshot, choice.plan) if choice.plan is not None else None
    return choice if lacks is None else replace(choice, waiting=lacks)


def _still_accepted(snapshot: Snapshot, model: ParsedModel, frozen: Standing) -> Verdict:
    """The verdict on a spec whose plan is stored: the other fields may have changed since."""
    subject = subject_of(model, snapshot.environment)
    refused = judge_beside_the_plan(subject) if subject is not None else None
    return refused or accepted(frozen.revision.plan)


def _fresh(model: ParsedModel, choice: Choice) -> Standing | None:
    """The revision to create now, unless the spec is refused or something is missing for it."""
    if choice.plan is None or choice.waiting is not None:
        return None
    return Standing(new_revision(model, choice.plan))


def _running(standing: tuple[Standing, ...]) -> Standing | None:
    """What keeps running although the spec asks for something else: a wrong edit loses nothing."""
    deployed = (each for each in standing if each.deployed)
    served = (each for each in standing if each.revision.served)
    return next(deployed, next(served, None))


def _decision(
    model: ParsedModel, step: Step, choice: Choice, frozen: Standing | None, groups: Groups
) -> Decision:
    current = step.targets[0].revision
    better = None
    if frozen is not None and choice.plan is not None and choice.waiting is None:
        better = better_plan(model.key, frozen.revision.plan, choice.plan)
    verdicts = [choice.accepted]
    if frozen is None and choice.waiting is not None:
        verdicts.append(change_waits(choice.waiting, model.key, current))
    elif groups.waiting is not None:
        verdicts.append(groups.waiting)
    if step.overdue and step.state is not RolloutState.HELD:
        verdicts.append(overdue_verdict(model.key, current, model.spec.rollout))
    return Decision(
        key=model.key,
        verdicts=tuple(verdicts),
        targets=step.targets,
        kept=step.kept,
        current=current,
        state=step.state,
        better=better,
        desired_replicas=model.spec.replicas,
        look_again=min(
            (t for t in (step.look_again, groups.look_again) if t is not None), default=None
        ),
    )


def _untouched(model: Invalid, standing: tuple[Standing, ...]) -> Decision:
    """Every revision as it stands."""
    targets = tuple(
        RevisionTarget(each.revision, each.replicas)
        for each in standing
        if each.replicas is not None
    )
    return Decision(
        key=model.key,
        verdicts=(refusal(model.reason, model.message),),
        targets=targets,
        kept=tuple(each.revision for each in standing if not each.deployed),
        current=targets[0].revision if targets else None,
        desired_replicas=targets[0].replicas if targets else 0,
        untouched=True,
    )
