"""What the owner of a model reads while a replica fails, hangs, starts again, and afterwards."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from tests.support.observed import (
    NOW,
    decision,
    deployment,
    pod,
    revision,
    short,
    snapshot,
    told,
)

from kindling_operator.model.conditions import Condition
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Decision, RolloutState
from kindling_operator.model.reports import Report
from kindling_operator.plan.causes import BUDGET

ONE: Final = decision((revision(served=True), 1))
TWO: Final = decision((revision(served=True), 2))
SILENT: Final = "NoToken: the engine showed no token: it did not answer within 10 s"
LATER: Final = NOW + timedelta(minutes=3)
STALLED: Final = pod("a", up=True, started=NOW, unready_since=LATER)
CRASHED: Final[dict[str, Any]] = {
    "ended_exit_code": 70,
    "ended_message": "EngineExited: the engine was killed by SIGKILL",
}


def read(
    *pods: PodView, made: Decision = ONE, troubles: dict[str, str] | None = None
) -> dict[str, Condition]:
    """The conditions of a model with these pods, the ready ones among them behind its Service."""
    reports = {f"uid-of-{name}": Report(trouble=words) for name, words in (troubles or {}).items()}
    ready = [each.name for each in pods if each.ready]
    seen = snapshot(pods=pods, children=[deployment()], endpoints=ready, reports=reports)
    return told(seen, made)


def test_an_engine_that_hangs_is_named_at_its_first_miss_and_when_it_loses_readiness() -> None:
    sentence = (
        "a: the engine showed no token: it did not answer within 10 s; it is started again unless"
        " one comes."
    )
    for each in (pod("a", ready=True), STALLED):
        found = read(each, troubles={"a": SILENT})

        assert short(found["Available"]) == "False/EngineStalled"
        assert short(found["Ready"]) == "False/EngineStalled"
        assert found["Ready"].message == sentence


def test_a_replica_that_lost_readiness_does_not_load_and_is_told_without_a_report() -> None:
    found = read(STALLED)

    assert found["Ready"].message == (
        "a generates no token since 10:03 UTC, and is started again unless one comes: see `kubectl"
        " logs -n ml a`."
    )
    assert found["Progressing"].message == (
        "0 of 1 replicas of flint-1111111111 generate tokens; pod a runs and generates no token any"
        " more."
    )


@pytest.mark.parametrize(
    "changes",
    [{"up": False}, {"unready_since": NOW - timedelta(minutes=1)}, {"unready_since": None}],
    ids=["it has no token yet", "it was never ready", "nobody says since when"],
)
def test_an_engine_that_starts_does_not_hang(changes: dict[str, Any]) -> None:
    assert short(read(replace(STALLED, **changes))["Ready"]) == "False/Loading"


def test_a_replica_in_trouble_does_not_count_and_does_not_hide_another() -> None:
    found = read(pod("a", ready=True), pod("b", ready=True), made=TWO, troubles={"a": SILENT})

    assert short(found["Ready"]) == "True/Serving"
    assert found["Ready"].message.startswith("1 of 2 replicas generate tokens at http://")


def test_a_store_that_sends_nothing_is_named_while_it_is_waited_for() -> None:
    loads = pod("a", fetching=True, downloads=True, started=NOW)
    assert short(read(loads)["Ready"]) == "False/Downloading"
    found = read(loads, troubles={"a": "StoreStalled: no byte since 10:00 (HTTP 503)"})

    assert short(found["Ready"]) == "False/WeightsIncomplete"
    assert found["Ready"].message == "a: no byte since 10:00 (HTTP 503)."


def test_the_cause_stands_until_the_replica_serves_again() -> None:
    """Between two starts and during the next one alike: one word, one count."""
    waits = pod("a", restarts=1, waiting_reason="CrashLoopBackOff", **CRASHED)
    loads = replace(waits, restarts=2, waiting_reason="", started=NOW)
    sentence = (
        "The engine of a ended with exit code 70 (the engine was killed by SIGKILL), 2 times in"
        " all: see `kubectl logs --previous -n ml a`."
    )

    for each in (waits, loads):
        found = read(each)
        assert short(found["Ready"]) == "False/EngineFailed"
        assert found["Ready"].message == sentence
    assert short(read(loads)["Progressing"]) == "True/Loading"
    assert "pod a (restarts: 1, the last ended with exit code 70: the engine was killed by" in (
        read(waits)["Progressing"].message
    )


def test_a_failure_that_nobody_saw_is_told_afterwards() -> None:
    """Such as one that happened while no operator ran."""
    found = read(pod("a", ready=True, restarts=1, started=NOW, **CRASHED))

    assert short(found["Ready"]) == "True/Serving"
    assert found["Progressing"].message == (
        "All 1 replicas run revision flint-1111111111, pod a (restarts: 1, the last ended with exit"
        " code 70: the engine was killed by SIGKILL)."
    )


DOWNLOADS: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "the store refuses": (
        {"ended_exit_code": 78, "ended_message": "StoreRefused: it may not read; allow it"},
        "WeightsIncomplete",
        "a (ended 5 times in all): it may not read; allow it.",
    ),
    "the kernel kills it": (
        {"ended_exit_code": 137, "ended_reason": "OOMKilled"},
        "OutOfMemory",
        "The kernel killed the download in a at its memory limit: report it with the log of"
        " `kubectl logs --previous -n ml a -c fetch`.",
    ),
    "it ends without a word": (
        {"ended_exit_code": 1, "ended_reason": "Error"},
        "EngineFailed",
        "The download in a ended with exit code 1 (Error), 5 times in all: see `kubectl logs"
        " --previous -n ml a -c fetch`.",
    ),
}


@pytest.mark.parametrize(("end", "reason", "sentence"), DOWNLOADS.values(), ids=DOWNLOADS)
def test_a_download_that_fails_again_and_again(
    end: dict[str, Any], reason: str, sentence: str
) -> None:
    waits = pod(
        "a", phase="Pending", downloads=True, restarts=4, waiting_reason="CrashLoopBackOff", **end
    )
    found = read(waits)

    assert short(found["Ready"]) == f"False/{reason}"
    assert found["Ready"].message == sentence


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("OutOfMemory: the kernel ended one of its processes", "OutOfMemory"),
        ("EngineExited: CUDA error", "EngineFailed"),
    ],
    ids=["it was the memory", "something else had died of memory before"],
)
def test_the_runtime_knows_more_of_memory_than_the_kubelet(words: str, reason: str) -> None:
    """The kubelet says OOMKilled of a container in which the kernel has ever ended a process."""
    ended = pod("a", ended_exit_code=70, ended_reason="OOMKilled", ended_message=words)

    assert short(read(ended)["Ready"]) == f"False/{reason}"


LOOPS: Final = pod(
    "a",
    restarts=BUDGET - 1,
    waiting_reason="CrashLoopBackOff",
    ended_after=timedelta(minutes=1),
    **CRASHED,
)


def test_a_replica_that_does_not_stay_up_has_failed_and_says_why_and_how_often() -> None:
    found = read(LOOPS)

    assert short(found["Progressing"]) == "False/Failed"
    assert found["Progressing"].message == (
        "Revision flint-1111111111 has failed, as pod a (restarts: 4, the last ended with exit code"
        " 70: the engine was killed by SIGKILL) does not stay up: correct what that names, or the"
        " spec; it is tried on with pauses of 5 minutes."
    )
    assert short(found["Ready"]) == "False/EngineFailed", "the cause says more than that it failed"


@pytest.mark.parametrize(
    ("pods", "made"),
    [
        ((replace(LOOPS, restarts=BUDGET - 2),), ONE),
        ((replace(LOOPS, ended_after=timedelta(hours=1)),), ONE),
        ((LOOPS, pod("b", ready=True)), TWO),
        ((LOOPS,), decision((revision(), 1), (revision("0000000000"), 1))),
    ],
    ids=["not often enough", "after a long life", "another serves", "an older one is left"],
)
def test_a_failure_is_not_the_end_of_all(pods: tuple[PodView, ...], made: Decision) -> None:
    assert read(*pods, made=made)["Progressing"].reason != "Failed"


def of_group(rank: int, **changes: Any) -> PodView:
    return pod(f"g-{rank}", group="g", rank=rank, **changes)


ECHO: Final[dict[str, Any]] = {
    "ended_exit_code": 70,
    "ended_message": "GroupBroken: pod 1 of the group has started again",
    "ended_at": NOW,
}


@pytest.mark.parametrize("ended_at", [NOW - timedelta(seconds=20), NOW])
def test_of_a_group_the_cause_is_told_although_its_echo_is_the_one_that_waits(
    ended_at: Any,
) -> None:
    leader = of_group(0, waiting_reason="CrashLoopBackOff", **ECHO)
    follower = of_group(1, restarts=1, started=NOW, ended_at=ended_at, **CRASHED)
    found = read(leader, follower)

    assert short(found["Ready"]) == "False/EngineFailed"
    assert "The engine of g-1 ended with exit code 70 (the engine was killed" in (
        found["Ready"].message
    )


def test_of_a_group_an_end_of_long_ago_is_not_the_cause() -> None:
    long_ago = NOW - timedelta(hours=3)
    leader = of_group(0, restarts=1, started=NOW, ended_at=long_ago, **CRASHED)
    cause = {"ended_exit_code": 70, "ended_message": "EngineExited: CUDA error", "ended_at": NOW}
    follower = of_group(1, restarts=1, started=NOW, **cause)

    assert "The engine of g-1 ended with exit code 70 (CUDA error), once" in (
        read(leader, follower)["Ready"].message
    )


def test_a_group_that_does_not_stay_up_has_failed() -> None:
    leader = of_group(0, restarts=BUDGET, started=NOW, **ECHO)
    follower = of_group(1, restarts=BUDGET, started=NOW, ended_at=NOW, **CRASHED)
    found = read(leader, follower)

    assert short(found["Progressing"]) == "False/Failed"
    assert "pod g-1 (restarts: 5, the last ended with exit code 70" in (
        found["Progressing"].message
    )


def test_a_change_that_was_taken_back_says_why_it_failed() -> None:
    bad = revision("2222222222", failed=True, why="exit code 78: no config.json")
    made = decision((revision(served=True), 1), kept=(bad,), state=RolloutState.ROLLED_BACK)
    found = read(pod("a", ready=True), made=made)

    assert short(found["Ready"]) == "False/RolledBack"
    assert found["Ready"].message == (
        "The newest revision failed (exit code 78: no config.json) and flint-1111111111 serves"
        " again: correct the spec to try once more."
    )
