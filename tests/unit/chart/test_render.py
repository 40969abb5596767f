"""What helm makes of the chart: the objects, with the values that change them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml
from tests.support.helm import Helm, Manifest, helm, of_kind, only
from tests.support.install import CHART, NAMESPACE
from tests.support.onenode import ROOT

from kindling_operator.settings import PREFIX, Settings
from kindling_runtime.contract import ENGINE_PORT, RUNTIME_PORT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60, func_only=True)]

DIGEST = "sha256:" + "a1" * 32
DESCRIBED = (
    f'{{"batchedTokens":8192,"blockTokens":16,"cpuArchitectures":["amd64"],"device":"GPU",'
    f'"digests":["{DIGEST}"],"inFlight":2,"name":"ours","sources":{{}},"vllm":"0.33.0"}}'
)
BASE = "registry.example.com/kindling/operator"


def _pod(manifests: list[Manifest]) -> dict[str, Any]:
    return dict(only(manifests, "Deployment")["spec"]["template"]["spec"])


def _environment(manifests: list[Manifest]) -> dict[str, str]:
    [container] = _pod(manifests)["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def test_lint_finds_nothing(program: Helm) -> None:
    done = program.call("lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout
    assert "0 chart(s) failed" in done.stdout
    assert "WARNING" not in done.stdout


def test_both_helms_render_the_same() -> None:
    by_name = [
        sorted(helm(major).manifests(), key=lambda each: (each["kind"], each["metadata"]["name"]))
        for major in (3, 4)
    ]

    assert by_name[0] == by_name[1]


def test_rendered_yaml_is_clean(program: Helm) -> None:
    """Empty lines are left out of it: helm joins the templates' own documents."""
    rules = (ROOT / ".yamllint.yaml").read_text() + "  empty-lines: disable\n"
    checked = subprocess.run(
        [sys.executable, "-m", "yamllint", "--strict", "--config-data", rules, "-"],
        input=program.render("--set=replicas=2", "--set=watchNamespaces={ml,search}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert checked.stdout == ""


def test_every_object_carries_the_labels_and_the_namespace(program: Helm) -> None:
    for manifest in program.manifests("--set=replicas=2"):
        metadata = manifest["metadata"]
        if manifest["kind"] != "CustomResourceDefinition":
            assert metadata["labels"]["app.kubernetes.io/name"] == "kindling", metadata
        if manifest["kind"].startswith(("Cluster", "Custom")):
            assert "namespace" not in metadata
        else:
            assert metadata["namespace"] == NAMESPACE, metadata


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ([], f"{BASE}:0.1.0"),
        (["--set=images.operator.tag=main"], f"{BASE}:main"),
        ([f"--set=images.operator.digest={DIGEST}"], f"{BASE}@{DIGEST}"),
        (
            ["--set=images.operator.tag=main", f"--set=images.operator.digest={DIGEST}"],
            f"{BASE}:main@{DIGEST}",
        ),
    ],
)
def test_an_image_is_named_by_version_tag_or_digest(
    program: Helm, settings: list[str], reference: str
) -> None:
    [container] = _pod(program.manifests(*settings))["containers"]

    assert container["image"] == reference


EVERY_VALUE = (
    "--set=images.pullPolicy=Always",
    "--set=images.pullSecrets={one,two}",
    "--set=images.runtimeCpu.tag=cpu",
    f"--set=images.runtime.digest={DIGEST}",
    "--set=watchNamespaces={ml,search}",
    "--set=logLevel=debug",
    "--set=nameForeignHolders=true",
    "--set=developmentStore=true",
    "--set=proveEndpoint=false",
    "--set=weights.cacheClaim=models",
    "--set=weights.cacheMaxBytes=2Ti",
    f"--set-json=runtimes=[{DESCRIBED}]",
    "--set=leaderElection.leaseDuration=60s",
)


def test_the_operator_learns_every_setting(program: Helm) -> None:
    environment = _environment(program.manifests(*EVERY_VALUE))

    # The downward API fills in these two.
    environment |= {"KINDLING_POD_NAME": "pod", "KINDLING_POD_NAMESPACE": NAMESPACE}

    assert {name.removeprefix(PREFIX).lower() for name in environment} <= set(
        Settings.__annotations__
    )
    assert Settings.from_environment(environment) == Settings(
        cuda_image=f"registry.example.com/kindling/runtime@{DIGEST}",
        cpu_image="registry.example.com/kindling/runtime-cpu:cpu",
        image_pull_policy="Always",
        image_pull_secrets=("one", "two"),
        name_foreign_holders=True,
        development_store=True,
        prove_endpoint=False,
        cache_claim="models",
        cache_max_bytes="2Ti",
        runtimes=f"[{DESCRIBED}]",
        pod_name="pod",
        pod_namespace=NAMESPACE,
        watch_namespaces=("ml", "search"),
        lease_duration=60,
        log_level="DEBUG",
    )


