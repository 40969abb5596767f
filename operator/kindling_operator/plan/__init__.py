"""The planner: a pure function of the snapshot. No I/O, no clock, no randomness, no logging."""

from __future__ import annotations

from dataclasses import replace

from kindling_operator.model.names import Key
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Decision, RevisionTarget, RolloutState, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.better import better_plan
from kindling_operator.plan.cachelimit import limit_problem
from kindling_operator.plan.checks import judge_beside_the_plan
from kindling_operator.plan.choice import Choice, accepted
from kindling_operator.plan.course import rollout_waits, running, step_of, step_towards
from kindling_operator.plan.groups import Groups, lacks_groups, with_groups
from kindling_operator.plan.placement import Placed, Placements, placements
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.revision import new_revision, wanted_hash
from kindling_operator.plan.rollout import Step
from kindling_operator.plan.standing import Standing, standings, stored_for
from kindling_operator.plan.subject import subject_of
from kindling_operator.plan.verdicts import (
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
    mine = (placed or placements(snapshot)).of(key)
    choice = _with_api(snapshot, mine.choice)
    later = mine.instead and _with_api(snapshot, mine.instead)
    ours = frozen or _fresh(model, choice) or _fresh(model, later)
    wanted = ours or running(standing)
    # 4. Nothing to run: say why.
    if wanted is None:
        return Decision(
            key=key,
            verdicts=waiting_verdicts(choice.accepted, choice.waiting, model.spec.replicas),
            desired_replicas=model.spec.replicas,
        )
    # 5. One step of the rollout towards it.
    if ours is not None:
        step = step_towards(snapshot, model, standing, ours, mine)
    else:
        step = step_of(snapshot, model, standing, wanted)
    if frozen is not None:
        choice = replace(choice, accepted=_still_accepted(snapshot, model, frozen))
    # 6. Which of its groups exist, where a replica is more than one pod.
    judged = step.targets[0].revision.hash == wanted_hash(model) and not step.overdue
    room = mine.room_now if judged else None
    groups = with_groups(snapshot, model, step.targets, room=room, short=mine.shortfall)
    step = replace(step, targets=groups.targets)
    return _decision(model, step, choice, frozen=frozen, mine=mine, groups=groups)


def _with_api(snapshot: Snapshot, choice: Choice) -> Choice:
    """A plan of groups waits for the API that makes them."""
    lacks = lacks_groups(snapshot, choice.plan) if choice.plan is not None else None
    return choice if lacks is None else replace(choice, waiting=lacks)


def _still_accepted(snapshot: Snapshot, model: ParsedModel, frozen: Standing) -> Verdict:
    """The verdict on a spec whose plan is stored: the other fields may have changed since."""
    subject, plan = subject_of(model, snapshot.environment), frozen.revision.plan
    if subject is None:
        return accepted(plan)
    refused = judge_beside_the_plan(subject) or limit_problem(subject, plan)
    return refused or accepted(plan)


def _fresh(model: ParsedModel, choice: Choice | None) -> Standing | None:
    """The revision to create now, unless the spec is refused or something is missing for it."""
    if choice is None or choice.plan is None or choice.waiting is not None:
        return None
    return Standing(new_revision(model, choice.plan))


def _decision(
    model: ParsedModel,
    step: Step,
    choice: Choice,
    *,
    frozen: Standing | None,
    mine: Placed,
    groups: Groups,
) -> Decision:
    current = step.targets[0].revision
    better = None
    if frozen is not None and choice.plan is not None and choice.waiting is None:
        better = better_plan(model.key, frozen.revision.plan, choice.plan)
    verdicts = [choice.accepted]
    waits = rollout_waits(model, step, choice.waiting if frozen is None else None, mine)
    if waits is not None:
        verdicts.append(waits)
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
        ask=step.ask,
        short=mine.shortfall,
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
