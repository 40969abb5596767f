"""The same thing many times: nothing is left behind, nothing grows."""

import statistics
import time

import pytest
from tests.soak.result import Result
from tests.support import faults, manifests
from tests.support.fixtures import GONE_SECONDS, READY_SECONDS
from tests.support.install import Images
from tests.support.kube import MODEL, Kube
from tests.support.onenode import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

BARE_ROUNDS = 60
ENGINE_ROUNDS = 5
GROWTH_MIB = 15
"""What the operator's memory may grow by over all rounds: caches of clients, but no leak."""


def delete_all(kube: Kube, namespace: str, name: str) -> None:
    kube.delete(MODEL, name, namespace)
    kube.wait_childless(name, namespace, seconds=GONE_SECONDS)


def operator_mib(cluster: Cluster, kube: Kube) -> float:
    pid = next(iter(cluster.processes(faults.operator_pod(kube))))
    return cluster.resident_mib(pid)


def test_create_and_delete_without_replicas(
    namespace: str, kube: Kube, cluster: Cluster, operator: Images, result: Result
) -> None:
    restarts = faults.restarts(faults.operator_pod(kube))
    before = operator_mib(cluster, kube)
    seconds = []
    for _ in range(BARE_ROUNDS):
        started = time.monotonic()
        kube.apply(manifests.tiny("again", namespace, replicas=0))
        kube.wait_condition(
            "again", namespace, type="Available", status="False", reason="ScaledToZero", seconds=60
        )
        delete_all(kube, namespace, "again")
        seconds.append(time.monotonic() - started)
    after = operator_mib(cluster, kube)
    result.tell(
        "Repetition",
        f"* {BARE_ROUNDS} times created and deleted without replicas: median "
        f"{statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s; nothing left; operator "
        f"{before:.0f} MiB before, {after:.0f} MiB after.",
    )
    assert after - before < GROWTH_MIB
    assert faults.restarts(faults.operator_pod(kube)) == restarts


def test_create_serve_and_delete(
    namespace: str, kube: Kube, operator: Images, result: Result
) -> None:
    seconds = []
    for _ in range(ENGINE_ROUNDS):
        started = time.monotonic()
        kube.apply(manifests.tiny("again", namespace))
        kube.wait_condition("again", namespace, type="Ready", seconds=READY_SECONDS)
        seconds.append(time.monotonic() - started)
        delete_all(kube, namespace, "again")
    result.tell(
        "Repetition",
        f"* {ENGINE_ROUNDS} times created, served and deleted: Ready after a median of "
        f"{statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s; nothing left.",
    )
