"""Every order in which operator, controller, scheduler and engines can act during a rollout.

A small cluster with room for so many replicas, explored to its last state: whatever comes first,
some replica is behind the Service at every moment, and the rollout ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from tests.support.observed import NOW, revision

from kindling_operator.model.api import OnFailure
from kindling_operator.model.plan import RolloutState
from kindling_operator.plan.rollout import Step, next_step
from kindling_operator.plan.standing import Standing
from kindling_operator.plan.succession import Capacity
from kindling_operator.plan.trial import Policy

DEADLINE = timedelta(minutes=45)
LATE = NOW + DEADLINE
STATES = 40_000
"""More than the largest of these clusters has."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one revision by what they do, and how many its Deployment asks for."""

    asked: int | None
    pending: int = 0
    loading: int = 0
    ready: int = 0
    routed: int = 0
    leaving: int = 0

    @property
    def living(self) -> int:
        return self.pending + self.placed

    @property
    def placed(self) -> int:
        return self.loading + self.ready + self.routed

    @property
    def holding(self) -> int:
        return self.placed + self.leaving

    def moved(self, one: str, other: str) -> Pods:
        """One pod is in another state now; "" is not to exist."""
        changes = {
            state: getattr(self, state) + step for state, step in ((one, -1), (other, 1)) if state
        }
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class World:
    """`slots` replicas have room. `late` is True once the new revision has used up its time."""

    slots: int
    desired: int
    old: Pods
    new: Pods = Pods(None)
    stored: bool = False
    served: bool = False
    proven: bool = False
    failed: bool = False
    late: bool = False
    works: bool = True
    heals: bool = True

    @property
    def free(self) -> int:
        return self.slots - self.old.holding - self.new.holding

    @property
    def routable(self) -> int:
        return self.old.routed + self.new.routed


def standing(name: str, pods: Pods, *, served: bool, failed: bool, proven: bool) -> Standing:
    ready = pods.ready + pods.routed
    return Standing(
        revision(name, served=served, failed=failed),
        replicas=pods.asked,
        placed=pods.placed,
        available=ready,
        routed=pods.routed,
        leaving=pods.leaving + max(0, pods.placed - (pods.asked or 0)),
        proven=proven and pods.routed > 0,
        deployed_at=NOW if pods.asked is not None else None,
        trying_since=NOW if pods.placed and not ready else None,
    )


def decided(world: World) -> Step:
    """What the planner says of this moment."""
    old = standing("old", world.old, served=True, failed=False, proven=True)
    new = standing("new", world.new, served=world.served, failed=world.failed, proven=world.proven)
    others = (old,) if world.old.asked is not None or world.stored else ()
    now = min(world.desired, world.new.placed + max(0, world.free))
    later = min(world.desired, world.slots - world.new.leaving)
    capacity = Capacity(
        now,
        max(now, later),
        frees=frozenset({"old"}) if world.old.holding else frozenset(),
        leaving=old.leaving + new.leaving,
    )
    clock: datetime = LATE if world.late else NOW
    return next_step(
        new,
        others,
        desired=world.desired,
        policy=Policy(DEADLINE, OnFailure.ROLLBACK),
        now=clock,
        capacity=capacity,
    )


def acted(world: World) -> World:
    """The operator's step is applied."""
    step = decided(world)
    given = {target.revision.hash: target.replicas for target in step.targets}
    return replace(
        world,
        old=replace(world.old, asked=given.get("old")),
        new=replace(world.new, asked=given.get("new")),
        failed=step.state is RolloutState.ROLLED_BACK,
        stored=True,
    )


def controlled(pods: Pods) -> Iterator[Pods]:
    """A ReplicaSet makes a pod, or deletes one: the least ready, any of those that are equal."""
    asked = pods.asked or 0
    if pods.living < asked:
        yield pods.moved("", "pending")
    elif pods.living > asked:
        if pods.pending:
            yield pods.moved("pending", "")
        elif pods.loading:
            yield pods.moved("loading", "leaving")
        else:
            for state in ("ready", "routed"):
                if getattr(pods, state):
                    yield pods.moved(state, "leaving")


def grown(pods: Pods, *, free: int, comes_up: bool) -> Iterator[Pods]:
    """Scheduler, kubelet and EndpointSlice each do their part for one pod."""
    if pods.pending and free > 0:
        yield pods.moved("pending", "loading")
    if pods.loading and comes_up:
        yield pods.moved("loading", "ready")
    if pods.ready:
        yield pods.moved("ready", "routed")
    if pods.leaving:
        yield pods.moved("leaving", "")


def following(world: World) -> Iterator[World]:
    """Every world that one act can make of this one."""
    yield acted(world)
    for old in (
        *controlled(world.old),
        *grown(world.old, free=world.free, comes_up=world.heals),
    ):
        yield replace(world, old=old)
    for new in (
        *controlled(world.new),
        *grown(world.new, free=world.free, comes_up=world.works),
    ):
        yield replace(world, new=new, served=world.served or new.routed > 0)
    if world.new.routed and not world.proven and decided(world).ask:
        yield replace(world, proven=True)
    if world.new.loading and not world.works:
        yield replace(world, late=True)


