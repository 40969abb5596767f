"""Replicas that are groups of pods: made whole or not at all, chosen by us, given back in time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from tests.support.builders import KEY, NOW, foreign_pod
from tests.support.groups import GroupCluster, nodes, spec

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import (
    LEADER_WORKER_SET,
    MAX_GROUP_NAME_LENGTH,
    group_number,
    group_object_name,
)
from kindling_operator.plan.groups import HALF_GROUP, HOLD_OFF

S = ConditionType.SCHEDULED


def running(replicas: int, *, on: int = 8) -> GroupCluster:
    """A model whose replicas all serve, each on two nodes."""
    cluster = GroupCluster(nodes=nodes(on)).apply(spec(replicas=replicas))
    cluster.step()
    for number, group in enumerate(cluster.groups()):
        cluster.serve_group(group, (f"gpu-{2 * number}", f"gpu-{2 * number + 1}"))
    cluster.step()
    return cluster


def numbers(cluster: GroupCluster) -> list[int]:
    return [group_number(name) for name in cluster.groups()]


def test_each_replica_is_a_group_of_its_own() -> None:
    cluster = running(2)

    assert cluster.groups() == tuple(f"tiny-{cluster.hash}-{number}" for number in (0, 1))
    assert cluster.deployed() == set()
    assert cluster.decide().targets[0].replicas == 2


def test_nothing_is_made_while_the_api_is_absent() -> None:
    cluster = GroupCluster(nodes=nodes(2)).apply(spec())
    cluster.absent = frozenset({LEADER_WORKER_SET})

    decision = cluster.step()

    waits = decision.verdict(S)
    assert waits is not None
    assert (waits.reason, waits.message) == (
        Reason.LEADER_WORKER_SET_MISSING,
        "One replica spans 2 nodes, which needs the LeaderWorkerSet API, and the cluster does not"
        " have it: install LeaderWorkerSet v0.8 or later.",
    )
    assert cluster.children[KEY] == {}

    cluster.absent = frozenset()
    cluster.step()
    assert numbers(cluster) == [0]


def test_an_api_that_is_removed_leaves_the_plan_as_it_is() -> None:
    cluster = running(1)
    stored = cluster.hash
    cluster.absent = frozenset({LEADER_WORKER_SET})

    decision = cluster.decide()

    assert decision.targets[0].groups == ()
    assert decision.targets[0].revision.hash == stored
    waits = decision.verdict(S)
    assert waits is not None
    assert waits.reason is Reason.LEADER_WORKER_SET_MISSING


def test_the_least_valuable_group_leaves() -> None:
    """The first is not ready, the second serves, the third is ready and gets no traffic."""
    cluster = running(3)
    first, second, _ = cluster.groups()
    cluster.pods = tuple(
        replace(pod, ready=False) if pod.group == first else pod for pod in cluster.pods
    )
    cluster.endpoints[KEY] = tuple(pod.name for pod in cluster.pods if pod.group == second)

    cluster.apply(spec(replicas=2)).step()
    assert numbers(cluster) == [1, 2]

    cluster.endpoints[KEY] = tuple(pod.name for pod in cluster.pods if pod.group == second)
    cluster.apply(spec(replicas=1)).step()
    assert numbers(cluster) == [1]


def test_the_number_of_a_group_that_still_leaves_is_not_taken_again() -> None:
    """Its StatefulSets and pods bear names made of it until the last stream has ended."""
    cluster = running(1)
    leaving = tuple(replace(pod, terminating=True, ready=False) for pod in cluster.pods)
    cluster.apply(spec(replicas=0)).step()
    assert numbers(cluster) == []

    cluster.pods = leaving
    cluster.apply(spec(replicas=1)).step()

    assert numbers(cluster) == [1]


def test_a_group_is_made_only_where_all_its_pods_have_room() -> None:
    cluster = running(1, on=3)

    decision = cluster.apply(spec(replicas=2)).step()

    assert numbers(cluster) == [0]
    waits = decision.verdict(S)
    assert waits is not None
    assert (waits.reason, waits.message) == (
        Reason.INSUFFICIENT_GPU,
        "1 of 2 replicas have room, and another does not: needs 2 nodes with 8 x NVIDIA-H200, 11"
        " CPU and 322.5 GiB of memory free each; 1 of 3 have that, next best gpu-1 (8 held by"
        " ml/tiny): free 1 more or add nodes, or lower spec.replicas.",
    )

    cluster.nodes = nodes(4)
    cluster.step()
    assert numbers(cluster) == [0, 1]


def half_placed() -> GroupCluster:
    """A group of which the leader has a node; a foreign pod has taken the other."""
    cluster = GroupCluster(nodes=nodes(2)).apply(spec())
    cluster.step()
    [group] = cluster.groups()
    cluster.place(group, ("gpu-0", ""))
    cluster.pods = (*cluster.pods, foreign_pod("gpu-1", gpus=8))
    return cluster


def test_half_a_group_is_kept_for_a_while() -> None:
    cluster = half_placed()

    decision = cluster.step()

    assert numbers(cluster) == [0]
    assert decision.look_again is not None
    assert decision.look_again <= NOW + HALF_GROUP


def test_half_a_group_gives_its_gpus_back_and_says_so() -> None:
    cluster = half_placed()
    cluster.later(seconds=HALF_GROUP.total_seconds())

    decision = cluster.step()

    assert numbers(cluster) == []
    assert cluster.remembered() == {cluster.hash}
    waits = decision.verdict(S)
    assert waits is not None
    assert (waits.reason, waits.message) == (
        Reason.INSUFFICIENT_GPU,
        "A replica needs 2 nodes with 8 x NVIDIA-H200 free each and found only a part of them"
        " within 10 minutes, so it gave those back: free the rest or add nodes, it is tried again"
        " at 10:20 UTC.",
    )
    assert decision.look_again == cluster.now + HOLD_OFF


def test_it_is_tried_again_only_later_and_only_where_it_has_room() -> None:
    cluster = half_placed()
    cluster.later(seconds=HALF_GROUP.total_seconds()).step()
    cluster.nodes = nodes(4)

    cluster.later(seconds=HOLD_OFF.total_seconds() - 1).step()
    assert numbers(cluster) == []

    cluster.nodes = nodes(2)
    cluster.later(seconds=1).step()
    assert numbers(cluster) == []

    cluster.nodes = nodes(4)
    cluster.step()
    assert numbers(cluster) == [0]


def test_a_member_that_was_lost_is_waited_for_from_then_on() -> None:
    """The node of a group that serves goes; its pod is made again and finds no place."""
    cluster = running(1, on=2)
    cluster.later(hours=5)
    [group] = cluster.groups()
    lost = cluster.pods[1]
    cluster.pods = (cluster.pods[0], replace(lost, node="", ready=False, created=cluster.now))
    cluster.nodes = nodes(1)
    cluster.step()
    assert cluster.groups() == (group,)

    cluster.later(minutes=9).step()
    assert cluster.groups() == (group,)

    cluster.later(minutes=1).step()
    assert cluster.groups() == ()


@pytest.mark.parametrize("name", ["flint", "a" * 36, "a" * 37, "b-" + "c" * 48])
def test_the_name_of_a_group_fits_into_the_labels_made_of_it(name: str) -> None:
    found = group_object_name(name, "0123456789", 12)

    assert len(found) <= MAX_GROUP_NAME_LENGTH
    assert found.endswith("-0123456789-12")
    assert group_number(found) == 12
    assert found.startswith(name[:20])
    assert "--" not in found


def test_two_long_names_have_groups_of_two_names() -> None:
    one, other = (group_object_name("a" * 45 + end, "0123456789", 0) for end in "bc")

    assert one != other


def test_a_release_is_remembered_to_the_second() -> None:
    cluster = half_placed()
    cluster.now += timedelta(microseconds=250_000)
    cluster.later(seconds=HALF_GROUP.total_seconds()).step()
    released = cluster.now
    cluster.later(seconds=5)

    [target] = cluster.decide().targets

    assert target.revision.released == released.replace(microsecond=0)


CRASHES: Final[dict[str, Any]] = {
    "ready": False,
    "restarts": 4,
    "waiting_reason": "CrashLoopBackOff",
    "waiting_message": "back-off 1m20s restarting failed container=engine pod=x",
    "ended_exit_code": 70,
}


def crashing(**changes: Any) -> GroupCluster:
    """A group that served, of which the follower's engine ends again and again."""
    cluster = running(1, on=2)
    ends = ("GroupBroken: pod 1 has started again", "EngineExited: CUDA error.")
    cluster.pods = tuple(
        replace(pod, ended_message=end, **(CRASHES | changes))
        for pod, end in zip(cluster.pods, ends, strict=True)
    )
    return cluster


