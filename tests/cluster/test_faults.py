"""Weights that are broken, and stores that refuse, hang, dawdle or lie: what kubectl shows, and
within which time. No engine is started but by the last test of each part."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.support import manifests
from tests.support.faultpage import Fault
from tests.support.fixtures import GONE_SECONDS, READY_SECONDS
from tests.support.install import Images
from tests.support.kube import CLAIM, MODEL, VOLUME, Kube, Object
from tests.support.onenode import Cluster
from tests.support.overlay import with_environment
from tests.support.shown import shown
from tests.support.weights.standing import Standing, standing

pytestmark = pytest.mark.cluster

BROKEN: Final = "broken"
SMALL: Final = "small"
SHARDS: Final = 2
LOOP_SECONDS: Final = 90
"""Three ends, the kubelet's waits of 10 and 20 s between them."""
PACE: Final = 30_000
"""Bytes per second of one answer of a slow store: the tiny model takes more than half a minute."""


def cut_short(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def without_a_shard(folder: Path) -> None:
    names = [f"model-{number:05}-of-{SHARDS:05}.safetensors" for number in range(1, SHARDS + 1)]
    (folder / "model.safetensors").rename(folder / names[0])
    index = {"metadata": {}, "weight_map": dict(zip("ab", names, strict=True))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def without_a_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def with_half_a_config(folder: Path) -> None:
    config = folder / "config.json"
    config.write_text(config.read_text()[:40])


def for_others_to_read(folder: Path) -> None:
    """Made unreadable on the node: copying makes every file readable."""
    assert (folder / "model.safetensors").is_file()


WEIGHTS: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "truncated": (cut_short, "model.safetensors in the weights folder has"),
    "missing-shard": (without_a_shard, f"lacks 1 of the {SHARDS} files that"),
    "no-config": (without_a_config, "has no config.json; make pvc://broken/no-config name"),
    "half-a-config": (with_half_a_config, "config.json in the weights folder"),
    "unreadable": (for_others_to_read, "cannot be read by user 65532; make it readable"),
}
QUICK: Final = "truncated"


@pytest.fixture(scope="module")
def broken(
    tmp_path_factory: pytest.TempPathFactory,
    weights: Path,
    cluster: Cluster,
    kube: Kube,
    namespace: str,
) -> Iterator[None]:
    """A claim with a folder for each way in which weights can be broken."""
    top, volume = tmp_path_factory.mktemp("broken"), f"{namespace}-broken"
    for name, (spoil, _) in WEIGHTS.items():
        shutil.copytree(weights / "tiny", top / name)
        spoil(top / name)
    kube.delete(VOLUME, volume)
    kube.wait_gone(VOLUME, volume, seconds=GONE_SECONDS)
    cluster.volume(volume, top)
    file = f"/var/lib/kindling/volumes/{volume}/unreadable/model.safetensors"
    cluster.node("chmod", "0600", file)
    kube.apply(manifests.claim(BROKEN, namespace, volume=volume))
    yield
    kube.delete(VOLUME, volume)


@pytest.mark.usefixtures("broken", "operator")
@pytest.mark.parametrize(
    "folder",
    [pytest.param(name, marks=() if name == QUICK else pytest.mark.slow) for name in WEIGHTS],
)
def test_broken_weights_are_named(folder: str, kube: Kube, namespace: str, fault: Fault) -> None:
    kube.apply(manifests.tiny("spoilt", namespace, uri=f"pvc://broken/{folder}"))
    seen = shown(kube, "spoilt", namespace, reason="WeightsIncomplete", words=WEIGHTS[folder][1])
    seen.into(fault, f"weights: {folder.replace('-', ' ')}")


@pytest.fixture(scope="module")
def store(cluster: Cluster, kube: Kube, weights: Path) -> Iterator[Standing]:
    """A hub with the tiny model, which pods reach and a test can break."""
    with standing(cluster, kube, weights / "tiny") as found:
        yield found


def downloaded(name: str, namespace: str, images: Images, store: Standing) -> Object:
    """The tiny model from that hub, by an image that somebody has pointed there."""
    image = with_environment(images.runtime_cpu, {"HF_ENDPOINT": store.url})
    return manifests.tiny(name, namespace, uri="hf://org/tiny", runtime={"image": image})


class TestAStoreThatStopsMidway:
    """One download through everything that a store can do to it; in order."""

    name = "waiting"

    def test_a_slow_store_is_waited_for_with_its_pace(
        self, store: Standing, operator: Images, kube: Kube, namespace: str, fault: Fault
    ) -> None:
        store.becomes(bytes_per_second=PACE)
        kube.apply(downloaded(self.name, namespace, operator, store))
        seen = shown(kube, self.name, namespace, reason="Downloading", words=" MiB")
        seen.into(fault, "store: slow")

    def test_a_store_that_hangs_is_named(
        self, store: Standing, kube: Kube, namespace: str, fault: Fault
    ) -> None:
        store.becomes(hangs_after=0)
        seen = shown(
            kube,
            self.name,
            namespace,
            reason="WeightsIncomplete",
            words="no byte of weights has come since",
        )
        seen.into(fault, "store: hangs in the middle of a download")
        assert "see whether the store answers" in seen.message
        store.becomes(bytes_per_second=PACE)
        shown(kube, self.name, namespace, reason="Downloading")

    @pytest.mark.slow
    def test_a_store_that_answers_again_is_all_that_is_needed(
        self, store: Standing, kube: Kube, namespace: str
    ) -> None:
        store.becomes()
        kube.wait_condition(self.name, namespace, type="Ready", seconds=READY_SECONDS)
        kube.delete(MODEL, self.name, namespace)


@pytest.mark.slow
class TestAStoreThatIsNoUse:
    """One download that gets no answer, then a refusal, then wrong bytes again and again, then the
    right ones."""

    name = "refused"

    def test_a_store_that_fails_each_request_is_named_with_its_answer(
        self, store: Standing, operator: Images, kube: Kube, namespace: str, fault: Fault
    ) -> None:
        store.becomes(refuses=503)
        kube.apply(downloaded(self.name, namespace, operator, store))
        shown(kube, self.name, namespace, reason="Downloading")
        seen = shown(kube, self.name, namespace, reason="WeightsIncomplete", words="503")
        seen.into(fault, "store: answers 503 to everything")

    def test_a_store_that_refuses_is_named(
        self, store: Standing, kube: Kube, namespace: str, fault: Fault
    ) -> None:
        store.becomes(refuses=403)
        seen = shown(kube, self.name, namespace, reason="WeightsIncomplete", words="HTTP 403")
        seen.into(fault, "store: refuses (403)")

    def test_a_wrong_checksum_is_named(
        self, store: Standing, operator: Images, kube: Kube, namespace: str, fault: Fault
    ) -> None:
        store.becomes(corrupt=["model.safetensors"])
        kube.delete(MODEL, self.name, namespace)
        kube.wait_childless(self.name, namespace, seconds=GONE_SECONDS)
        kube.apply(downloaded(self.name, namespace, operator, store))
        seen = shown(kube, self.name, namespace, reason="WeightsIncomplete", words="its checksum")
        seen.into(fault, "store: wrong content")

    def test_a_download_in_a_crash_loop_says_how_often_and_why(
        self, kube: Kube, namespace: str, fault: Fault
    ) -> None:
        seen = shown(
            kube,
            self.name,
            namespace,
            reason="WeightsIncomplete",
            words="(ended 3 times in all): model.safetensors has come twice",
            seconds=LOOP_SECONDS,
        )
        seen.into(fault, "download: ends three times", bound=LOOP_SECONDS)

    def test_the_right_content_is_all_that_is_needed(
        self, store: Standing, kube: Kube, namespace: str
    ) -> None:
        store.becomes()
        kube.wait_condition(self.name, namespace, type="Ready", seconds=READY_SECONDS + 60)
        kube.delete(MODEL, self.name, namespace)


@pytest.fixture
def small(cluster: Cluster, kube: Kube, namespace: str) -> Iterator[None]:
    """A claim for downloads on a volume of 64 MiB."""
    volume = f"{namespace}-small"
    path = f"/var/lib/kindling/volumes/{volume}"
    cluster.node("mkdir", "-p", path)
    cluster.node("mount", "-t", "tmpfs", "-o", "size=64m,mode=0777", "tmpfs", path)
    kube.apply(*manifests.writable(SMALL, namespace, volume=volume, path=path))
    yield
    kube.delete(CLAIM, SMALL, namespace)
    kube.delete(VOLUME, volume)
    cluster.node("umount", "-l", path)
    cluster.node("rmdir", path)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_full_cache_claim_is_named(
    store: Standing,
    operator: Images,
    kube: Kube,
    namespace: str,
    fault: Fault,
) -> None:
    store.becomes()
    model = downloaded("full", namespace, operator, store)
    model["spec"]["model"]["weights"]["cacheClaim"] = SMALL
    kube.apply(model)
    seen = shown(kube, "full", namespace, reason="WeightsIncomplete", words=" MiB")
    seen.into(fault, "claim for downloads: full")
    kube.delete(MODEL, "full", namespace)
    kube.wait_childless("full", namespace, seconds=GONE_SECONDS)
