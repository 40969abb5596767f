"""Every condition from snapshot, decision and outcome, as tables; and the status around them."""

from typing import Any

import pytest
from tests.support.observed import (
    KEY,
    NOW,
    PLAN,
    child,
    decision,
    deployment,
    model,
    pod,
    revision,
    short,
    snapshot,
    told,
)

from kindling_operator.model.conditions import ConditionStatus, ConditionType, Reason
from kindling_operator.model.names import DEPLOYMENT
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.plan import Decision, RolloutState, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.model.status import InferenceModelStatus
from kindling_operator.report.status import status

NEW, OLD = revision("2222222222"), revision("1111111111", served=True)
ONE = decision((OLD, 1))
TWO = decision((OLD, 2))
ROLLING = decision((NEW, 1), (OLD, 1))
REFUSED = Verdict(ConditionType.ACCEPTED, Reason.UNKNOWN_MODEL, "No such model.")


CASES: dict[str, tuple[Snapshot, Decision, dict[str, str]]] = {
    "nothing exists yet": (
        snapshot(),
        ONE,
        {
            "Accepted": "True/SpecAccepted",
            "Scheduled": "Unknown/PodsPending",
            "IdentityReady": "True/NotConfigured",
            "CacheReady": "True/NotConfigured",
            "Progressing": "True/Creating",
            "Available": "False/NoReadyReplica",
            "ScalingActive": "False/Disabled",
            "PlanCurrent": "Unknown/NotMeasured",
            "Ready": "False/PodsPending",
        },
    ),
    "the pod waits for the scheduler": (
        snapshot(pods=[pod("a", node="", phase="Pending")], children=[deployment()]),
        ONE,
        {"Scheduled": "Unknown/PodsPending", "Progressing": "True/Creating"},
    ),
    "no node has room": (
        snapshot(pods=[pod("a", node="", unschedulable="0/3 nodes: 3 Insufficient cpu.")]),
        ONE,
        {
            "Scheduled": "False/InsufficientResources",
            "Progressing": "True/Creating",
            "Ready": "False/InsufficientResources",
        },
    ),
    "no node has the GPUs": (
        snapshot(pods=[pod("a", node="", unschedulable="3 Insufficient nvidia.com/gpu")]),
        ONE,
        {"Scheduled": "False/InsufficientGPU"},
    ),
    "the claim is not bound": (
        snapshot(
            pods=[pod("a", node="", unschedulable="unbound immediate PersistentVolumeClaims")]
        ),
        ONE,
        {"Scheduled": "False/ClaimNotBound"},
    ),
    "no node matches": (
        snapshot(pods=[pod("a", node="", unschedulable="didn't match Pod's node affinity")]),
        ONE,
        {"Scheduled": "False/NoMatchingNode"},
    ),
    "the cluster refuses the pods": (
        snapshot(children=[deployment(failure="exceeded quota: memory")]),
        ONE,
        {"Scheduled": "False/PodsRefused", "Ready": "False/PodsRefused"},
    ),
    "the image cannot be pulled": (
        snapshot(pods=[pod("a", phase="Pending", waiting_reason="ImagePullBackOff")]),
        ONE,
        {
            "Scheduled": "False/ImageNotPullable",
            "Available": "False/ImageNotPullable",
            "Ready": "False/ImageNotPullable",
        },
    ),
    "the container cannot be made": (
        snapshot(pods=[pod("a", phase="Pending", waiting_reason="CreateContainerConfigError")]),
        ONE,
        {"Available": "False/ContainerNotStarted", "Ready": "False/ContainerNotStarted"},
    ),
    "the engine loads": (
        snapshot(pods=[pod("a")]),
        ONE,
        {
            "Scheduled": "True/PodsScheduled",
            "Progressing": "True/Loading",
            "Available": "False/NoReadyReplica",
            "Ready": "False/Loading",
        },
    ),
    "the engine loads again after it has failed": (
        snapshot(pods=[pod("a", ended_exit_code=70, restarts=1, started=NOW)]),
        ONE,
        {
            "Progressing": "True/Loading",
            "Available": "False/EngineFailed",
            "Ready": "False/EngineFailed",
        },
    ),
    "the engine has failed and is not started again yet": (
        snapshot(pods=[pod("a", ended_exit_code=70, waiting_reason="CrashLoopBackOff")]),
        ONE,
        {"Available": "False/EngineFailed", "Ready": "False/EngineFailed"},
    ),
    "a token was generated, and the Service does not know yet": (
        snapshot(pods=[pod("a", ready=True)], children=[deployment()]),
        ONE,
        {"Available": "False/NoReadyReplica", "Progressing": "False/Complete"},
    ),
    "it serves": (
        snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"]),
        ONE,
        {
            "Scheduled": "True/PodsScheduled",
            "Progressing": "False/Complete",
            "Available": "True/Serving",
            "PlanCurrent": "True/Current",
            "Ready": "True/Serving",
        },
    ),
    "one of two serves": (
        snapshot(pods=[pod("a", ready=True), pod("b")], endpoints=["a"]),
        TWO,
        {"Available": "True/Serving", "Progressing": "True/Loading", "Ready": "True/Serving"},
    ),
    "one of two fails while the other serves": (
        snapshot(pods=[pod("a", ready=True), pod("b", ended_exit_code=70)], endpoints=["a"]),
        TWO,
        {"Available": "True/Serving", "Ready": "True/Serving"},
    ),
    "nothing is wanted": (
        snapshot(children=[deployment(replicas=0)]),
        decision((OLD, 0)),
        {
            "Scheduled": "True/PodsScheduled",
            "Available": "False/ScaledToZero",
            "Progressing": "False/Complete",
            "Ready": "False/ScaledToZero",
        },
    ),
    "a rollout begins": (
        snapshot(
            pods=[pod("a", ready=True), pod("b", digest=NEW.hash)],
            children=[deployment(), deployment(NEW.hash)],
            endpoints=["a"],
        ),
        ROLLING,
        {"Progressing": "True/RollingOut", "Available": "True/Serving", "Ready": "True/Serving"},
    ),
    "the old replica leaves": (
        snapshot(
            pods=[
                pod("a", ready=True, terminating=True),
                pod("b", digest=NEW.hash, ready=True),
            ],
            children=[deployment(NEW.hash)],
            endpoints=["b"],
        ),
        decision((NEW, 1)),
        {"Progressing": "True/Draining", "Available": "True/Serving"},
    ),
    "a failed revision was rolled back": (
        snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"]),
        decision((OLD, 1), state=RolloutState.ROLLED_BACK),
        {
            "Progressing": "False/RolledBack",
            "Available": "True/Serving",
            "Ready": "False/RolledBack",
        },
    ),
    "a failed revision is held": (
        snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"]),
        decision((NEW, 1), (OLD, 1), state=RolloutState.HELD),
        {"Progressing": "False/Held", "Ready": "False/Held"},
    ),
    "a better plan waits": (
        snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"]),
        decision(
            (OLD, 1),
            better=Verdict(ConditionType.PLAN_CURRENT, Reason.BETTER_PLAN_AVAILABLE, "Take it."),
        ),
        {"PlanCurrent": "False/BetterPlanAvailable", "Ready": "True/Serving"},
    ),
    "the spec is refused and nothing runs": (
        snapshot(),
        decision(verdicts=(REFUSED,)),
        {
            "Accepted": "False/UnknownModel",
            "Scheduled": "Unknown/NotAccepted",
            "IdentityReady": "Unknown/NotAccepted",
            "CacheReady": "Unknown/NotAccepted",
            "Progressing": "False/NotAccepted",
            "Available": "False/NotAccepted",
            "ScalingActive": "False/NotAccepted",
            "PlanCurrent": "Unknown/NotAccepted",
            "Ready": "False/UnknownModel",
        },
    ),
    "the spec is refused and an older one serves": (
        snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"]),
        decision((OLD, 1), verdicts=(REFUSED,)),
        {
            "Accepted": "False/UnknownModel",
            "Available": "True/Serving",
            "Ready": "False/UnknownModel",
        },
    ),
}


