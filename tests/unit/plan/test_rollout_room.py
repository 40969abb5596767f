"""Changes of a GPU model as the whole planner decides them, with 0, 1 and many spare GPUs.

The cluster plays along: pods are made and deleted as their Deployments ask, one act at a time, and
get a node only where its GPUs are free.
"""

from dataclasses import replace

import pytest
from tests.support.builders import (
    KEY,
    Cluster,
    catalog_spec,
    cpu_node,
    foreign_pod,
    gpu_node,
    hash_of,
    serving_pod,
)

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import DEPLOYMENT
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Decision, RolloutState, Verdict
from kindling_operator.model.snapshot import Answers
from kindling_operator.plan import plan
from kindling_operator.plan.placement import placements

CONTEXT = {"serving": {"contextLength": 32_768}}
STEPS = 60


def flint(replicas: int, **fields: object) -> dict[str, object]:
    return {**catalog_spec("flint"), "replicas": replicas, **fields}


def gpus(*counts: int) -> Cluster:
    """Nodes with so many GPUs each."""
    nodes = (gpu_node(f"gpu-{place}", gpus=count) for place, count in enumerate(counts))
    return Cluster(nodes=(*nodes, cpu_node()))


def asked(found: Cluster) -> dict[str, int]:
    """Replicas of each Deployment."""
    return {
        hash_of(child): child.manifest["spec"]["replicas"]
        for (kind, _), child in found.children.get(KEY, {}).items()
        if kind == DEPLOYMENT.kind
    }


def mine(found: Cluster, hash_: str) -> list[PodView]:
    return [pod for pod in found.pods if (pod.model, pod.revision) == (KEY, hash_)]


def routable(found: Cluster) -> int:
    return len(found.endpoints.get(KEY, ()))


def acts(found: Cluster) -> bool:
    """The next thing that the cluster does by itself; False if there is nothing left."""
    wanted = asked(found)
    for pod in found.pods:
        if pod.terminating:
            return put(found, [each for each in found.pods if each is not pod])
    for hash_ in sorted({*wanted, *(pod.revision for pod in found.pods if pod.model == KEY)}):
        pods, count = mine(found, hash_), wanted.get(hash_, 0)
        if len(pods) > count:
            last = min(pods, key=lambda pod: (bool(pod.node), pod.ready))
            return put(found, swapped(found, last, terminating=True, ready=False))
        if len(pods) < count:
            number = 1 + max((int(pod.name.rpartition("-")[2]) for pod in pods), default=-1)
            made = serving_pod(KEY, hash_, number, node="", gpus=1, created=found.now)
            return put(found, [*found.pods, replace(made, phase="Pending")])
        for pod in pods:
            node = roomy(found) if not pod.node else None
            if node is not None:
                return put(found, swapped(found, pod, node=node, phase="Running"))
            if pod.node and not pod.ready:
                return put(found, swapped(found, pod, ready=True))
    return False


def swapped(found: Cluster, pod: PodView, **changes: object) -> list[PodView]:
    return [replace(each, **changes) if each is pod else each for each in found.pods]  # type: ignore[arg-type]


def put(found: Cluster, pods: list[PodView]) -> bool:
    found.pods = tuple(pods)
    found.endpoints[KEY] = tuple(pod.name for pod in pods if pod.model == KEY and pod.ready)
    return True


def roomy(found: Cluster) -> str | None:
    """A node with a free GPU."""
    for node in found.nodes:
        if node.gpus > sum(pod.gpus for pod in found.pods if pod.node == node.name):
            return node.name
    return None


def answered(found: Cluster) -> None:
    """Whatever is behind the Service has answered there."""
    behind = found.endpoints.get(KEY, ())
    found.answers[KEY] = Answers(frozenset(pod.uid for pod in found.pods if pod.name in behind))


def passed(found: Cluster) -> Decision:
    """One pass of the operator, which leaves pods to their controllers."""
    pods = found.pods
    decision = found.step()
    put(found, list(pods))
    return decision


def rolled(found: Cluster) -> list[Decision]:
    """Passes and acts in turn until nothing happens any more."""
    decisions = [passed(found)]
    for _ in range(STEPS):
        going = acts(found)
        answered(found)
        decision = passed(found)
        if not going and decision == decisions[-1]:
            return decisions
        decisions.append(decision)
    raise AssertionError(f"still going: {asked(found)}")


def served(found: Cluster, replicas: int) -> str:
    """The hash of a first revision that serves with all its replicas."""
    last = rolled(found.apply(flint(replicas)))[-1]
    assert last.current is not None
    assert routable(found) == replicas
    return last.current.hash


def scheduled(decision: Decision) -> Verdict | None:
    return decision.verdict(ConditionType.SCHEDULED)


