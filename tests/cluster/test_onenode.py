"""What the one-node Kubernetes of the tests can do, so that a failure elsewhere is not its fault.

The claims of docs/cluster.md, one test each. Those that need addons are part of `make soak`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.support.kube import NAMESPACE, VOLUME, Kube, KubectlError
from tests.support.onenode import COMMAND, Cluster, run
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.cluster

CLAIMS: Final = COMMAND.parent / "claims"
HERE: Final = "claims"
SERVICE: Final = "http://srv.claims.svc.cluster.local/"
HELLO: Final = "hello from srv"


def _apply(kube: Kube, *files: str) -> None:
    for file in files:
        kube.kubectl("apply", "-f", str(CLAIMS / f"{file}.yaml"))


def _delete(kube: Kube, *files: str) -> None:
    for file in files:
        kube.kubectl("delete", "--ignore-not-found", "-f", str(CLAIMS / f"{file}.yaml"))


def _inside(kube: Kube, target: str, *command: str, namespace: str = HERE) -> str:
    return kube.kubectl("exec", "-n", namespace, target, "--", "/echo", *command)


def _reaches(kube: Kube, url: str, *, pod: str, namespace: str = HERE) -> bool:
    try:
        return HELLO in _inside(kube, pod, "get", url, namespace=namespace)
    except KubectlError as error:
        if re.search(r"exit code|deadline", error.err) is None:
            raise
        return False


@pytest.fixture(scope="module")
def echo(cluster: Cluster, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two servers in a restricted namespace, and clients there and outside it."""
    cluster.addon("echo")
    data = tmp_path_factory.mktemp("data")
    (data / "word").write_text("readable")
    (data / "word").chmod(0o600)
    cluster.volume("claims-data", data)
    _apply(kube, "srv", "clients")
    kube.kubectl("rollout", "status", "-n", HERE, "deploy/srv", "--timeout=90s", seconds=100)
    for namespace in (HERE, "default"):
        command = ("wait", "-n", namespace, "--for=condition=Ready", "pod", "--all")
        kube.kubectl(*command, "--timeout=90s", seconds=100)
    yield
    _delete(kube, "clients", "srv")
    kube.wait_gone(NAMESPACE, HERE, seconds=120)
    kube.delete(VOLUME, "claims-data")


@pytest.fixture(scope="module")
def widgets(kube: Kube, echo: None) -> Iterator[None]:
    """A custom resource with defaults, rules and subresources."""
    _apply(kube, "crd")
    crd = "crd/widgets.claims.onenode"
    kube.kubectl("wait", "--for=condition=Established", crd, "--timeout=30s")
    _widget(kube, 3)
    yield
    _delete(kube, "crd")


def _widget(kube: Kube, replicas: int, *, manager: str = "a") -> str:
    manifest = json.dumps(
        {
            "apiVersion": "claims.onenode/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": HERE},
            "spec": {"replicas": replicas},
        }
    )
    command = ("apply", "--server-side", "--field-manager", manager, "-f", "-")
    return kube.kubectl(*command, stdin=manifest)


def test_a_service_is_found_by_its_dns_name(kube: Kube, echo: None) -> None:
    until(
        "the service to answer by name",
        lambda: _reaches(kube, SERVICE, pod="stranger"),
        seconds=20,
        say=kube.say,
    )


def test_the_machine_reaches_a_service_in_the_clusters_network(
    cluster: Cluster, kube: Kube, echo: None
) -> None:
    address = kube.kubectl("get", "svc", "srv", "-n", HERE, "-o", "jsonpath={.spec.clusterIP}")

    assert HELLO in run(*cluster.inside("curl", "-fsS", f"http://{address}/"), seconds=30)


def test_logs_and_exec(kube: Kube, echo: None) -> None:
    assert "serving as srv" in kube.kubectl("logs", "-n", HERE, "deploy/srv")
    assert "HOSTNAME=srv" in _inside(kube, "deploy/srv", "env")


def test_port_forward_from_an_ordinary_shell(kube: Kube, echo: None) -> None:
    port = free_port()
    command = ("kubectl", "port-forward", "-n", HERE, "svc/srv", f"{port}:80")
    with subprocess.Popen(command, env=kube.environment, stdout=subprocess.DEVNULL) as forward:
        try:
            until(
                "the forwarded port to answer",
                lambda: HELLO in _body(f"http://127.0.0.1:{port}/"),
                seconds=20,
                forgive=(OSError,),
                say=kube.say,
            )
        finally:
            forward.terminate()


