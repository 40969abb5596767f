"""A claim that keeps what engines compile: the init container makes the folders, the engine writes
to its own alone, and a second start finds what the first one left."""

from collections.abc import Iterator
from typing import Final

import pytest
from tests.support import manifests
from tests.support.fixtures import READY_SECONDS
from tests.support.install import Images
from tests.support.kube import CLAIM, POD, VOLUME, Kube, Object
from tests.support.onenode import Cluster

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

NAME: Final = "cached"
CACHE: Final = "cache"
SELECTOR: Final = f"{names.LABEL_MODEL}={NAME}"


@pytest.fixture(scope="module")
def folder(cluster: Cluster, kube: Kube, namespace: str) -> Iterator[str]:
    """A claim `cache` that may be written to; its folder on the node."""
    volume = f"{namespace}-cache"
    path = f"/var/lib/kindling/volumes/{volume}"
    cluster.node("install", "-d", "-m", "0777", path)
    kube.apply(*manifests.writable(CACHE, namespace, volume=volume, path=path))
    yield path
    kube.delete(CLAIM, CACHE, namespace)
    kube.delete(VOLUME, volume)
    cluster.node("rm", "-rf", path)


@pytest.fixture(scope="module")
def serving(kube: Kube, operator: Images, namespace: str, folder: str) -> Object:
    """The tiny model with that claim, once it serves; its pod."""
    base = manifests.tiny(NAME, namespace)
    base["spec"]["model"]["weights"]["cacheClaim"] = CACHE
    kube.apply(base)
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    [pod] = kube.find(POD, namespace, selector=SELECTOR)
    return pod


def test_the_init_container_ended_well_and_the_engine_serves(serving: Object) -> None:
    [fetch] = serving["status"]["initContainerStatuses"]

    assert (fetch["name"], fetch["state"]["terminated"]["exitCode"]) == ("fetch", 0)


def test_the_engine_writes_to_its_own_folder_alone(
    serving: Object, cluster: Cluster, kube: Kube, namespace: str, folder: str
) -> None:
    name = serving["metadata"]["name"]
    mounts = {
        mount["name"]: mount
        for mount in serving["spec"]["containers"][0]["volumeMounts"]
        if mount.get("subPath", "").startswith("kernels/")
    }
    [kernels] = mounts.values()
    written = cluster.node("find", f"{folder}/{kernels['subPath']}", "-type", "f").split()
    assert written, "the engine keeps nothing of what it compiled"

    paths = (kernels["mountPath"], "/mnt/weights", "/mnt/cache")
    script = 'for p; do touch "$p/x" 2>/dev/null && echo "$p"; done; true'
    out = kube.kubectl("exec", "-n", namespace, name, "--", "bash", "-c", script, "sh", *paths)
    assert out.split() == [kernels["mountPath"]]


def test_a_mark_tells_that_the_cache_is_in_use(
    serving: Object, cluster: Cluster, folder: str
) -> None:
    uid = serving["metadata"]["uid"]

    assert "beat" in cluster.node("ls", f"{folder}/uses/{uid}")