@pytest.mark.parametrize("spare", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("replicas", [2, 3])
def test_a_change_ends_with_all_new_replicas_and_never_without_one(
    replicas: int, spare: int
) -> None:
    found = gpus(replicas + spare)
    old = served(found, replicas)
    found.apply(flint(replicas, **CONTEXT))

    fewest, most = replicas, 0
    for _ in range(STEPS):
        decision = passed(found)
        fewest, most = min(fewest, routable(found)), max(most, sum(asked(found).values()))
        going = acts(found)
        answered(found)
        if not going and decision.state is RolloutState.STEADY:
            break

    assert fewest >= replicas - (1 if spare == 0 else 0) >= 1
    assert most <= replicas + min(spare, replicas)
    (new,) = asked(found)
    assert new != old
    assert asked(found) == {new: replicas}
    assert len(mine(found, new)) == routable(found) == replicas


def test_one_replica_on_the_only_gpu_stays_and_nothing_of_the_change_is_stored() -> None:
    found = gpus(1)
    old = served(found, 1)
    decisions = rolled(found.apply(flint(1, **CONTEXT)))

    waits = scheduled(decisions[-1])
    assert waits is not None
    assert (waits.reason, waits.message) == (
        Reason.WAITING_FOR_CAPACITY,
        f"The new revision waits and tiny-{old} keeps its replicas: needs 1 x NVIDIA-H200 in one"
        " node; best node gpu-0 has 0 of 1 free, 1 held by ml/tiny: free 1 or add a node, or"
        " accept a downtime by setting spec.replicas to 0 and back to 1.",
    )
    assert asked(found) == {old: 1}
    assert found.remembered() == {old}

    rolled(found.apply(flint(0, **CONTEXT)))
    assert found.pods == ()
    last = rolled(found.apply(flint(1, **CONTEXT)))[-1]
    assert last.state is RolloutState.STEADY
    assert old not in asked(found)
    assert routable(found) == 1


def test_a_gpu_that_becomes_free_is_taken_by_the_change_that_waits_for_it() -> None:
    found = gpus(2)
    old = served(found, 1)
    found.pods = (*found.pods, foreign_pod("gpu-0", gpus=1))
    assert scheduled(rolled(found.apply(flint(1, **CONTEXT)))[-1]) is not None
    assert asked(found) == {old: 1}

    found.pods = tuple(pod for pod in found.pods if pod.model is not None)
    rolled(found)

    assert old not in asked(found)
    assert routable(found) == 1


def test_replicas_that_change_in_turn_say_so_and_what_would_be_quicker() -> None:
    found = gpus(2)
    old = served(found, 2)
    decision = passed(found.apply(flint(2, **CONTEXT)))

    assert decision.current is not None
    new = decision.current.hash
    assert asked(found) == {old: 1, new: 0}
    waits = scheduled(decision)
    assert waits is not None
    assert (waits.reason, waits.message) == (
        Reason.WAITING_FOR_CAPACITY,
        f"Replicas of tiny-{new} take the places of older ones in turn, as there is no room for"
        " all 2 beside them: needs 1 x NVIDIA-H200 in one node; best node gpu-0 has 0 of 2 free,"
        " 2 held by ml/tiny: free 1 or add a node.",
    )


def test_a_place_that_others_took_stops_the_change_and_keeps_the_rest() -> None:
    """The freed GPU goes to a training job, and another such job waits for the next."""
    found = gpus(3)
    old = served(found, 3)
    found.apply(flint(3, **CONTEXT))
    passed(found)
    leaving = mine(found, old)[-1]
    thief = foreign_pod(leaving.node, gpus=1, name="thief")
    hungry = replace(foreign_pod("", gpus=1, name="hungry"), phase="Pending")
    put(found, [*(pod for pod in found.pods if pod is not leaving), thief, hungry])

    decisions = rolled(found)

    assert asked(found)[old] == 2
    assert routable(found) == 2
    waits = scheduled(decisions[-1])
    assert waits is not None
    assert waits.message.startswith(f"The new revision waits and tiny-{old} keeps its replicas: ")


def test_a_bad_image_is_replaced_although_its_replicas_never_become_ready() -> None:
    """They have served once, fill all GPUs, and crash since."""
    found = gpus(2)
    old = served(found, 2)
    put(found, [replace(pod, ready=False, restarts=9) for pod in found.pods])
    found.apply(flint(2, **CONTEXT))
    for _ in range(STEPS):
        passed(found)
        if not acts(found):
            break
        put(found, [replace(p, ready=False) if p.revision == old else p for p in found.pods])
        answered(found)

    assert old not in asked(found)
    assert routable(found) == 2


def test_a_correction_of_a_change_that_fills_the_gpus_takes_its_place() -> None:
    """The first change never serves; the second must not wait for its GPU for ever."""
    found = gpus(2)
    old = served(found, 1)
    bad = {"runtime": {"image": "registry.test/bad@sha256:" + "1" * 64}}
    passed(found.apply(flint(1, **bad)))
    assert acts(found)
    assert acts(found)
    assert len(found.pods) == 2

    rolled(found.apply(flint(1, **CONTEXT)))

    assert old not in asked(found)
    assert routable(found) == 1


def test_a_step_is_not_decided_on_what_an_older_sweep_saw() -> None:
    """An old replica has left since; to the sweep its GPU is still taken."""
    found = gpus(3)
    old = served(found, 3)
    found.apply(flint(3, **CONTEXT))
    passed(found)
    stale = placements(found.snapshot())
    gone = mine(found, old)[-1]
    put(found, [pod for pod in found.pods if pod is not gone])

    late = plan(found.snapshot(), KEY, stale)
    fresh = plan(found.snapshot(), KEY)

    assert {t.revision.hash: t.replicas for t in late.targets}[old] == 2
    assert [t.replicas for t in fresh.targets] == [1, 2]
