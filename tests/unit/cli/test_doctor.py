"""What `kindling doctor` finds: the sentence that the user reads, with the number and the fix."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.support.builders import catalog_spec
from tests.support.onenode import ROOT
from tests.support.planning import kindling_plan, node

from kindling_operator import __version__
from kindling_operator.cli_doctor import report
from kindling_operator.cli_doctor_checks import findings
from kindling_operator.cli_doctor_facts import RIGHTS, Cluster
from kindling_operator.cli_doctor_finding import Finding, Level
from kindling_operator.cli_terminal import Terminal
from kindling_operator.schema.crd import root_schema

OPERATOR_LABELS: Final = {
    "app.kubernetes.io/name": "kindling",
    "app.kubernetes.io/component": "operator",
    "app.kubernetes.io/version": __version__,
}


def nodes(name: str) -> tuple[dict[str, Any], ...]:
    path = ROOT / "docs" / "examples" / "nodes" / f"{name}.yaml"
    return tuple(yaml.safe_load(path.read_text())["items"])


def deployment(name: str, namespace: str, image: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": {"containers": [{"name": "operator", "image": image}]}}},
        "status": {"availableReplicas": 1},
    }


OPERATOR: Final = deployment(
    "kindling-operator", "kindling-system", "registry.test/operator:1", **OPERATOR_LABELS
)
LWS: Final = deployment("lws-controller-manager", "lws-system", "registry.k8s.io/lws/lws:v0.8.1")

GOOD: Final = Cluster(
    version="v1.34.2-eks-ecaa3a6",
    groups={
        "leaderworkerset.x-k8s.io": ("v1",),
        "gateway.networking.k8s.io": ("v1",),
        "inference.networking.k8s.io": ("v1",),
        "metrics.k8s.io": ("v1beta1",),
    },
    nodes=nodes("eks-p5"),
    levels={"ml": "restricted", "kindling-system": "restricted", "kube-system": ""},
    daemons=("aws-node", "aws-vpc-cni", "aws-eks-nodeagent"),
    deployments=(OPERATOR, LWS),
    schema=root_schema(),
    served_in=frozenset({"ml"}),
)


def said(cluster: Cluster, check: str) -> list[Finding]:
    return [finding for finding in findings(cluster) if finding.check == check]


def one(cluster: Cluster, check: str) -> tuple[Level, str]:
    (found,) = said(cluster, check)
    return found.level, found.message


def with_labels(changes: dict[str, str | None], *, first: int = 1) -> Cluster:
    """The good cluster with other labels on its first nodes."""
    changed = []
    for number, body in enumerate(GOOD.nodes or ()):
        labels = dict(body["metadata"]["labels"])
        if number < first:
            labels |= {name: value for name, value in changes.items() if value is not None}
            labels = {k: v for k, v in labels.items() if changes.get(k, "") is not None}
        changed.append({**body, "metadata": {**body["metadata"], "labels": labels}})
    return replace(GOOD, nodes=tuple(changed))


def test_a_cluster_that_has_everything() -> None:
    assert list(report(findings(GOOD), Terminal())) == [
        "Kubernetes         ok   v1.34.2-eks-ecaa3a6, at least 1.31 is needed.",
        "GPUs               ok   32 on 4 nodes can be requested.",
        "GPU labels         ok   4 of 4 nodes with GPUs say product and memory.",
        "GPU driver         ok   580.105.08 is the oldest of 4 nodes, branch 580 is needed.",
        "LeaderWorkerSet    ok   leaderworkerset.x-k8s.io/v1 is served, its controller is v0.8.1.",
        "Inference gateway  ok   inference.networking.k8s.io v1 is served.",
        "Metrics            ok   metrics.k8s.io v1beta1 is served.",
        "NetworkPolicy      ok   1 engine found by name: the agent of Amazon's VPC CNI.",
        "Pod Security       ok   2 of 2 namespaces enforce the level restricted.",
        f"CRD                ok   {fields()} of {fields()} fields are those of {__version__}.",
        f"Operator           ok   kindling-system/kindling-operator {__version__}, available"
        " pods: 1.",
        *(
            f"{f'{name}: rights':<18} ok   {len(rights)} of {len(rights)} are yours."
            for name, rights in RIGHTS.items()
        ),
        "14 ok, 0 warn, 0 fail",
    ]


def fields() -> int:
    level, message = one(GOOD, "CRD")
    assert level is Level.OK
    return int(message.split()[0])


@pytest.mark.parametrize(
    ("cluster", "check", "level", "message"),
    [
        (
            replace(GOOD, version="v1.30.4"),
            "Kubernetes",
            Level.FAIL,
            "v1.30.4 is older than 1.31: upgrade the control plane.",
        ),
        (
            with_labels({"nvidia.com/gpu.memory": None, "nvidia.com/gpu.product": None}),
            "GPU labels",
            Level.FAIL,
            "1 of 4 nodes with GPUs lack nvidia.com/gpu.product, nvidia.com/gpu.memory"
            " (ip-10-0-16-11.us-west-2.compute.internal): install NVIDIA's GPU feature discovery,"
            " without it a plan does not know them.",
        ),
        (
            with_labels({"nvidia.com/cuda.driver-version.full": "570.195.03"}, first=2),
            "GPU driver",
            Level.FAIL,
            "2 of 4 nodes with GPUs have a driver before branch 580, the oldest is 570.195.03"
            " (ip-10-0-16-11.us-west-2.compute.internal,"
            " ip-10-0-16-12.us-west-2.compute.internal): upgrade it, the runtime image does not"
            " start on them.",
        ),
        (
            with_labels({"nvidia.com/gpu.sharing-strategy": "time-slicing"}, first=3),
            "GPU sharing",
            Level.WARN,
            "3 of 4 nodes share their GPUs out in time (ip-10-0-16-11.us-west-2.compute.internal,"
            " ip-10-0-16-12.us-west-2.compute.internal, ip-10-0-24-21.us-west-2.compute.internal):"
            " no replica goes there, as it would have no memory of its own, switch time-slicing and"
            " MPS off.",
        ),
        (
            with_labels({"nvidia.com/gpu.count": "9"}),
            "GPUs",
            Level.WARN,
            "1 of 4 nodes advertise fewer GPUs than they have"
            " (ip-10-0-16-11.us-west-2.compute.internal): look for unhealthy devices in the log of"
            " NVIDIA's device plugin.",
        ),
        (
            replace(GOOD, nodes=nodes("cpu-laptop")),
            "GPUs",
            Level.WARN,
            "None of 2 nodes has a GPU: only models that run on CPU have a plan.",
        ),
        (
            replace(GOOD, groups={}),
            "LeaderWorkerSet",
            Level.WARN,
            "0 versions are served, so no replica can span nodes: install LeaderWorkerSet v0.8 or"
            " later if a model needs more GPUs than one node has.",
        ),
        (
            replace(GOOD, deployments=(OPERATOR,)),
            "LeaderWorkerSet",
            Level.WARN,
            "leaderworkerset.x-k8s.io/v1 is served and none of 1 Deployments is"
            " lws-controller-manager: check that its controller runs.",
        ),
        (
            replace(GOOD, groups={"gateway.networking.k8s.io": ("v1",)}),
            "Inference gateway",
            Level.OK,
            "1 of 2 APIs are not served (inference.networking.k8s.io), and this version uses"
            " neither.",
        ),
        (
            replace(GOOD, groups={}),
            "Metrics",
            Level.WARN,
            "0 versions of metrics.k8s.io are served: install metrics-server for `kubectl top` and"
            " for autoscalers by CPU or memory.",
        ),
        (
            replace(GOOD, levels={"ml": "baseline", "kindling-system": "restricted"}),
            "Pod Security",
            Level.WARN,
            "1 of 2 namespaces with models or the operator do not enforce the level restricted"
            " (ml): label them pod-security.kubernetes.io/enforce=restricted, Kindling's pods"
            " comply.",
        ),
        (
            replace(GOOD, deployments=(LWS,)),
            "Operator",
            Level.FAIL,
            "0 of 1 Deployments are Kindling's operator: install it with `helm install kindling"
            " charts/kindling -n kindling-system`.",
        ),
        (
            replace(GOOD, deployments=({**OPERATOR, "status": {}}, LWS)),
            "Operator",
            Level.FAIL,
            "kindling-system/kindling-operator has 0 available pods: see `kubectl describe pods -n"
            " kindling-system -l app.kubernetes.io/component=operator`.",
        ),
        (
            replace(GOOD, schema={}),
            "CRD",
            Level.WARN,
            "inferencemodels.kindling.dev is not installed: install the chart.",
        ),
        (
            replace(GOOD, refused={"explain": (("list", "events.k8s.io", "events"),)}),
            "explain: rights",
            Level.WARN,
            "1 of 3 are missing in the whole cluster (list events): ask for a ClusterRole with them"
            " if you want to `kindling explain` here.",
        ),
        (
            replace(GOOD, nodes=None),
            "GPUs",
            Level.WARN,
            "Not looked at, because you may not list nodes: ask for a ClusterRole with the verb"
            " list on nodes.",
        ),
    ],
)
def test_what_is_amiss_is_told_with_its_number_and_its_fix(
    cluster: Cluster, check: str, level: Level, message: str
) -> None:
    assert one(cluster, check) == (level, message)


@pytest.mark.parametrize(
    ("driver", "level"),
    [
        ("535.104.05", Level.FAIL),
        ("579.99", Level.FAIL),
        ("580.10.01", Level.OK),
        ("590.44", Level.OK),
        ("unknown", Level.WARN),
    ],
)
def test_the_doctor_fails_the_drivers_that_a_plan_refuses(
    tmp_path: Path, driver: str, level: Level
) -> None:
    label: dict[str, Any] = {"cuda.driver-version.full": driver}
    of_nvidia = {f"nvidia.com/{name}": value for name, value in label.items()}
    found, _ = one(with_labels(of_nvidia, first=4), "GPU driver")
    said = kindling_plan(tmp_path, catalog_spec("flint"), node("gpu-0", **label))

    assert found is level
    assert (said.code == 1) is (level is Level.FAIL), said.message


def test_a_device_that_nobody_can_request() -> None:
    """As on nodes whose GPUs are only a DRA driver's, or whose device plugin is down."""
    bare = [
        {**body, "status": {**body["status"], "allocatable": {"cpu": "8", "memory": "1Gi"}}}
        for body in GOOD.nodes or ()
    ]
    assert one(replace(GOOD, nodes=tuple(bare)), "GPUs") == (
        Level.FAIL,
        "4 of 4 nodes have an NVIDIA device and advertise no nvidia.com/gpu"
        " (ip-10-0-16-11.us-west-2.compute.internal, ip-10-0-16-12.us-west-2.compute.internal,"
        " ip-10-0-24-21.us-west-2.compute.internal, ip-10-0-24-22.us-west-2.compute.internal):"
        " install NVIDIA's device plugin, or map the DRA DeviceClass to nvidia.com/gpu.",
    )


