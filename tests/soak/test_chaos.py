"""Random faults under a light load: which requests fail, and how long until all is whole."""

import os
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.soak.result import Result, minutes
from tests.support import faults, manifests
from tests.support.fixtures import READY_SECONDS
from tests.support.install import Images
from tests.support.kube import POD, Kube
from tests.support.onenode import Cluster
from tests.support.traffic import Traffic, address, flowing
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAME = "tormented"
CALM_SECONDS = 5
SERVED = 3
"""Requests one after another, sent after a fault, that must be served for it to be over."""
ENGINE_FAULTS = ("engine", "pod")
"""Faults that take the only replica away: requests fail until the next one has loaded."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: Unix times of its beginning and of the whole system's return."""

    kind: str
    began: float
    whole: float


def kinds(cluster: Cluster, kube: Kube, namespace: str) -> dict[str, Callable[[], None]]:
    """What can be done to the system, by name."""

    def component(name: str) -> Callable[[], None]:
        return lambda: cluster.kill(name)

    def delete_pod() -> None:
        pod = faults.serving_pod(kube, NAME, namespace)
        kube.delete(POD, pod["metadata"]["name"], namespace)
        kube.wait_gone(POD, pod["metadata"]["name"], namespace, seconds=faults.WHOLE_SECONDS)

    return {
        **{name: component(name) for name in faults.COMPONENTS},
        "operator": lambda: faults.kill_operator(cluster, kube),
        "engine": lambda: _kill_engine(cluster, kube, namespace),
        "pod": delete_pod,
    }


def _kill_engine(cluster: Cluster, kube: Kube, namespace: str) -> None:
    pod = faults.serving_pod(kube, NAME, namespace)
    faults.kill_engine(cluster, pod)
    faults.wait_restarted(kube, pod)


def wait_served(traffic: Traffic, *, after: str) -> None:
    """Wait until requests that were sent from now on are served.

    Ready alone may be old: an operator that was killed leads again when its Lease has run out, and
    says only then that an engine which was killed meanwhile is away.
    """
    now = time.time()

    def served() -> bool:
        last = traffic.answers[-SERVED:]
        return len(last) == SERVED and all(each.served and each.sent >= now for each in last)

    until(f"{SERVED} requests to be served after {after}", served, seconds=faults.WHOLE_SECONDS)


def test_random_faults_under_a_light_load(
    namespace: str, kube: Kube, cluster: Cluster, operator: Images, result: Result
) -> None:
    seed = int(os.environ.get("KINDLING_SOAK_SEED", time.time_ns() % 10_000))
    chance = random.Random(seed)
    kube.apply(manifests.tiny(NAME, namespace, rollout={"drainDeadline": "30s"}))
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    url = address(kube, NAME, namespace)
    possible = kinds(cluster, kube, namespace)
    happened: list[Fault] = []
    with flowing(cluster, url, NAME) as traffic:
        end = time.monotonic() + 60 * minutes()
        while time.monotonic() < end:
            kind = chance.choice(sorted(possible))
            kube.say(f"  fault {len(happened) + 1}: {kind}")
            began = time.time()
            possible[kind]()
            wait_served(traffic, after=kind)
            faults.wait_whole(kube, NAME, namespace, after=kind)
            happened.append(Fault(kind, began, time.time()))
            time.sleep(CALM_SECONDS)
    failed = by_fault(traffic, happened)
    result.tell("Chaos", *report(traffic, happened, failed=failed, seed=seed))
    assert not [kind for kind in failed if kind not in ENGINE_FAULTS], failed
    assert len(kube.find(names.DEPLOYMENT, namespace)) == 1
    assert len(faults.serving_pods(kube, NAME, namespace)) == 1


def by_fault(traffic: Traffic, happened: list[Fault]) -> Counter[str]:
    """Failed requests by the fault during which they were sent; "none" is between faults."""
    counted: Counter[str] = Counter()
    for answer in traffic.failures:
        during = [
            fault.kind for fault in happened if fault.began - 1 <= answer.sent <= fault.whole + 1
        ]
        counted[during[0] if during else "none"] += 1
    return counted


def report(
    traffic: Traffic, happened: list[Fault], *, failed: Counter[str], seed: int
) -> list[str]:
    """The section of the page: one row per kind of fault."""
    seconds = defaultdict(list)
    for fault in happened:
        seconds[fault.kind].append(fault.whole - fault.began)
    rows = [
        f"| {kind} | {len(took)} | {statistics.median(took):.1f} | {max(took):.1f} "
        f"| {failed[kind]} |"
        for kind, took in sorted(seconds.items())
    ]
    return [
        f"{len(happened)} faults in {minutes():g} minutes (seed {seed}) under "
        f"{len(traffic.answers)} requests, one replica;",
        f"{len(traffic.failures)} requests failed, all of them while the only replica was away."
        if failed.total() == sum(failed[kind] for kind in ENGINE_FAULTS)
        else f"{len(traffic.failures)} requests failed: {dict(failed)}.",
        "",
        "| killed | times | whole again after, median s | longest s | requests failed |",
        "|---|---|---|---|---|",
        *rows,
    ]