@pytest.mark.parametrize(("seen", "made", "expected"), CASES.values(), ids=CASES)
def test_conditions(seen: Snapshot, made: Decision, expected: dict[str, str]) -> None:
    found = told(seen, made)

    assert {type_: short(found[type_]) for type_ in expected} == expected
    assert list(found) == [type_.value for type_ in ConditionType], "all, in their order"
    assert all(c.observed_generation == 1 and c.message for c in found.values())


ENDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "the weights are incomplete": (
        {
            "ended_exit_code": 78,
            "ended_message": "WeightsIncomplete: the folder has no config.json; copy it there",
        },
        "WeightsIncomplete",
        "a: the folder has no config.json; copy it there.",
    ),
    "the preflight fails": (
        {
            "ended_exit_code": 78,
            "ended_message": "PreflightFailed: port 8000 of the engine is taken, also by weights"
            " [checks: failed: engine_port_free; ok: clock_is_sane]",
        },
        "PreflightFailed",
        "a: port 8000 of the engine is taken, also by weights.",
    ),
    "the first token comes too late": (
        {
            "ended_exit_code": 70,
            "ended_message": "StartDeadlineExceeded: the engine generated no token within 9 s",
        },
        "StartDeadlineExceeded",
        "a: the engine generated no token within 9 s.",
    ),
    "the engine hangs": (
        {"ended_exit_code": 70, "ended_message": "Wedged: the engine is wedged"},
        "EngineStalled",
        "a: the engine is wedged.",
    ),
    "the contract is another": (
        {"ended_exit_code": 64, "ended_message": "ContractRefused: the plan has version 2"},
        "ContractMismatch",
        "a: the plan has version 2.",
    ),
    "the runtime says nothing": (
        {"ended_exit_code": 78},
        "PreflightFailed",
        "ended with exit code 78 and said nothing: see `kubectl logs --previous -n ml a`",
    ),
    "something else leaves a message": (
        {"ended_exit_code": 70, "ended_message": "RuntimeError: no weights"},
        "EngineFailed",
        "ended with exit code 70 (RuntimeError: no weights), once",
    ),
    "the engine ends": (
        {"ended_exit_code": 70, "ended_message": "EngineExited: CUDA error.", "restarts": 3},
        "EngineFailed",
        "ended with exit code 70 (CUDA error), 4 times in all",
    ),
    "the kernel kills it": (
        {"ended_exit_code": 137, "ended_reason": "OOMKilled"},
        "OutOfMemory",
        "at its memory limit of 6.0 GiB: raise spec.runtime.resources.memory",
    ),
}