def _body(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return bytes(answer.read()).decode()


def test_a_memory_limit_is_a_limit_of_the_cgroup(kube: Kube, echo: None) -> None:
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    file = "memory.max" if unified else "memory/memory.limit_in_bytes"

    assert _inside(kube, "deploy/srv", "cat", f"/sys/fs/cgroup/{file}").strip() == "67108864"


def test_a_volume_is_readable_by_the_pods_user(kube: Kube, echo: None) -> None:
    assert _inside(kube, "stranger", "cat", "/data/word") == "readable"


def test_a_projected_token_has_its_own_audience(kube: Kube, echo: None) -> None:
    body = _inside(kube, "deploy/srv", "cat", "/id/token").split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))

    assert claims["aud"] == ["sts.amazonaws.com"]
    assert claims["kubernetes.io"]["node"]["name"] == "onenode"


def test_oidc_discovery(kube: Kube) -> None:
    found = json.loads(kube.kubectl("get", "--raw", "/.well-known/openid-configuration"))

    assert found["issuer"] == "https://kubernetes.default.svc.cluster.local"
    assert found["id_token_signing_alg_values_supported"] == ["RS256"]


def test_pod_security_refuses_a_privileged_pod(kube: Kube, echo: None) -> None:
    with pytest.raises(KubectlError, match=r"violates PodSecurity .restricted"):
        kube.kubectl("run", "bad", "-n", HERE, "--image=localhost/echo:1", "--privileged")


def test_rbac_denies_by_default(kube: Kube, echo: None) -> None:
    who = f"--as=system:serviceaccount:{HERE}:default"

    with pytest.raises(KubectlError, match="Forbidden"):
        kube.kubectl("get", "secrets", "-n", HERE, who)


def test_a_pod_reaches_the_api_server(kube: Kube, echo: None) -> None:
    with pytest.raises(KubectlError, match="x509"):  # it answers with a certificate of our CA
        _inside(kube, "stranger", "get", "https://kubernetes.default/")


def test_an_hpa_reads_the_scale(kube: Kube, echo: None) -> None:
    assert "Deployment/srv" in kube.kubectl("get", "hpa", "srv", "-n", HERE)


def test_a_rule_of_a_crd_speaks_its_message(kube: Kube, widgets: None) -> None:
    with pytest.raises(KubectlError, match="replicas is over the limit"):
        _widget(kube, 9)


def test_server_side_apply_fills_in_defaults(kube: Kube, widgets: None) -> None:
    assert "serverside-applied" in _widget(kube, 3)
    path = "jsonpath={.spec.model} {.spec.limit}"
    assert kube.kubectl("get", "widget", "w", "-n", HERE, "-o", path) == "a 5"


def test_a_transition_rule_holds(kube: Kube, widgets: None) -> None:
    patch = ("--type=merge", "-p", '{"spec":{"model":"b"}}')

    with pytest.raises(KubectlError, match="model is immutable"):
        kube.kubectl("patch", "widget", "w", "-n", HERE, *patch)


def test_field_managers_conflict(kube: Kube, widgets: None) -> None:
    with pytest.raises(KubectlError, match='conflict with "a"'):
        _widget(kube, 4, manager="b")


def test_scale_and_status_are_subresources(kube: Kube, widgets: None) -> None:
    patch = ("--subresource=status", "--type=merge", "-p", '{"status":{"replicas":2}}')

    assert "scaled" in kube.kubectl("scale", "widget/w", "-n", HERE, "--replicas=2")
    assert "patched" in kube.kubectl("patch", "widget", "w", "-n", HERE, *patch)
    path = "jsonpath={.spec.replicas} {.status.replicas}"
    assert kube.kubectl("get", "widget", "w", "-n", HERE, "-o", path) == "2 2"


def test_an_image_travels_through_the_registry(cluster: Cluster, kube: Kube, echo: None) -> None:
    archive = _echo_archive(cluster)
    image = f"{cluster.registry}/claims/echo:1"
    run("buildah", "pull", "--quiet", f"docker-archive:{archive}", seconds=60)
    run("buildah", "push", "--quiet", "--tls-verify=false", "localhost/echo:1", image, seconds=60)

    kube.kubectl("run", "pulled", f"--image={image}", "--image-pull-policy=Always")
    try:
        wait = ("wait", "--for=condition=Ready", "pod/pulled", "--timeout=60s")
        kube.kubectl(*wait, seconds=70)
        assert "serving as pulled" in kube.kubectl("logs", "pulled")
    finally:
        kube.kubectl("delete", "pod", "pulled", "--now")


def _echo_archive(cluster: Cluster) -> Path:
    folder = run(COMMAND, "--name", cluster.name, "build", "echo", seconds=600)
    return Path(folder.strip()) / "images" / "echo.tar"


