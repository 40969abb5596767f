"""Changes and drains under twenty streams, and nodes, claims and images that are not to be had.

The tests of the first model run in order and share it.
"""

import subprocess
import time
from collections.abc import Iterator
from typing import Final

import pytest
from tests.support import faults, manifests
from tests.support.faultpage import Fault, Kind, Under
from tests.support.fixtures import GONE_SECONDS, READY_SECONDS
from tests.support.install import Images
from tests.support.kube import MODEL, NODE, POD, Kube, Object
from tests.support.onenode import Cluster
from tests.support.shown import shown
from tests.support.streams import streaming
from tests.support.traffic import address
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200, func_only=True)]

NAME: Final = "streaming"
STREAMS: Final = 20
DRAIN_SECONDS: Final = 300


def spec(namespace: str, *, context: int) -> Object:
    return manifests.tiny(NAME, namespace, serving={"contextLength": context})


@pytest.fixture(scope="module")
def url(namespace: str, kube: Kube, operator: Images) -> str:
    """The endpoint of the model that serves, by its address."""
    kube.apply(spec(namespace, context=2048))
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    return address(kube, NAME, namespace)


def test_a_change_of_spec_drops_and_alters_none_of_twenty_streams(
    url: str, namespace: str, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    old = faults.serving_pod(kube, NAME, namespace)
    fault.row(Kind.DRAIN, "rollout under 20 streams", "none is dropped or altered", under=Under.POD)
    with streaming(cluster, url, NAME, count=STREAMS, tokens=150) as streams:
        began = time.monotonic()
        kube.apply(spec(namespace, context=3072))
        until(
            "the new pod alone to serve",
            lambda: _only_new(kube, namespace, old),
            seconds=READY_SECONDS + DRAIN_SECONDS,
            say=kube.say,
            show=lambda: kube.told(NAME, namespace),
        )
        changed = time.monotonic() - began
        enough = streams.whole + STREAMS
        until("streams of the new pod", lambda: streams.whole >= enough, seconds=180)
    kube.say(f"  {streams.whole} whole streams, {streams.refused} refused, in {changed:.0f} s")
    assert streams.broken == []
    assert streams.whole >= 3 * STREAMS
    fault.within(READY_SECONDS + DRAIN_SECONDS, "changed", took=changed)
    fault.note(f"{streams.whole} streams whole, {streams.refused} refused before their begin")


def _only_new(kube: Kube, namespace: str, old: Object) -> bool:
    pods = kube.find(POD, namespace, selector=f"{names.LABEL_MODEL}={NAME}")
    return len(pods) == 1 and pods[0]["metadata"]["uid"] != old["metadata"]["uid"]


@pytest.fixture
def open_again(kube: Kube) -> Iterator[None]:
    """Whatever happens, the node takes pods again."""
    yield
    kube.kubectl("uncordon", _node(kube))


def _node(kube: Kube) -> str:
    [real] = kube.find(NODE, selector="onenode/real")
    return str(real["metadata"]["name"])


@pytest.mark.usefixtures("open_again")
def test_a_drained_node_finishes_its_streams_and_says_what_the_next_pod_waits_for(
    url: str, namespace: str, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    with streaming(cluster, url, NAME, count=STREAMS, tokens=600, once=True) as streams:
        until("all streams to have begun", lambda: streams.begun >= 12, seconds=60, every=0.1)
        drain = subprocess.Popen(
            [
                *("kubectl", "drain", _node(kube), "--delete-emptydir-data", "--ignore-daemonsets"),
                *(f"--pod-selector={names.LABEL_MODEL}={NAME}", f"--timeout={DRAIN_SECONDS}s"),
            ],
            env=kube.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        seen = shown(kube, NAME, namespace, reason="NoMatchingNode", words="kubectl uncordon")
    out, _ = drain.communicate(timeout=DRAIN_SECONDS)
    assert drain.returncode == 0, out
    assert (streams.whole, streams.broken) == (STREAMS, [])
    seen.into(fault, "node: drained under 20 streams, no other node")
    fault.note(f"{streams.whole} streams whole")


def test_an_uncordoned_node_is_all_that_is_needed(url: str, namespace: str, kube: Kube) -> None:
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    kube.delete(MODEL, NAME, namespace)
    kube.wait_childless(NAME, namespace, seconds=GONE_SECONDS)


def test_an_image_that_cannot_be_pulled_is_named(
    namespace: str, kube: Kube, operator: Images, fault: Fault
) -> None:
    absent = f"{operator.runtime_cpu.partition('@')[0]}:absent"
    kube.apply(manifests.tiny("imageless", namespace, runtime={"image": absent}))
    seen = shown(kube, "imageless", namespace, reason="ImageNotPullable", words=absent)
    seen.into(fault, "image: not there")
    kube.delete(MODEL, "imageless", namespace)


def test_a_claim_that_does_not_exist_is_named(
    namespace: str, kube: Kube, operator: Images, fault: Fault
) -> None:
    kube.apply(manifests.tiny("claimless", namespace, uri="pvc://nowhere/tiny"))
    seen = shown(kube, "claimless", namespace, reason="ClaimNotBound", words="does not exist")
    seen.into(fault, "claim: not there")
    kube.delete(MODEL, "claimless", namespace)


def test_a_claim_that_never_binds_is_named(
    namespace: str, kube: Kube, operator: Images, fault: Fault
) -> None:
    kube.apply(manifests.claim("unbound", namespace, volume="there-is-none"))
    kube.apply(manifests.tiny("unbound", namespace, uri="pvc://unbound/tiny"))
    seen = shown(
        kube, "unbound", namespace, reason="ClaimNotBound", words=f"bind {namespace}/unbound"
    )
    seen.into(fault, "claim: never bound")
    kube.delete(MODEL, "unbound", namespace)
