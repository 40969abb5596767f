"""The life of a release under helm 3 and helm 4, while a model serves: no pod of it is touched.

The tests of this file run in order, once for each helm: each starts from what the last one left.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.support import install, manifests
from tests.support.fixtures import Engine
from tests.support.helm import Helm, helm
from tests.support.install import CHART, NAMESPACE, OPERATOR, RELEASE, Images
from tests.support.kube import CRD, MODEL, POD, Kube, Object, conditions

from kindling_operator.model import names
from kindling_operator.model.names import Kind

pytestmark = pytest.mark.cluster

CRD_NAME: Final = f"{names.PLURAL}.{names.GROUP}"
ROLE: Final = Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles")
BUDGET: Final = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")


@pytest.fixture(scope="module", params=[3, 4], ids=["helm3", "helm4"])
def program(
    request: pytest.FixtureRequest, kube: Kube, operator: Images, shared_engine: Engine
) -> Iterator[Helm]:
    """Each helm in turn, in a namespace that admits restricted pods only; at the end the release
    is again as the other files of tests want it."""
    kube.apply(manifests.namespace(NAMESPACE))
    yield helm(request.param)
    install.install(kube, operator)


@pytest.fixture(scope="module")
def serving(shared_engine: Engine, kube: Kube) -> Object:
    """The serving pod before anything happened."""
    return _pod(kube, shared_engine)


@pytest.fixture(autouse=True)
def untouched(serving: Object, shared_engine: Engine, kube: Kube) -> Iterator[None]:
    """After every test the very same containers serve."""
    yield
    now = _pod(kube, shared_engine)
    assert now["metadata"]["uid"] == serving["metadata"]["uid"]
    assert _containers(now) == _containers(serving)


def _pod(kube: Kube, engine: Engine) -> Object:
    selector = f"{names.LABEL_MODEL}={engine.name}"
    (pod,) = kube.find(POD, engine.namespace, selector=selector)
    return pod


def _containers(pod: Object) -> list[tuple[str, int]]:
    statuses = pod["status"]["containerStatuses"]
    return [(each["containerID"], each["restartCount"]) for each in statuses]


def _settings(images: Images, **further: object) -> list[str]:
    return install.settings({**install.chart_values(images), **further})


def _environment(kube: Kube) -> dict[str, str]:
    pod = kube.have(names.DEPLOYMENT, OPERATOR, NAMESPACE)["spec"]["template"]["spec"]
    return {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}


def test_uninstall_keeps_the_crd_and_the_models(
    program: Helm, kube: Kube, shared_engine: Engine
) -> None:
    told = program.on(kube, "uninstall", RELEASE, "--wait")

    assert "kept due to the resource policy" in told
    assert CRD_NAME in told
    assert kube.get(CRD, CRD_NAME) is not None
    assert kube.get(MODEL, shared_engine.name, shared_engine.namespace) is not None
    assert kube.get(names.DEPLOYMENT, OPERATOR, NAMESPACE) is None
    assert kube.get(names.SERVICE_ACCOUNT, OPERATOR, NAMESPACE) is None
    assert [each for each in kube.find(ROLE) if "kindling" in each["metadata"]["name"]] == []


def test_install_takes_over_what_was_kept(
    program: Helm, kube: Kube, operator: Images, shared_engine: Engine
) -> None:
    notes = program.on(kube, "install", RELEASE, str(CHART), *_settings(operator), "--wait")

    assert "kubectl get im -n NAMESPACE --watch" in notes
    install.wait_for_operator(kube)
    kube.wait_condition(shared_engine.name, shared_engine.namespace, type="Ready", seconds=60)


def test_helm_test_reads_the_metrics(program: Helm, kube: Kube) -> None:
    told = program.on(kube, "test", RELEASE)

    assert "Phase:          Succeeded" in told


def test_upgrade_changes_the_operator_and_the_crd(
    program: Helm, kube: Kube, operator: Images, tmp_path: Path
) -> None:
    newer = _newer_chart(tmp_path)
    settings = _settings(operator, logLevel="debug", replicas=2)

    program.on(kube, "upgrade", RELEASE, str(newer), *settings, "--wait")

    install.wait_for_operator(kube)
    assert _environment(kube)["KINDLING_LOG_LEVEL"] == "DEBUG"
    assert kube.get(BUDGET, OPERATOR, NAMESPACE) is not None
    assert kube.have(CRD, CRD_NAME)["spec"]["names"]["categories"] == ["ai", "newer"]


def test_rollback_restores_both(program: Helm, kube: Kube, shared_engine: Engine) -> None:
    program.on(kube, "rollback", RELEASE, "1", "--wait")

    install.wait_for_operator(kube)
    assert _environment(kube)["KINDLING_LOG_LEVEL"] == "INFO"
    assert kube.get(BUDGET, OPERATOR, NAMESPACE) is None
    assert kube.have(CRD, CRD_NAME)["spec"]["names"]["categories"] == ["ai"]
    found = kube.have(MODEL, shared_engine.name, shared_engine.namespace)
    assert conditions(found)["Ready"].status == "True"


def test_a_newer_helm_takes_the_release_over(program: Helm, kube: Kube, operator: Images) -> None:
    """Of helm 3's release by helm 4; of helm 4's by helm 4 itself."""
    settings = _settings(operator, logLevel="warning")

    helm(4).on(kube, "upgrade", RELEASE, str(CHART), *settings, "--wait")

    install.wait_for_operator(kube)
    assert _environment(kube)["KINDLING_LOG_LEVEL"] == "WARNING"


def _newer_chart(folder: Path) -> Path:
    """A copy of the chart, one version on, whose CRD has one more category."""
    chart = folder / "kindling"
    shutil.copytree(CHART, chart)
    for name, pattern, replacement in [
        ("Chart.yaml", r"(?m)^version: .*$", "version: 99.0.0"),
        ("templates/crd.yaml", r"( *)- ai\n", r"\g<0>\g<1>- newer\n"),
    ]:
        text, count = re.subn(pattern, replacement, (chart / name).read_text())
        assert count == 1, f"{count} times {pattern!r} in {name}"
        (chart / name).write_text(text)
    return chart
