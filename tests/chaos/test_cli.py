"""The command line against a real API server: its plan is the operator's, its words are right."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.chaos.stories import NAME, SECONDS, URI, apply, ready, serve
from tests.support import kubelet
from tests.support.apiserver import ControlPlane
from tests.support.kube import MODEL, Kube, Object
from tests.support.manifests import RESTRICTED, tiny
from tests.support.operator_process import NAMESPACE, QUICK, OperatorProcess
from tests.support.waiting import until

from kindling_operator import __version__
from kindling_operator.cli import main

pytestmark = pytest.mark.cluster

LABELS: Final = {"app.kubernetes.io/name": "kindling", "app.kubernetes.io/component": "operator"}
GUEST: Final = "guest"
RBAC: Final = "rbac.authorization.k8s.io/v1"

Said = tuple[int, str, str]
Kindling = Callable[..., Said]


@pytest.fixture
def kindling(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> Kindling:
    """Runs a command on the control plane; its exit code, output and errors."""

    def run(*arguments: str, kubeconfig: Path | None = None) -> Said:
        capsys.readouterr()
        where = ("--kubeconfig", str(kubeconfig or plane.kubeconfig()), "--context", "test")
        code = main([*arguments, *where])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def deployment() -> Object:
    """The operator's Deployment as the chart makes it; its process runs beside the cluster."""
    variables = [{"name": name, "value": value} for name, value in QUICK.items()]
    container = {"name": "operator", "image": "registry.example.com/operator", "env": variables}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "kindling-operator",
            "namespace": NAMESPACE,
            "labels": {**LABELS, "app.kubernetes.io/version": __version__},
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
        },
    }


@pytest.fixture
def guest(plane: ControlPlane, kube: Kube, namespace: str, tmp_path: Path) -> Callable[..., Path]:
    """Makes a kubeconfig of somebody who has the given rules in the namespace, and no other."""
    metadata = {"name": GUEST, "namespace": namespace}

    def made(*rules: Object) -> Path:
        kube.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": list(rules)},
            {
                "apiVersion": RBAC,
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": "Role", "name": GUEST},
                "subjects": [{"kind": "ServiceAccount", **metadata}],
            },
        )
        config = yaml.safe_load(plane.kubeconfig().read_text())
        token = kube.kubectl("create", "token", GUEST, "-n", namespace).strip()
        config["users"] = [{"name": "admin", "user": {"token": token}}]
        path = tmp_path / "guest.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    return made


def test_a_plan_in_the_cluster_is_what_its_operator_decides(
    operator: OperatorProcess, kube: Kube, namespace: str, kindling: Kindling, tmp_path: Path
) -> None:
    kube.apply(deployment())
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny(NAME, namespace, uri=URI)))

    code, out, err = kindling("plan", "-f", str(file), "-o", "json")
    before = json.loads(out)

    assert code == 0
    assert err == f"kindling: as the operator {NAMESPACE}/kindling-operator would decide\n"
    assert kube.get(MODEL, NAME, namespace) is None, "a plan writes nothing"

    apply(kube, namespace)
    found = kube.wait_condition(NAME, namespace, type="Accepted", seconds=SECONDS)
    decided = until(
        "the plan in status",
        lambda: kube.have(MODEL, NAME, namespace)["status"].get("plan"),
        seconds=SECONDS,
    )
    assert found["status"]["observedGeneration"] == 1
    assert before["plan"] == decided

    code, out, _ = kindling("plan", "-f", str(file))
    assert code == 0
    assert f"  stored       revision (replicas): {decided['revision'].removeprefix('tiny-')}" in out


def test_a_plan_counts_the_pods_of_others(
    operator: OperatorProcess, kube: Kube, namespace: str, kindling: Kindling, tmp_path: Path
) -> None:
    """64 CPUs, and somebody has all of them."""
    hog = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "64"}}}
    hog["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hog", "namespace": namespace, "labels": dict(RESTRICTED)},
            "spec": {"nodeName": kubelet.NODE_NAME, "containers": [hog]},
        }
    )
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny(NAME, namespace, uri=URI)))
    try:
        code, out, _ = kindling("plan", "-f", str(file))
    finally:
        kube.kubectl("delete", "pod", "hog", "-n", namespace, "--grace-period=0", "--force")

    assert code == 1
    assert out.startswith(f"{namespace}/{NAME}: waits, InsufficientResources\n")
    assert "  then         CPU, BF16, 2048 ctx\n" in out