def explored(start: World) -> dict[World, set[World]]:
    """Every world that can be reached, with those that can follow it."""
    found: dict[World, set[World]] = {}
    waiting = [start]
    while waiting:
        world = waiting.pop()
        if world in found:
            continue
        found[world] = {each for each in following(world) if each != world}
        waiting.extend(found[world])
        assert len(found) < STATES
    return found


def ends(found: dict[World, set[World]]) -> set[World]:
    """The worlds in which nothing more happens."""
    return {world for world, after in found.items() if not after}


def leads_to(found: dict[World, set[World]], goals: set[World]) -> set[World]:
    """The worlds from which one of the goals can still be reached."""
    before: dict[World, set[World]] = {}
    for world, after in found.items():
        for each in after:
            before.setdefault(each, set()).add(world)
    reached, waiting = set(goals), list(goals)
    while waiting:
        for each in before.get(waiting.pop(), set()) - reached:
            reached.add(each)
            waiting.append(each)
    return reached


def serving(count: int) -> Pods:
    return Pods(count, routed=count)


@pytest.mark.parametrize("spare", [0, 1, 3])
@pytest.mark.parametrize(("replicas", "desired"), [(1, 1), (2, 2), (3, 3), (3, 2), (2, 3), (1, 2)])
def test_some_replica_is_always_behind_the_service_and_the_rollout_ends(
    replicas: int, desired: int, spare: int
) -> None:
    start = World(replicas + spare, desired, serving(replicas))
    found = explored(start)

    assert all(world.routable for world in found)
    assert all((world.new.asked or 0) <= desired for world in found)
    last = ends(found)
    assert leads_to(found, last) == set(found), "it can run in a circle"
    room = replicas + spare
    blocked = replicas == 1 and spare == 0
    for world in last:
        assert world.new.routed == (0 if blocked else min(desired, room))
        assert world.old.routed == (replicas if blocked else 0)
        assert world.new.asked == (0 if blocked else desired)


@pytest.mark.parametrize("spare", [0, 1, 3])
@pytest.mark.parametrize(("replicas", "desired"), [(1, 1), (2, 2), (3, 3), (3, 2), (2, 3)])
def test_a_new_replica_is_made_only_where_there_is_room_for_it(
    replicas: int, desired: int, spare: int
) -> None:
    """Once no old one is left, what has no room yet waits for the scheduler as any first one."""
    found = explored(World(replicas + spare, desired, serving(replicas)))

    for world in found:
        after = acted(world).new.asked or 0
        if after > (world.new.asked or 0) and world.old.holding:
            assert after <= world.new.placed + world.free


@pytest.mark.parametrize("spare", [0, 1, 3])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_only_one_old_replica_leaves_before_an_answer_came_through_the_service(
    replicas: int, spare: int
) -> None:
    found = explored(World(replicas + spare, replicas, serving(replicas)))

    for world in found:
        left = replicas - (world.old.asked or 0)
        assert world.proven or left <= (1 if spare == 0 else 0)
        assert left == 0 or spare < replicas or world.new.routed == replicas


def test_the_replica_that_gets_traffic_is_not_taken_for_one_that_does_not_yet() -> None:
    """Fewer are wanted meanwhile; of two that are ready a workload may take either away."""
    found = explored(World(2, 1, Pods(2, routed=1, ready=1)))

    assert all(world.routable for world in found)
    for world in ends(found):
        assert (world.new.routed, world.old.living) == (1, 0)


@pytest.mark.parametrize("spare", [0, 1, 3])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_change_that_never_serves_costs_at_most_one_replica_and_ends_where_it_began(
    replicas: int, spare: int
) -> None:
    start = World(replicas + spare, replicas, serving(replicas), works=False)
    found = explored(start)

    fewest = min(world.routable for world in found)
    assert fewest >= max(1, replicas - (1 if spare == 0 else 0))
    last = ends(found)
    assert leads_to(found, last) == set(found), "it can run in a circle"
    for world in last:
        assert (world.old.routed, world.new.holding) == (replicas, 0)


@pytest.mark.parametrize("spare", [0, 1])
@pytest.mark.parametrize("sick", [1, 2, 3])
def test_unhealthy_old_replicas_neither_count_nor_keep_a_change_from_coming(
    sick: int, spare: int
) -> None:
    """Three replicas, some of which hold GPUs and never become ready again."""
    old = Pods(3, routed=3 - sick, loading=sick)
    found = explored(World(3 + spare, 3, old, heals=False))

    assert all(world.routable for world in found if sick < 3)
    last = ends(found)
    assert leads_to(found, last) == set(found), "it can run in a circle"
    assert last
    for world in last:
        assert (world.new.routed, world.old.holding) == (3, 0)


def test_a_cluster_that_shrank_still_changes_all_replicas_that_it_has() -> None:
    """Three are wanted, two have nodes, and the third waits for one."""
    found = explored(World(2, 3, Pods(3, routed=2, pending=1)))

    assert all(world.routable for world in found)
    last = ends(found)
    assert leads_to(found, last) == set(found), "it can run in a circle"
    for world in last:
        assert (world.new.routed, world.new.pending, world.old.living) == (2, 1, 0)