def test_the_kubelet_asks_the_operator_itself(program: Helm) -> None:
    [container] = _pod(program.manifests())["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    probes = {name: container.get(f"{name}Probe") for name in ("startup", "liveness", "readiness")}

    assert ports == {"health": 8080, "metrics": 9090}
    for name, probe in probes.items():
        assert probe is not None, name
        assert probe["httpGet"] == {"path": "/healthz", "port": "health"}, name


def test_the_operator_fits_restricted_pod_security(program: Helm) -> None:
    """And a bit more: nothing of its root filesystem can be written."""
    pod = _pod(program.manifests())
    [container] = pod["containers"]

    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [volume["name"] for volume in pod["volumes"] if "emptyDir" in volume] == ["tmp"]
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()


def test_the_operator_gets_the_resources_of_the_values(program: Helm) -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())["resources"]
    [container] = _pod(program.manifests())["containers"]
    [larger] = _pod(program.manifests("--set=resources.limits.memory=1Gi"))["containers"]

    assert container["resources"] == defaults
    assert defaults["requests"].keys() == {"cpu", "memory"}
    assert larger["resources"] == {**defaults, "limits": {"memory": "1Gi"}}


def test_pull_secrets_serve_the_operator_too(program: Helm) -> None:
    pod = _pod(program.manifests("--set=images.pullSecrets={one,two}"))

    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]


def test_one_operator_needs_no_budget(program: Helm) -> None:
    manifests = program.manifests()

    assert of_kind(manifests, "PodDisruptionBudget") == []
    assert "topologySpreadConstraints" not in _pod(manifests)


def test_two_operators_are_spread_and_drained_one_by_one(program: Helm) -> None:
    manifests = program.manifests("--set=replicas=2")
    selector = only(manifests, "Deployment")["spec"]["selector"]
    budget = only(manifests, "PodDisruptionBudget")["spec"]
    [spread] = _pod(manifests)["topologySpreadConstraints"]

    assert (budget["maxUnavailable"], budget["selector"]) == (1, selector)
    assert (spread["whenUnsatisfiable"], spread["labelSelector"]) == ("ScheduleAnyway", selector)


def test_the_network_policy_names_ports_of_the_pod(program: Helm) -> None:
    manifests = program.manifests()
    policy = only(manifests, "NetworkPolicy")["spec"]
    [container] = _pod(manifests)["containers"]
    ingress = {each["port"] for rule in policy["ingress"] for each in rule["ports"]}

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"] == only(manifests, "Deployment")["spec"]["selector"]
    assert ingress == {each["name"] for each in container["ports"]}
    assert [each["port"] for each in policy["egress"][0]["ports"]] == [443, 6443]
    assert [each["port"] for each in policy["egress"][1]["ports"]] == [ENGINE_PORT, RUNTIME_PORT]
    assert [each["port"] for each in policy["egress"][2]["ports"]] == [53, 53]


def test_an_operator_that_asks_no_pods_may_not_reach_them(program: Helm) -> None:
    policy = only(program.manifests("--set=proveEndpoint=false"), "NetworkPolicy")["spec"]

    assert [[each["port"] for each in rule["ports"]] for rule in policy["egress"]] == [
        [443, 6443],
        [53, 53],
    ]


def test_the_network_policy_can_be_narrowed(program: Helm) -> None:
    policy = only(
        program.manifests(
            '--set-json=networkPolicy.metricsFrom=[{"namespaceSelector": {}}]',
            "--set=networkPolicy.apiServer.cidrs={10.0.0.1/32}",
            "--set=networkPolicy.apiServer.ports={8443}",
        ),
        "NetworkPolicy",
    )["spec"]

    assert policy["ingress"][1]["from"] == [{"namespaceSelector": {}}]
    assert policy["egress"][0] == {
        "ports": [{"port": 8443, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}],
    }


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("networkPolicy.enabled=false", "NetworkPolicy"),
        ("metrics.service.enabled=false", "Service"),
        ("crds.install=false", "CustomResourceDefinition"),
    ],
)
def test_a_part_can_be_left_out(program: Helm, setting: str, kind: str) -> None:
    assert len(of_kind(program.manifests(), kind)) == 1
    assert of_kind(program.manifests(f"--set={setting}"), kind) == []


def test_the_crd_is_the_generated_one_and_is_kept(program: Helm) -> None:
    rendered = only(program.manifests(), "CustomResourceDefinition")
    [generated] = (ROOT / "crds").glob("*.yaml")
    annotations = rendered["metadata"].pop("annotations")
    original = yaml.safe_load(generated.read_text())
    original["metadata"].pop("annotations", None)
    rendered["metadata"].pop("labels", None)
    original["metadata"].pop("labels", None)

    assert annotations["helm.sh/resource-policy"] == "keep"
    assert rendered == original


def test_a_release_of_another_name_has_names_of_its_own(program: Helm) -> None:
    done = program.template(release="blue")
    manifests = [each for each in yaml.safe_load_all(done.stdout) if each]

    assert only(manifests, "Deployment")["metadata"]["name"] == "blue-kindling-operator"
    assert _environment(manifests)["KINDLING_LEASE_NAME"] == "blue-kindling-operator"