def test_no_known_network_policy_engine() -> None:
    level, message = one(replace(GOOD, daemons=("kube-proxy",)), "NetworkPolicy")
    assert level is Level.WARN
    assert "known engines run as a DaemonSet: check that the cluster's network enforces" in message


def test_a_crd_that_lacks_fields_of_this_version() -> None:
    schema = root_schema()
    spec = dict(schema["properties"]["spec"])
    spec["properties"] = {k: v for k, v in spec["properties"].items() if k != "replicas"}
    old = {**schema, "properties": {**schema["properties"], "spec": spec}}

    assert one(replace(GOOD, schema=old), "CRD") == (
        Level.FAIL,
        f"1 of {fields()} fields of this version are missing (spec.replicas): upgrade the CRD with"
        " the chart, or use the command line of the operator's version.",
    )


def test_an_operator_of_another_version() -> None:
    labels = {**OPERATOR_LABELS, "app.kubernetes.io/version": "0.0.9"}
    old = deployment("kindling-operator", "kindling-system", "x", **labels)
    level, message = one(replace(GOOD, deployments=(old, LWS)), "Operator")

    assert level is Level.WARN
    assert message == (
        f"kindling-system/kindling-operator is 0.0.9 and this command line {__version__}: use that"
        " of the same version, their plans may differ."
    )


def test_every_line_of_every_example_fits_and_ends_in_the_numbers() -> None:
    for name in ("nvl72", "lab-2x24gb", "aks-nd", "gke-a3"):
        lines = list(report(findings(replace(GOOD, nodes=nodes(name), groups={})), Terminal(80)))
        assert all(len(line) <= 80 for line in lines)
        assert lines[-1] == "12 ok, 2 warn, 0 fail"