def test_a_missing_right_is_named(
    guest: Callable[..., Path], namespace: str, kindling: Kindling, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny(NAME, namespace, uri=URI)))
    nobody = guest()

    code, out, err = kindling("plan", "-f", str(file), kubeconfig=nobody)
    assert (code, out) == (1, "")
    assert err == (
        "kindling: you may not list deployments of apps in the whole cluster: ask for a role with"
        " the verb list on deployments, or plan from files with --nodes and --pods\n"
    )
    code, _, err = kindling("explain", f"im/{NAME}", "-n", namespace, kubeconfig=nobody)
    assert code == 1
    assert err == (
        f"kindling: you may not get inferencemodels in namespace {namespace}: ask for a role with"
        " the verb get on inferencemodels of kindling.dev\n"
    )


def test_a_story_from_waiting_to_serving(
    operator: OperatorProcess, kube: Kube, namespace: str, kindling: Kindling
) -> None:
    def told() -> str:
        code, out, err = kindling("explain", f"im/{NAME}", "-n", namespace)
        assert (code, err) == (0, "")
        return " ".join(out.split())

    kube.apply(tiny(NAME, namespace, uri="pvc://nowhere/tiny"))
    kube.wait_condition(NAME, namespace, type="Scheduled", status="False", seconds=SECONDS)
    text = told()
    assert text.startswith(f"{namespace}/{NAME}: waits since ")
    assert "ClaimNotBound PersistentVolumeClaim" in text
    assert "What to do: Create or bind the claim" in text

    apply(kube, namespace)
    (pod,) = kubelet.serving_pods(kube, NAME, namespace, count=1)
    words = "WeightsIncomplete: /models/tiny has no config.json: copy the whole folder"
    kubelet.end(kube, pod, code=78, message=words)
    kube.wait_condition(
        NAME, namespace, type="Available", status="False", reason="WeightsIncomplete", seconds=90
    )
    text = told()
    assert text.startswith(f"{namespace}/{NAME}: fails since ")
    assert "has no config.json: copy the whole folder" in text
    assert "CrashLoopBackOff, restarts: 1, the last ended with exit code 78" in text

    serve(kube, namespace)
    text = told()
    assert text.startswith(f"{namespace}/{NAME}: serves since ")
    assert "generates tokens behind the endpoint" in text
    assert "ReplicaReady" in text


def test_a_story_names_what_its_reader_may_not_see(
    operator: OperatorProcess,
    guest: Callable[..., Path],
    kube: Kube,
    namespace: str,
    kindling: Kindling,
) -> None:
    ready(kube, namespace)
    rule = {"apiGroups": ["kindling.dev"], "resources": ["inferencemodels"], "verbs": ["get"]}

    code, out, _ = kindling("explain", f"im/{NAME}", "-n", namespace, kubeconfig=guest(rule))

    text = " ".join(out.split())
    assert code == 0
    assert f"{namespace}/{NAME}: serves since" in text
    assert f"you may not list pods in namespace {namespace}: ask for a role with" in text
    assert f"you may not list events in namespace {namespace}" in text


def test_the_doctor_looks_at_everything(
    operator: OperatorProcess, kube: Kube, kindling: Kindling
) -> None:
    kube.apply(deployment())

    code, out, err = kindling("doctor")

    assert (code, err) == (1, "")
    lines = {line[:18].strip(): line[19:].strip() for line in out.splitlines()}
    assert lines["Kubernetes"].startswith("ok   v1.")
    assert lines["GPUs"].startswith("warn None of 1 nodes has a GPU")
    assert lines["CRD"].startswith("ok ")
    assert lines["Operator"].startswith(f"fail {NAMESPACE}/kindling-operator has 0 available pods")
    assert lines["plan: rights"].startswith("ok ")
    assert out.splitlines()[-1].endswith(" 1 fail")


def test_it_is_a_plugin_of_kubectl(plane: ControlPlane) -> None:
    path = f"{Path(sys.executable).parent}:{plane.environment['PATH']}"
    done = subprocess.run(
        ["kubectl", "kindling", "--version"],
        env={**plane.environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == f"kindling {__version__}\n"
