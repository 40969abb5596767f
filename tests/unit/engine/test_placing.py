"""One sweep serves every pass, and a decision is made once from the same objects."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from tests.support.builders import Cluster, catalog_spec, cpu_node, foreign_pod, gpu_node

from kindling_operator.model.names import Key
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan import plan
from kindling_operator.plan.fleet import Fleet
from kindling_operator.plan.placement import Placements, placements
from kindling_operator.reconcile.placing import Placing

A, B = Key("ml", "a"), Key("ml", "b")
FLINT = catalog_spec("flint")


class Counted:
    """A planner that counts its work on a cluster."""

    def __init__(self, found: Cluster) -> None:
        self.sweeps = 0
        self.plans: list[Key] = []
        self.woken: list[Key] = []
        self.placing = Placing(self._plan, self._sweep, look=found.snapshot, wake=self.woken.append)

    def _sweep(self, snapshot: Snapshot, fleet: Fleet) -> Placements:
        self.sweeps += 1
        return placements(snapshot, fleet=fleet)

    def _plan(self, snapshot: Snapshot, key: Key, placed: Placements) -> Decision:
        self.plans.append(key)
        return plan(snapshot, key, placed)


def cluster(gpus: int) -> Cluster:
    found = Cluster(nodes=(gpu_node("gpu-0", gpus=gpus), cpu_node()))
    found.apply(FLINT, key=A)
    return found.apply(FLINT, key=B, age=timedelta(minutes=1))


def test_one_sweep_serves_all_and_nothing_is_decided_twice() -> None:
    found = cluster(2)
    counted = Counted(found)
    snapshot = found.snapshot()

    first = [counted.placing.decide(snapshot, key) for key in (A, B)]
    again = [counted.placing.decide(replace(snapshot), key) for key in (A, B)]

    assert first == again == [plan(snapshot, key) for key in (A, B)]
    assert (counted.sweeps, counted.plans) == (1, [A, B])


def test_a_changed_model_makes_a_new_sweep_and_wakes_whom_it_concerns() -> None:
    found = cluster(2)
    counted = Counted(found)
    for key in (A, B):
        counted.placing.decide(found.snapshot(), key)
    counted.woken.clear()

    found.apply({**FLINT, "replicas": 2}, key=A, generation=2)
    counted.placing.decide(found.snapshot(), A)

    assert counted.sweeps == 2
    assert counted.woken == [B]
    assert counted.placing.decide(found.snapshot(), B) == plan(found.snapshot(), B)


async def test_a_new_sweep_tells_whose_place_has_changed() -> None:
    found = cluster(2)
    found.pods = (foreign_pod("gpu-0", gpus=1),)
    counted = Counted(found)
    assert await counted.placing.renew() == {A, B}
    assert await counted.placing.renew() == frozenset()

    found.pods = ()

    assert await counted.placing.renew() == {B}


async def test_passes_that_come_together_are_prepared_by_one_sweep() -> None:
    found = cluster(2)
    counted = Counted(found)
    await asyncio.gather(*(counted.placing.prepare(key) for key in (A, B, A)))
    for key in (A, B):
        counted.placing.decide(found.snapshot(), key)

    assert counted.sweeps == 1


def test_what_time_alone_changes_is_decided_again() -> None:
    found = cluster(2)
    counted = Counted(found)
    made = found.step(A).current
    assert made is not None
    found.start(made.hash, key=A, node="gpu-0", gpus=1)
    first = counted.placing.decide(found.snapshot(), A)
    assert first.look_again is not None

    found.now = first.look_again
    counted.placing.decide(found.snapshot(), A)

    assert counted.plans == [A, A]


def test_a_standby_that_takes_over_sweeps_before_it_decides() -> None:
    found = cluster(2)
    counted = Counted(found)
    counted.placing.decide(found.snapshot(), A)

    counted.placing.forget()
    counted.placing.decide(found.snapshot(), A)

    assert counted.sweeps == 2


def test_models_that_wait_are_unsettled() -> None:
    found = cluster(1)
    counted = Counted(found)
    found.step(A)
    for key in (A, B):
        counted.placing.decide(found.snapshot(), key)

    assert B in counted.placing.unsettled()