@pytest.mark.parametrize(("end", "reason", "words"), ENDS.values(), ids=ENDS)
def test_why_an_engine_does_not_serve(end: dict[str, Any], reason: str, words: str) -> None:
    found = told(snapshot(pods=[pod("a", **end)]), ONE)

    assert short(found["Available"]) == f"False/{reason}"
    assert words in found["Available"].message
    assert found["Ready"].message == found["Available"].message


def test_the_time_to_generate_a_token_runs_from_the_start_of_the_container() -> None:
    end: dict[str, Any] = {"ended_exit_code": 70, "ended_message": "EngineExited: CUDA error."}
    again = pod("a", restarts=2, started=NOW.replace(hour=12), **end)
    told_first = told(snapshot(pods=[pod("a", started=NOW)]), ONE)["Progressing"].message
    told_again = told(snapshot(pods=[again]), ONE)["Progressing"].message

    assert "pod a starts the engine and has until 10:30 UTC" in told_first
    assert "pod a (restarts: 2, the last ended with exit code 70: CUDA error)" in told_again
    assert told_again.endswith("starts the engine and has until 12:30 UTC to generate a token.")


def test_a_taken_name_leaves_nothing_to_speak_of() -> None:
    taken = Verdict(ConditionType.ACCEPTED, Reason.NAME_CONFLICT, "Service ml/flint exists.")
    foreign = child(DEPLOYMENT, "flint-2", owner_uid="somebody-else")
    outcome = Outcome(verdict=taken)
    found = status(snapshot(children=[foreign]), ONE, outcome)

    assert found.endpoint == ""
    assert found.plan is None
    conditions = told(snapshot(), ONE, outcome)
    assert short(conditions["Accepted"]) == "False/NameConflict"
    assert short(conditions["Ready"]) == "False/NameConflict"
    assert short(conditions["Available"]) == "False/NotAccepted"


def test_a_name_that_is_taken_later_takes_no_endpoint_away() -> None:
    taken = Verdict(ConditionType.ACCEPTED, Reason.NAME_CONFLICT, "ConfigMap exists.")
    seen = snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"])
    found = status(seen, ROLLING, Outcome(verdict=taken))

    assert found.endpoint == "http://flint.ml.svc:8000/v1"


def test_what_the_cluster_refuses_is_told() -> None:
    verdict = Verdict(ConditionType.PROGRESSING, Reason.APPLY_REFUSED, "exceeded quota.")
    found = told(snapshot(), ONE, Outcome(verdict=verdict))

    assert short(found["Progressing"]) == "False/ApplyRefused"
    assert short(found["Ready"]) == "False/ApplyRefused"


def test_the_status_around_the_conditions() -> None:
    seen = snapshot(
        model(generation=4),
        pods=[
            pod("a", ready=True),
            pod("b", digest=NEW.hash),
            pod("c", terminating=True),
            pod("d", phase="Failed"),
        ],
        endpoints=["a"],
    )
    found = status(seen, ROLLING, Outcome())

    assert found.observed_generation == 4
    assert found.endpoint == "http://flint.ml.svc:8000/v1"
    assert (found.replicas, found.ready_replicas) == (2, 1)
    assert (found.updated_replicas, found.draining_replicas) == (1, 1)
    assert found.selector == "kindling.dev/model=flint,kindling.dev/role=leader"
    assert found.plan is not None
    assert found.plan.revision == "flint-2222222222"
    assert (found.plan.summary, found.plan.context_length) == (PLAN.summary, 2048)


def test_the_transition_time_moves_with_the_status_alone() -> None:
    stored = status(snapshot(pods=[pod("a")]), ONE, Outcome())
    later = NOW.replace(hour=11)
    again = status(
        snapshot(model(status=stored.to_wire()), pods=[pod("a", ended_exit_code=70)], now=later),
        ONE,
        Outcome(),
    )
    before = {c.type: c for c in stored.conditions}
    after = {c.type: c for c in again.conditions}

    assert before["Available"].reason != after["Available"].reason
    assert after["Available"].last_transition_time == before["Available"].last_transition_time
    assert after["Available"].status is ConditionStatus.FALSE


def test_the_same_state_at_another_time_is_the_same_status() -> None:
    pods = [pod("a"), pod("b", ended_exit_code=70, ended_message="no", restarts=2)]
    stored: InferenceModelStatus = status(snapshot(pods=pods), TWO, Outcome())
    wire = stored.to_wire()
    later = snapshot(model(status=wire), pods=pods, now=NOW.replace(hour=23))

    assert status(later, TWO, Outcome()).to_wire() == wire
    assert KEY.name == "flint"