def test_the_audit_log_names_who_asked_what(kube: Kube, cluster: Cluster) -> None:
    log = Path(cluster.environment["KUBECONFIG"]).parent / "var/log/onenode/audit.log"
    start = log.stat().st_size
    kube.kubectl("create", "configmap", "audited", "-n", "default")
    kube.kubectl("delete", "configmap", "audited", "-n", "default")

    with log.open("rb") as lines:
        lines.seek(start)
        seen = [json.loads(line) for line in lines]
    about = [
        (entry["verb"], entry["user"]["username"], entry["responseStatus"]["code"])
        for entry in seen
        if "/configmaps" in entry["requestURI"] and entry["user"]["username"] == "admin"
    ]
    assert ("create", "admin", 201) in about
    assert ("delete", "admin", 200) in about


@pytest.mark.slow
def test_network_policies_are_enforced(cluster: Cluster, kube: Kube, echo: None) -> None:
    cluster.addon("netpol")
    cluster.release("netpol")
    _apply(kube, "netpol")
    try:
        _until_reached(kube, pod="friend", reached=True)
        _until_reached(kube, pod="stranger", reached=False)
        assert not _reaches(kube, SERVICE, pod="friend", namespace="default")  # same label
    finally:
        _delete(kube, "netpol")
    _apply(kube, "egress")
    try:
        _until_reached(kube, pod="stranger", reached=False)
        assert not _reaches(kube, "https://kubernetes.default/", pod="stranger")
    finally:
        _delete(kube, "egress")
    _until_reached(kube, pod="stranger", reached=True)


def _until_reached(kube: Kube, *, pod: str, reached: bool) -> None:
    until(
        f"{pod} {'to reach' if reached else 'to be kept from'} the service",
        lambda: _reaches(kube, SERVICE, pod=pod) is reached,
        seconds=30,
        say=kube.say,
    )


@pytest.mark.slow
def test_fake_nodes_take_pods_and_groups(cluster: Cluster, kube: Kube, echo: None) -> None:
    cluster.addon("kwok")
    _delete(kube, "fake-pods", "fake-nodes")
    kube.kubectl("create", "-f", str(CLAIMS / "fake-nodes.yaml"))
    try:
        nodes = ("node/gpu-0", "node/gpu-1")
        kube.kubectl("wait", "--for=condition=Ready", *nodes, "--timeout=30s")
        _apply(kube, "fake-pods")  # 3 pods of 8 GPUs for 2 nodes of 8
        _until_field(kube, "deploy/fake", "{.status.readyReplicas}", "2")
        _delete(kube, "fake-pods")
        cluster.addon("lws")
        until("the webhook to answer", lambda: _applied(kube, "lws"), seconds=30, say=kube.say)
        _until_field(kube, "lws/big", "{.status.readyReplicas}", "1")
    finally:
        if "leaderworkersets" in kube.kubectl("api-resources", "-o", "name"):
            _delete(kube, "lws")
        _delete(kube, "fake-pods", "fake-nodes")


def _applied(kube: Kube, file: str) -> bool:
    try:
        _apply(kube, file)
    except KubectlError as error:
        if "webhook" not in error.err:
            raise
        return False
    return True


def _until_field(kube: Kube, target: str, path: str, value: str) -> None:
    until(
        f"{target} to have {path} = {value}",
        lambda: kube.kubectl("get", target, "-o", f"jsonpath={path}") == value,
        seconds=60,
        say=kube.say,
        show=lambda: kube.kubectl("get", target),
    )


@pytest.mark.slow
def test_fake_gpus_reach_the_container(cluster: Cluster, kube: Kube, echo: None) -> None:
    cluster.addon("fakegpu")
    _until_field(kube, "node/onenode", r"{.status.allocatable.nvidia\.com/gpu}", "8")
    limits = {"limits": {"nvidia.com/gpu": 2}}
    container = {"name": "c", "image": "localhost/echo:1", "resources": limits}
    overrides = json.dumps({"spec": {"containers": [container]}})
    command = ("run", "gpus", "--image=localhost/echo:1", f"--overrides={overrides}")
    kube.kubectl(*command)
    try:
        wait = ("wait", "--for=condition=Ready", "pod/gpus", "--timeout=60s")
        kube.kubectl(*wait, seconds=70)
        seen = kube.kubectl("exec", "gpus", "--", "/echo", "env")
        assert len(re.findall(r"GPU-fake-\d", seen)) == 2
    finally:
        kube.kubectl("delete", "pod", "gpus", "--now")


def test_helm_works_from_an_ordinary_shell(cluster: Cluster) -> None:
    out = run("helm", "list", "-A", seconds=60, env={**os.environ, **cluster.environment})

    assert out.startswith("NAME")
