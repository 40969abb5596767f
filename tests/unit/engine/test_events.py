"""Events are transitions of status, told once."""

from dataclasses import replace

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


def test_the_same_event_folds_for_a_while_and_another_does_not() -> None:
    def name(event: Event, minute: int) -> object:
        body = manifest(event, model(), now=NOW.replace(minute=minute), instance="a")
        return body["metadata"]["name"]

    assert name(EVENT, 0) == name(EVENT, 9)
    assert name(EVENT, 0) != name(EVENT, 10)
    assert name(EVENT, 0) != name(replace(EVENT, note="other"), 0)


def test_a_note_fits_the_api() -> None:
    long = replace(EVENT, note="word " * 1000)

    assert len(manifest(long, model(), now=NOW, instance="a")["note"].encode()) <= 1024
