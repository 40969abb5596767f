"""Events are transitions of status, told once."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.observed import KEY, NOW, decision, deployment, model, pod, revision, snapshot

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.plan import Decision, RolloutState, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.report.events import Event, manifest, transitions
from kindling_operator.report.status import status

NEW, OLD = revision("2222222222"), revision("1111111111", served=True)
ONE = decision((OLD, 1))

LOADING = snapshot(pods=[pod("a")], children=[deployment()])
SERVING = snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"])
ROLLING = snapshot(
    pods=[pod("a", ready=True), pod("b", digest=NEW.hash)],
    children=[deployment(), deployment(NEW.hash)],
    endpoints=["a"],
)
ROLLED = snapshot(
    pods=[pod("b", digest=NEW.hash, ready=True)],
    children=[deployment(NEW.hash)],
    endpoints=["b"],
)
REFUSED = decision(verdicts=(Verdict(ConditionType.ACCEPTED, Reason.UNKNOWN_MODEL, "No."),))


def between(*steps: tuple[Snapshot, Decision]) -> list[str]:
    """What is told on the way through these states, each stored before the next is seen."""
    told: list[str] = []
    stored: dict[str, object] = {}
    for seen, made in steps:
        now = replace(seen, models={KEY: model(status=stored)})
        new = status(now, made, Outcome())
        told += [f"{event.type} {event.reason}" for event in transitions(now, made, new)]
        stored = new.to_wire()
    return told


CASES: dict[str, tuple[list[tuple[Snapshot, Decision]], list[str]]] = {
    "a first life": (
        [(snapshot(), ONE), (LOADING, ONE), (SERVING, ONE)],
        ["Normal PlanChosen", "Normal ReplicaReady"],
    ),
    "the same state twice": (
        [(SERVING, ONE), (SERVING, ONE)],
        ["Normal PlanChosen", "Normal ReplicaReady"],
    ),
    "a refusal, and its correction": (
        [(snapshot(), REFUSED), (snapshot(), REFUSED), (snapshot(), ONE)],
        ["Warning PlanRefused", "Normal PlanChosen"],
    ),
    "a rollout": (
        [
            (SERVING, ONE),
            (ROLLING, decision((NEW, 1), (OLD, 1))),
            (ROLLED, decision((NEW, 1))),
        ],
        [
            "Normal PlanChosen",
            "Normal ReplicaReady",
            "Normal PlanChosen",
            "Normal RolloutStarted",
            "Normal RolloutCompleted",
        ],
    ),
    "a rollback": (
        [
            (ROLLING, decision((NEW, 1), (OLD, 1))),
            (SERVING, decision((OLD, 1), state=RolloutState.ROLLED_BACK)),
        ],
        [
            "Normal PlanChosen",
            "Normal RolloutStarted",
            "Normal ReplicaReady",
            "Normal PlanChosen",
            "Warning RolloutRolledBack",
        ],
    ),
    "an engine that fails, and fails again": (
        [
            (LOADING, ONE),
            (snapshot(pods=[pod("a", ended_exit_code=70, restarts=1)]), ONE),
            (snapshot(pods=[pod("a", ended_exit_code=70, restarts=1)]), ONE),
        ],
        ["Normal PlanChosen", "Warning ReplicaFailed"],
    ),
    "more replicas": (
        [(SERVING, ONE), (SERVING, decision((OLD, 3)))],
        ["Normal PlanChosen", "Normal ReplicaReady", "Normal Scaled"],
    ),
}


@pytest.mark.parametrize(("steps", "expected"), CASES.values(), ids=CASES)
def test_what_is_told(steps: list[tuple[Snapshot, Decision]], expected: list[str]) -> None:
    assert between(*steps) == expected


EVENT = Event("Warning", "PlanRefused", "Plan", "UnknownModel: No such model.")


def test_an_event_names_its_object_and_who_tells_it() -> None:
    body = manifest(EVENT, model(), now=NOW, instance="operator-0")

    assert body["metadata"]["namespace"] == "ml"
    assert body["metadata"]["name"].startswith("flint.")
    assert body["eventTime"] == "2026-11-30T10:00:00.000000Z"
    assert (body["type"], body["reason"], body["action"]) == ("Warning", "PlanRefused", "Plan")
    assert body["note"] == "UnknownModel: No such model."
    assert body["reportingController"] == "kindling.dev/operator"
    assert body["reportingInstance"] == "operator-0"
    assert body["regarding"]["uid"] == "uid-of-flint"


def name(event: Event, *, now: datetime = NOW, instance: str = "a", **metadata: Any) -> str:
    body = manifest(event, model(**metadata), now=now, instance=instance)
    return str(body["metadata"]["name"])


@pytest.mark.parametrize(
    "later", [timedelta(seconds=1), timedelta(seconds=599), timedelta(seconds=600), timedelta(1)]
)
@pytest.mark.parametrize("second", [0, 599])
def test_the_same_event_has_one_name_at_any_time_and_from_any_process(
    later: timedelta, second: int
) -> None:
    """Also where ten minutes end: the API server refuses the second one of a name."""
    first = NOW + timedelta(seconds=second)

    assert name(EVENT, now=first) == name(EVENT, now=first + later, instance="b")


def test_another_event_object_or_spec_has_another_name() -> None:
    names = {
        name(EVENT),
        name(replace(EVENT, note="other")),
        name(replace(EVENT, reason="PlanChosen")),
        name(EVENT, uid="somebody-else"),
        name(EVENT, generation=2),
    }

    assert len(names) == 5


def test_a_note_fits_the_api() -> None:
    long = replace(EVENT, note="word " * 1000)

    assert len(manifest(long, model(), now=NOW, instance="a")["note"].encode()) <= 1024
