"""Models compete for GPUs: who comes first, and no GPU counts twice."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.builders import (
    Cluster,
    catalog_spec,
    cpu_node,
    foreign_pod,
    gpu_node,
    tiny_spec,
)

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.placement import models_in_order
from kindling_operator.plan.standing import Standing, standings

A, B, C = Key("ml", "a"), Key("ml", "b"), Key("web", "c")
FLINT = catalog_spec("flint")


def waits(decision: Decision) -> bool:
    scheduled = decision.verdict(ConditionType.SCHEDULED)
    return scheduled is not None and scheduled.reason is Reason.INSUFFICIENT_GPU


def gpus(count: int) -> Cluster:
    return Cluster(nodes=(gpu_node("gpu-0", gpus=count), cpu_node()))


def test_order_is_priority_then_age_then_name() -> None:
    urgent = catalog_spec("flint", placement={"priorityClassName": "urgent"})
    found = gpus(8)
    found.priorities = {"urgent": 1000}
    found.apply(FLINT, key=Key("ml", "young"), age=timedelta(minutes=1))
    found.apply(FLINT, key=Key("ml", "old"), age=timedelta(hours=9))
    found.apply(urgent, key=Key("ml", "urgent"), age=timedelta(seconds=1))
    found.apply(FLINT, key=Key("web", "twin"))
    found.apply(FLINT, key=Key("ml", "twin"))
    found.apply({"replicas": "x"}, key=Key("ml", "unreadable"))
    found.apply(FLINT, key=Key("ml", "gone"), deletionTimestamp="2026-11-30T09:00:00Z")

    order = [str(model.key) for model in models_in_order(found.snapshot())]

    assert order == ["ml/urgent", "ml/old", "ml/twin", "web/twin", "ml/young"]


def test_a_gpu_is_promised_to_one_model_only() -> None:
    found = gpus(1).apply(FLINT, key=A).apply(FLINT, key=B, age=timedelta(minutes=1))

    assert not waits(found.decide(A))
    assert waits(found.decide(B))


def test_every_replica_that_does_not_run_yet_has_its_gpu_set_aside() -> None:
    two = {**FLINT, "replicas": 2}
    found = gpus(3).apply(two, key=A).apply(FLINT, key=B, age=timedelta(minutes=1))
    found.apply(FLINT, key=Key("ml", "c"), age=timedelta(seconds=1))

    assert [waits(found.decide(key)) for key in (A, B, Key("ml", "c"))] == [False, False, True]


def test_a_stored_revision_keeps_what_its_missing_replicas_need() -> None:
    found = gpus(2).apply({**FLINT, "replicas": 2}, key=A)
    first = found.step(A)
    assert first.current is not None
    found.apply(FLINT, key=B, age=timedelta(minutes=1))
    assert waits(found.decide(B))

    found.serve(first.current.hash, key=A, node="gpu-0", gpus=1)
    assert waits(found.decide(B))


def test_a_pod_counts_once_whether_it_runs_or_is_about_to() -> None:
    found = gpus(2).apply(FLINT, key=A)
    first = found.step(A)
    assert first.current is not None
    found.start(first.current.hash, key=A, node="gpu-0", gpus=1)
    found.apply(FLINT, key=B, age=timedelta(minutes=1))

    assert not waits(found.decide(B))


def test_models_on_cpu_and_refused_ones_set_nothing_aside() -> None:
    found = gpus(1).apply(tiny_spec(), key=A)
    found.apply({**FLINT, "scaling": {"maxReplicas": 2}}, key=C)
    found.apply(FLINT, key=B, age=timedelta(minutes=1))

    assert not waits(found.decide(B))


def test_an_earlier_model_that_waits_for_its_claim_blocks_nobody() -> None:
    found = gpus(1).apply(FLINT, key=C).apply(FLINT, key=B, age=timedelta(minutes=1))
    scheduled = found.decide(C).verdict(ConditionType.SCHEDULED)

    assert scheduled is not None
    assert scheduled.reason is Reason.CLAIM_NOT_BOUND
    assert not waits(found.decide(B))


def test_an_earlier_model_that_finds_no_room_leaves_what_there_is() -> None:
    """It needs a product that is held; the later one runs on another."""
    h200_only = catalog_spec("flint", placement={"gpu": {"products": ["NVIDIA-H200"]}})
    found = Cluster(
        nodes=(gpu_node("gpu-0", gpus=1), gpu_node("gpu-1", "NVIDIA-B200", gpus=1)),
        pods=(foreign_pod("gpu-0", gpus=1),),
    )
    found.apply(h200_only, key=A).apply(FLINT, key=B, age=timedelta(minutes=1))

    assert waits(found.decide(A))
    assert not waits(found.decide(B))


def test_a_revision_that_was_given_up_sets_nothing_aside() -> None:
    found = gpus(2).apply(FLINT, key=A)
    served = found.step(A).current
    assert served is not None
    found.serve(served.hash, key=A, node="gpu-0", gpus=1)
    found.apply({**FLINT, "runtime": {"image": "registry.test/broken"}}, key=A)
    broken = found.step(A).current
    assert broken is not None
    assert broken.hash != served.hash
    found.start(broken.hash, key=A, node="gpu-0", gpus=1)
    found.apply(FLINT, key=B, age=timedelta(minutes=1))
    assert waits(found.decide(B))

    found.later(hours=1).step(A)
    assert found.deployed(A) == {served.hash}
    assert not waits(found.decide(B))


def test_pods_that_the_cluster_refuses_have_nothing_kept_free_for_them() -> None:
    found = gpus(1).apply(FLINT, key=A)
    made = found.step(A).current
    assert made is not None
    found.apply(FLINT, key=B, age=timedelta(minutes=1))
    assert waits(found.decide(B))

    place = ("Deployment", f"a-{made.hash}")
    refused = replace(found.children[A][place], failure="exceeded quota: pods, limited: 0")
    found.children[A][place] = refused

    assert not waits(found.decide(B))


def test_a_first_revision_whose_time_is_up_has_nothing_kept_free_for_it() -> None:
    found = gpus(1).apply(FLINT, key=A)
    found.step(A)
    found.apply(FLINT, key=B, age=timedelta(minutes=1))
    assert waits(found.decide(B))

    assert not waits(found.later(hours=1).decide(B))


def test_a_gpu_that_is_kept_free_is_not_said_to_be_held() -> None:
    found = gpus(2).apply(FLINT, key=A).apply(FLINT, key=B, age=timedelta(minutes=1))
    running = found.step(A).current
    assert running is not None
    found.serve(running.hash, key=A, node="gpu-0", gpus=1)
    found.apply({**FLINT, "replicas": 2}, key=A)

    scheduled = found.decide(B).verdict(ConditionType.SCHEDULED)

    assert scheduled is not None
    assert scheduled.message == (
        "Needs 1 x NVIDIA-H200 in one node; best node gpu-0 has 0 of 2 free, 1 held by ml/a, 1"
        " reserved for ml/a: free 1 or add a node."
    )


def test_a_model_that_cannot_be_decided_on_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = gpus(1).apply(FLINT, key=A).apply(FLINT, key=B, age=timedelta(minutes=1))

    def fails(snapshot: Snapshot, model: ParsedModel) -> tuple[Standing, ...]:
        if model.key == A:
            raise OverflowError("date value out of range")
        return standings(snapshot, model)

    monkeypatch.setattr("kindling_operator.plan.placement.standings", fails)

    assert not waits(found.decide(B))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    ended = replace(foreign_pod("gpu-0", gpus=1), phase=phase)
    found = gpus(1).apply(FLINT, key=A)
    found.pods = (ended,)

    assert not waits(found.decide(A))
