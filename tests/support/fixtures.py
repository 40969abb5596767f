"""Fixtures of every test that needs the one-node cluster; conftest files import what they use.

Everything slow is made once per session and left up for the next one: the cluster, the images in
its registry, the chart, and one real engine that all tests share which do not end it.
`KINDLING_TEST_REUSE=1` takes cluster, images and release as they are; `KINDLING_TEST_CLUSTER=NAME`
another cluster than `test`, for two suites at once.
"""

import os
import re
import shutil
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.support import install, manifests
from tests.support.kube import NAMESPACE, POD, VOLUME, Kube
from tests.support.onenode import ROOT, Cluster
from tests.support.phases import Recording, recorded
from tests.support.tinymodel.make_model import make_model
from tests.support.waiting import Say, until

from kindling_operator.model.names import DEPLOYMENT, Key, endpoint_url

FAILURES: Final = ROOT / "tests" / ".failures"

TEST_SECONDS: Final = 600
"""Deadline of a cluster test's own body; its waits have shorter ones that say what they saw."""

READY_SECONDS: Final = 300
"""Apply to Ready of the tiny model: 36 s on a quiet machine, several times that on a busy one."""

GONE_SECONDS: Final = 120
CLAIM_NAME: Final = "weights"
REUSE: Final = bool(os.environ.get("KINDLING_TEST_REUSE"))

_CLUSTER: Final = pytest.StashKey[Cluster]()
_EVIDENCE: Final = pytest.StashKey[dict[str, Path]]()


@dataclass(frozen=True, slots=True)
class Engine:
    """A tiny model that serves, and how it came to: with which `warnings` in its namespace."""

    name: str
    namespace: str
    recording: Recording
    warnings: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Base URL of the API by its DNS name."""
        return endpoint_url(Key(self.namespace, self.name), 8000)


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Say:
    """Writes a line that a person sees at once, although pytest captures the output of tests."""
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    assert reporter is not None
    assert capture is not None
    one_at_a_time = threading.Lock()

    def write(line: str) -> None:
        with one_at_a_time, capture.global_and_fixture_disabled():
            reporter.write_line(line)

    return write


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, say: Say) -> Cluster:
    """The cluster of the tests, up."""
    found = Cluster(say=say)
    found.up()
    request.config.stash[_CLUSTER] = found
    return found


@pytest.fixture(scope="session")
def kube(cluster: Cluster, say: Say) -> Iterator[Kube]:
    """The cluster's API, as its admin."""
    found = Kube(cluster.environment, say=say)
    yield found
    found.close()


@pytest.fixture(scope="session")
def images(cluster: Cluster, kube: Kube, say: Say) -> install.Images:
    """The operator's and the CPU runtime's image in the cluster's registry, as built from here."""
    if REUSE and (running := install.installed_images(kube)) is not None:
        return running
    return install.build_images(cluster, say=say)


@pytest.fixture(scope="session")
def operator(kube: Kube, images: install.Images) -> install.Images:
    """Kindling installed from its chart and ready; the images that it uses."""
    if not (REUSE and kube.get(DEPLOYMENT, install.OPERATOR, install.NAMESPACE)):
        kube.apply(manifests.namespace(install.NAMESPACE))
        install.install(kube, images)
    return images


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny model in `tiny` and, in `bare`, the same without config.json."""
    folder = tmp_path_factory.mktemp("weights")
    make_model(folder / "tiny")
    shutil.copytree(folder / "tiny", folder / "bare")
    (folder / "bare" / "config.json").unlink()
    return folder


@pytest.fixture(scope="module")
def namespace(
    request: pytest.FixtureRequest, cluster: Cluster, kube: Kube, weights: Path
) -> Iterator[str]:
    """A namespace of the module's own, restricted, with the claim `weights`."""
    module = request.module.__name__.rpartition(".")[2].removeprefix("test_")
    name = f"test-{module.replace('_', '-')}"
    furnish(cluster, kube, name, weights)
    yield name
    remove(kube, name)


@pytest.fixture(scope="session")
def shared_engine(
    cluster: Cluster, kube: Kube, operator: install.Images, weights: Path
) -> Iterator[Engine]:
    """One tiny model that serves, for every test that leaves its pods alone."""
    name, namespace = "shared", "test-shared"
    furnish(cluster, kube, namespace, weights)
    with recorded(kube, name, namespace) as recording:
        kube.apply(manifests.tiny(name, namespace))
        kube.wait_condition(name, namespace, type="Ready", seconds=READY_SECONDS)
    yield Engine(name, namespace, recording, warnings=kube.warnings(namespace))
    remove(kube, namespace)


def furnish(cluster: Cluster, kube: Kube, namespace: str, weights: Path) -> None:
    """Make a restricted namespace anew, with the claim `weights` bound to a copy of the folder."""
    remove(kube, namespace)
    cluster.volume(namespace, weights)
    kube.apply(
        manifests.namespace(namespace),
        manifests.claim(CLAIM_NAME, namespace, volume=namespace),
    )


def remove(kube: Kube, namespace: str) -> None:
    """Remove a namespace with its models and its volume, and wait until it is gone.

    Models first: the namespace controller sleeps for half of a pod's grace period if it meets one,
    and a serving pod's is as long as its streams may be.
    """
    if kube.get(NAMESPACE, namespace) is not None:
        kube.kubectl("delete", "im,pods", "--all", "--wait=false", "-n", namespace)
        until(
            f"the pods of {namespace} to be gone",
            lambda: not kube.find(POD, namespace),
            seconds=GONE_SECONDS,
            say=kube.say,
        )
        kube.delete(NAMESPACE, namespace)
    kube.wait_gone(NAMESPACE, namespace, seconds=GONE_SECONDS)
    kube.delete(VOLUME, namespace)
    kube.wait_gone(VOLUME, namespace, seconds=GONE_SECONDS)


def deadlines(items: list[pytest.Item], folder: Path, *, seconds: float = TEST_SECONDS) -> None:
    """Give the tests below `folder` that name no timeout a long one, without their fixtures.

    Fixtures wait with deadlines of their own: a cold cluster takes longer than any test.
    """
    for item in items:
        if item.path.is_relative_to(folder) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(seconds, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test leaves everything that was logged in a folder that its report names."""
    report = yield
    if report.failed:
        _leave_evidence(item, report)
    return report


def _leave_evidence(item: pytest.Item, report: pytest.TestReport) -> None:
    """All logs and objects into a folder, if there is a cluster.

    A fixture that failed once fails every test that wants it, in the same words: one folder.
    """
    found = item.config.stash.get(_CLUSTER, None)
    if found is None:
        return
    known = item.config.stash.setdefault(_EVIDENCE, {})
    folder = known.get(report.longreprtext)
    if folder is None:
        folder = FAILURES / re.sub(r"[^\w.-]+", "-", item.name).strip("-")
        known[report.longreprtext] = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        found.logs(folder)
    told = f"logs of every pod and of the operator, events and objects: {folder}"
    report.sections.append(("cluster", told))
