"""What the owner of a model reads about replicas of several pods."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.support.builders import KEY, foreign_pod
from tests.support.groups import GroupCluster, nodes, spec

from kindling_operator.model.conditions import Condition
from kindling_operator.model.objects import PodView
from kindling_operator.model.outcome import Outcome
from kindling_operator.plan.groups import HALF_GROUP
from kindling_operator.report.events import transitions
from kindling_operator.report.status import status

STAGES = {
    "placement": {"parallelism": {"tensor": 8, "pipeline": 2}},
    "serving": {"speculation": {"mode": "Disabled"}},
}


def made(**fields: Any) -> GroupCluster:
    """A model whose groups were just made."""
    cluster = GroupCluster(nodes=nodes(8)).apply(spec(**fields))
    cluster.step()
    return cluster


def read(cluster: GroupCluster) -> Any:
    return status(cluster.snapshot(), cluster.decide(), Outcome())


def condition(cluster: GroupCluster, kind: str) -> Condition:
    [found] = (each for each in read(cluster).conditions if each.type == kind)
    assert isinstance(found, Condition)
    return found


def changed(cluster: GroupCluster, rank: int, **fields: Any) -> None:
    """One pod of the only group is otherwise."""
    cluster.pods = tuple(
        replace(pod, **fields) if pod.group and pod.rank == rank else pod for pod in cluster.pods
    )


def test_replicas_count_groups_and_not_pods() -> None:
    cluster = made(replicas=2)
    first, second = cluster.groups()
    cluster.serve_group(first, ("gpu-0", "gpu-1")).place(second, ("gpu-2", "gpu-3"))

    found = read(cluster)

    assert (found.replicas, found.ready_replicas, found.updated_replicas) == (2, 1, 2)


def test_a_group_is_ready_when_all_its_pods_are() -> None:
    cluster = made()
    cluster.serve_group(cluster.groups()[0], ("gpu-0", "gpu-1"))
    assert read(cluster).ready_replicas == 1

    changed(cluster, 1, ready=False)
    assert read(cluster).ready_replicas == 0


def test_an_autoscaler_counts_one_pod_of_each_group() -> None:
    assert read(made()).selector == (
        "kindling.dev/model=tiny,kindling.dev/role=leader,!kindling.dev/follower"
    )
    assert read(made(**STAGES)).selector == "kindling.dev/model=tiny,kindling.dev/role=leader"


def test_half_a_group_is_told_with_its_number_and_what_becomes_of_it() -> None:
    cluster = made()
    [group] = cluster.groups()
    cluster.place(group, ("gpu-0", ""))

    told = condition(cluster, "Scheduled")

    assert (told.status, told.reason) == ("False", "InsufficientGPU")
    assert told.message == (
        f"Replica 0: 1 of 2 pods have a node, and {group}-0-1 has none (0/4 nodes are available: 4"
        " Insufficient nvidia.com/gpu): free GPUs, add a node or lower spec.replicas, or it gives"
        " its GPUs back at 10:10 UTC."
    )


def test_a_group_that_is_still_made_is_told() -> None:
    cluster = made()
    [group] = cluster.groups()
    cluster.place(group, ("gpu-0",))

    told = condition(cluster, "Scheduled")

    assert (told.status, told.message) == (
        "Unknown",
        "Replica 0: 1 of 2 pods have a node, 1 exist; if it stays so, `kubectl describe statefulset"
        f" -n ml {group}-0` tells why.",
    )


def test_a_group_of_which_no_pod_is_let_in_is_told() -> None:
    cluster = made()

    assert condition(cluster, "Scheduled").message.endswith(
        f"0 of 2 pods have a node, 0 exist; if it stays so, `kubectl describe statefulset -n ml"
        f" {cluster.groups()[0]}` tells why."
    )


def test_a_group_with_all_its_nodes_is_scheduled() -> None:
    cluster = made()
    cluster.place(cluster.groups()[0], ("gpu-0", "gpu-1"))

    assert condition(cluster, "Scheduled").message == "1 of 1 replicas have 2 nodes."


def test_the_first_cause_is_told_and_not_its_echoes() -> None:
    """A follower's engine failed, and the leader ended because of that."""
    cluster = made()
    cluster.place(cluster.groups()[0], ("gpu-0", "gpu-1"))
    ended = {"ended_exit_code": 70, "started": None, "waiting_reason": "CrashLoopBackOff"}
    echo = "GroupBroken: pod 1 of the group has started again"
    changed(cluster, 0, ended_message=echo, **ended)
    cause = "EngineExited: the engine exited with status 1: RuntimeError: NCCL error"
    changed(cluster, 1, ended_message=cause, **ended)

    told = condition(cluster, "Available")

    assert told.reason == "EngineFailed"
    assert "NCCL error" in told.message
    assert "has started again" not in told.message