def test_a_group_that_fails_again_and_again_gives_its_nodes_back_and_says_why() -> None:
    cluster = crashing()
    [group] = cluster.groups()

    decision = cluster.step()

    assert cluster.groups() == ()
    sentence = (
        f"A replica of 2 pods has failed, as its engines ended 5 times in a row (pod {group}-0-1,"
        " exit code 70: CUDA error), and gave its nodes back: correct what that names, or the spec;"
        " it is tried again at 10:10 UTC."
    )
    told = decision.verdict(ConditionType.PROGRESSING)
    assert told is not None
    assert (told.reason, told.message) == (Reason.FAILED, sentence)
    assert decision.look_again == cluster.now + HOLD_OFF

    later = cluster.later(minutes=9).step().verdict(ConditionType.PROGRESSING)
    assert later is not None
    assert later.message == sentence, "its pods are gone, its reason is not"
    cluster.later(minutes=1)
    assert cluster.step().verdict(ConditionType.PROGRESSING) is None
    assert cluster.groups() == (group,)


@pytest.mark.parametrize(
    "changes",
    [
        {"waiting_message": "back-off 40s restarting failed container=engine pod=x"},
        {"waiting_message": "", "waiting_reason": ""},
        {"ready": True},
    ],
    ids=["not often enough in a row", "it runs", "it serves"],
)
def test_a_group_that_may_come_back_stays(changes: dict[str, Any]) -> None:
    cluster = crashing(**changes)
    groups = cluster.groups()

    cluster.step()

    assert cluster.groups() == groups