def test_the_engine_that_was_killed_is_told_though_the_other_ended_before_it() -> None:
    """The runtime of a killed engine hears it out for a second; its leader may be gone by then."""
    cluster = made()
    cluster.place(cluster.groups()[0], ("gpu-0", "gpu-1"))
    ended = {"ended_exit_code": 70, "started": None, "waiting_reason": "CrashLoopBackOff"}
    echo = "EngineExited: the engine exited with status 0: RuntimeError: Connection closed by peer"
    changed(
        cluster, 0, ended_message=echo, ended_at=datetime(2026, 1, 1, 0, 0, 0, tzinfo=UTC), **ended
    )
    cause = "EngineExited: the engine was killed by SIGKILL from outside"
    changed(
        cluster, 1, ended_message=cause, ended_at=datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), **ended
    )

    told = condition(cluster, "Available")

    assert "was killed by SIGKILL" in told.message
    assert "Connection closed" not in told.message


def test_a_leaving_group_drains_as_one() -> None:
    cluster = made()
    cluster.serve_group(cluster.groups()[0], ("gpu-0", "gpu-1"))
    changed(cluster, 0, terminating=True, ready=False)

    found = read(cluster)

    assert (found.replicas, found.draining_replicas) == (0, 1)


def events(cluster: GroupCluster) -> list[tuple[str, str]]:
    decision = cluster.decide()
    new = status(cluster.snapshot(), decision, Outcome())
    found = transitions(cluster.snapshot(), decision, new)
    return [(event.reason, event.note) for event in found]


def test_a_release_and_a_scale_are_events() -> None:
    cluster = made()
    [group] = cluster.groups()
    cluster.place(group, ("gpu-0", ""))
    taken: tuple[PodView, ...] = tuple(
        foreign_pod(f"gpu-{n}", gpus=8, name=f"training-{n}") for n in range(1, 8)
    )
    cluster.pods = (*cluster.pods, *taken)
    assert "GroupReleased" not in dict(events(cluster))

    cluster.later(seconds=HALF_GROUP.total_seconds())
    told = dict(events(cluster))

    assert told["Scaled"] == "From 1 to 0 replicas."
    assert told["GroupReleased"].startswith("A replica needs 2 nodes with 8 x NVIDIA-H200 free")
    cluster.step()
    cluster.later(seconds=1)
    assert "GroupReleased" not in dict(events(cluster))


def test_older_groups_are_on_their_way_out() -> None:
    cluster = made()
    cluster.serve_group(cluster.groups()[0], ("gpu-0", "gpu-1"))
    old = cluster.hash

    cluster.apply(spec(serving={"contextLength": 65536})).step()

    assert cluster.children[KEY]
    assert len(cluster.remembered()) == 2
    told = condition(cluster, "Progressing")
    assert told.reason == "RollingOut"
    assert old not in told.message


def test_a_group_that_gave_its_nodes_back_after_failures_is_what_ready_tells() -> None:
    cluster = made()
    cluster.serve_group(cluster.groups()[0], ("gpu-0", "gpu-1"))
    changed(
        cluster,
        1,
        ready=False,
        ended_exit_code=70,
        ended_message="EngineExited: CUDA error",
        waiting_message="back-off 5m0s restarting failed container=engine pod=x",
    )
    changed(cluster, 0, ready=False)
    cluster.step()

    assert cluster.groups() == ()
    found = condition(cluster, "Ready")
    assert (found.status, found.reason) == ("False", "Failed")
    assert "exit code 70: CUDA error), and gave its nodes back" in found.message
