"""What is rendered for a model: every kind, its order, its owner, and the pod's constraints."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.support.builders import Cluster, catalog_spec, cpu_node, gpu_node, tiny_spec

from kindling_operator.model.names import (
    CHILD_KINDS,
    LABEL_MANAGED_BY,
    LABEL_MODEL,
    LEADER_WORKER_SET,
    MANAGED_BY,
)
from kindling_operator.model.plan import GroupPlan
from kindling_operator.model.status import ParallelismStatus
from kindling_operator.render import Manifest, render
from kindling_operator.render.launch import launch_plan
from kindling_operator.render.quantities import cpu_quantity, memory_quantity
from kindling_runtime import contract

GIB, MIB = 1 << 30, 1 << 20

SPECS = {
    "tiny on CPU": tiny_spec(),
    "Flint on a GPU": catalog_spec("flint"),
    "with everything that may be asked of a pod": tiny_spec(
        placement={
            "nodeSelector": {"pool": "serving"},
            "tolerations": [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "serving",
        },
        runtime={"imagePullSecrets": [{"name": "registry"}], "resources": {"cpu": 1}},
    ),
}
EACH = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())


def cluster(spec: Any) -> Cluster:
    laptop = cpu_node(labels={**cpu_node().labels, "pool": "serving"})
    return Cluster(nodes=(gpu_node("gpu-0"), laptop)).apply(spec)


def rendered(spec: Any) -> tuple[Manifest, ...]:
    found = cluster(spec).manifests()
    assert found
    return found


def one(spec: Any, kind: str) -> Manifest:
    (found,) = (manifest for manifest in rendered(spec) if manifest["kind"] == kind)
    return found


def pod(spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = one(spec, "Deployment")["spec"]["template"]["spec"]
    return found


def container(spec: Any) -> dict[str, Any]:
    (found,) = pod(spec)["containers"]
    assert isinstance(found, dict)
    return found


@EACH
def test_each_kind_once_in_the_order_of_apply(spec: Any) -> None:
    kinds = [kind.kind for kind in CHILD_KINDS if kind != LEADER_WORKER_SET]
    assert [m["kind"] for m in rendered(spec)] == kinds


@EACH
def test_every_child_is_found_and_owned(spec: Any) -> None:
    for manifest in rendered(spec):
        metadata = manifest["metadata"]
        assert metadata["labels"][LABEL_MODEL] == "tiny"
        assert metadata["labels"][LABEL_MANAGED_BY] == MANAGED_BY
        assert metadata["namespace"] == "ml"
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "kindling.dev/v1alpha1",
                "kind": "InferenceModel",
                "name": "tiny",
                "uid": "uid-of-tiny",
                "controller": True,
            }
        ]


def _empty(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _empty(below, f"{path}.{key}")
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from _empty(below, f"{path}[{place}]")
    if value in ({}, [], (), None):
        yield path


@EACH
def test_nothing_is_rendered_that_the_api_server_would_drop(spec: Any) -> None:
    for manifest in rendered(spec):
        whole = {key: value for key, value in manifest.items() if key != "data"}
        assert list(_empty(whole, manifest["kind"])) == []


@EACH
def test_the_pod_keeps_the_restricted_profile(spec: Any) -> None:
    """The rules of Pod Security `restricted` (Kubernetes 1.37), one by one."""
    whole, engine = pod(spec), container(spec)

    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & whole.keys()
    assert whole["securityContext"]["runAsNonRoot"] is True
    assert whole["securityContext"]["runAsUser"] == 65532
    assert whole["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert engine["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    kinds = {key for volume in whole["volumes"] for key in volume if key != "name"}
    assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim"}


@EACH
def test_nothing_reaches_the_api_server_from_the_pod(spec: Any) -> None:
    assert one(spec, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod(spec)["automountServiceAccountToken"] is False
    assert pod(spec)["enableServiceLinks"] is False


@EACH
def test_the_pod_waits_as_long_as_its_drain_takes(spec: Any) -> None:
    launch = contract.decode(one(spec, "ConfigMap")["data"]["plan.json"].encode())

    grace = contract.termination_grace_seconds(launch.drain)
    assert pod(spec)["terminationGracePeriodSeconds"] == grace
    assert f"--shutdown-timeout={launch.drain.stream_seconds}" in launch.engine.argv


@EACH
def test_the_runtime_waits_for_what_the_front_sees(spec: Any) -> None:
    launch = contract.decode(one(spec, "ConfigMap")["data"]["plan.json"].encode())

    assert launch.front is not None
    # As long as without a front, though nobody asks; longer while somebody does.
    assert launch.front.settle_seconds == 5
    assert launch.drain.endpoint_seconds > launch.front.settle_seconds


@pytest.mark.parametrize(
    ("data", "pods", "servers"),
    [
        pytest.param(1, 1, 1, id="alone"),
        pytest.param(8, 1, 8, id="all data ranks in one pod"),
        pytest.param(8, 2, 4, id="each pod its own data ranks"),
        pytest.param(1, 2, 1, id="one engine over two pods"),
    ],
)
def test_a_pod_has_a_server_for_each_of_its_data_ranks(data: int, pods: int, servers: int) -> None:
    decision = cluster(tiny_spec()).decide()
    assert decision.current is not None
    group = GroupPlan(rank_arguments=((),) * pods, serving=(True,) * pods) if pods > 1 else None
    sizes = ParallelismStatus(data=data)
    plan = msgspec.structs.replace(decision.current.plan, parallelism=sizes, group=group)

    front = launch_plan(plan).front
    assert front is not None
    assert front.servers == servers


def test_a_plan_of_before_there_was_a_front_is_rendered_without() -> None:
    decision = cluster(tiny_spec()).decide()
    assert decision.current is not None
    plan = decision.current.plan
    argv = tuple(word for word in plan.argv if word != contract.FRONT_ARGUMENT)
    launch = launch_plan(msgspec.structs.replace(plan, argv=argv))

    assert launch.front is None
    assert launch.drain.endpoint_seconds == 5


@EACH
def test_the_launch_plan_is_where_the_runtime_looks_for_it(spec: Any) -> None:
    config = one(spec, "ConfigMap")
    mounts = {mount["mountPath"]: mount["name"] for mount in container(spec)["volumeMounts"]}
    folder, _, key = contract.PLAN_PATH.rpartition("/")
    volume = next(v for v in pod(spec)["volumes"] if v["name"] == mounts[folder])

    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert list(config["data"]) == [key]
    assert config["immutable"] is True
    assert container(spec)["command"][-1] == contract.PLAN_PATH


@EACH
def test_what_the_engine_writes_to_is_writable_and_bounded(spec: Any) -> None:
    mounts = {mount["mountPath"]: mount for mount in container(spec)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod(spec)["volumes"]}
    writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}

    assert writable == {"/tmp", "/dev/shm"}
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
    assert all("sizeLimit" in volumes[name]["emptyDir"] for name in ("tmp", "shm"))
    for variable in container(spec)["env"]:
        if variable["value"].startswith("/"):
            assert variable["value"].startswith("/tmp")


@EACH
def test_probes_ask_the_runtime_and_not_the_engine(spec: Any) -> None:
    engine = container(spec)
    ports = {port["name"]: port["containerPort"] for port in engine["ports"]}

    assert ports == {"http": contract.ENGINE_PORT, "runtime": contract.RUNTIME_PORT}
    assert engine["readinessProbe"]["httpGet"]["path"] == contract.READY_PATH
    assert engine["livenessProbe"]["httpGet"]["path"] == contract.LIVE_PATH
    assert engine["startupProbe"]["httpGet"]["path"] == contract.STARTED_PATH
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert engine[probe]["httpGet"]["port"] == "runtime"


@EACH
def test_the_start_is_asked_for_once_with_more_patience_than_it_may_take(spec: Any) -> None:
    """Every question that fails is a Warning in the user's namespace."""
    probe = container(spec)["startupProbe"]
    plan = contract.decode(one(spec, "ConfigMap")["data"]["plan.json"].encode())
    ends = plan.drain.grace_seconds + contract.KILL_SECONDS

    assert probe["timeoutSeconds"] > plan.probe.startup_seconds + ends
    assert probe["failureThreshold"] * probe["periodSeconds"] >= 120
    assert probe["initialDelaySeconds"] > 0


def test_the_service_stands_before_the_leaders_of_every_revision() -> None:
    service = one(tiny_spec(endpoint={"port": 9000}), "Service")
    labels = one(tiny_spec(), "Deployment")["spec"]["template"]["metadata"]["labels"]

    assert service["spec"]["ports"] == [
        {"name": "http", "port": 9000, "targetPort": "http", "protocol": "TCP"}
    ]
    assert service["spec"]["selector"].items() <= labels.items()
    assert "kindling.dev/revision" not in service["spec"]["selector"]


def test_a_deployment_selects_its_own_revision() -> None:
    deployment = one(tiny_spec(), "Deployment")
    selector = deployment["spec"]["selector"]["matchLabels"]

    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["metadata"]["name"] == f"tiny-{selector['kindling.dev/revision']}"


def test_the_template_and_the_launch_plan_are_the_stored_ones() -> None:
    spec = tiny_spec()
    stored = one(spec, "ControllerRevision")["data"]

    assert one(spec, "Deployment")["spec"]["template"] == stored["template"]
    assert one(spec, "ConfigMap")["data"]["plan.json"] == stored["launch"]
    assert set(stored) == {"inputs", "replan", "plan", "template", "launch"}


def test_a_gpu_pod_requests_its_gpu_and_goes_where_it_is() -> None:
    spec = catalog_spec("flint", cache={"hostMemory": 0})

    assert container(spec)["resources"] == {
        "requests": {
            "cpu": "4",
            "memory": "22Gi",
            "ephemeral-storage": "1Gi",
            "nvidia.com/gpu": "1",
        },
        "limits": {"memory": "22Gi", "nvidia.com/gpu": "1"},
    }
    assert pod(spec)["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert pod(spec)["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_kv_blocks_are_expected_only_where_the_plan_fixes_them() -> None:
    def expected(spec: Any) -> contract.Expected:
        return contract.decode(one(spec, "ConfigMap")["data"]["plan.json"].encode()).expected

    assert expected(tiny_spec()) == contract.Expected(
        kv_blocks=4096, kv_tokens=524_288, max_model_len=4096
    )
    measured = expected(catalog_spec("flint"))
    assert measured.kv_blocks
    assert measured.kv_tokens
    unknown = catalog_spec("flint", runtime={"image": "example.com/own@sha256:" + "0" * 64})
    assert expected(unknown) == contract.Expected(max_model_len=262_144)


def test_an_account_of_the_users_own_is_neither_made_nor_owned() -> None:
    spec = tiny_spec(runtime={"serviceAccountName": "own"})

    assert "ServiceAccount" not in {m["kind"] for m in rendered(spec)}
    assert pod(spec)["serviceAccountName"] == "own"


def test_an_account_of_the_users_own_may_bear_the_models_name() -> None:
    spec = tiny_spec(runtime={"serviceAccountName": "tiny"})
    found = cluster(spec)
    found.step()

    assert "ServiceAccount" not in {m["kind"] for m in found.manifests()}
    assert pod(spec)["serviceAccountName"] == "tiny"


def test_our_account_stays_when_the_spec_comes_to_name_it() -> None:
    """Its pods would be refused without it, and it is not the user's."""
    found = cluster(tiny_spec())
    first = found.step().current
    assert first is not None
    found.serve(first.hash).step()

    second = found.apply(tiny_spec(runtime={"serviceAccountName": "tiny"})).step().current
    assert second is not None
    found.serve(second.hash).step()

    assert found.deployed() == {second.hash}
    assert "ServiceAccount" in {m["kind"] for m in found.manifests()}


def test_our_account_stays_while_a_frozen_template_runs_as_it() -> None:
    found = cluster(tiny_spec())
    first = found.step().current
    assert first is not None
    found.serve(first.hash).step()

    found.apply(tiny_spec(runtime={"serviceAccountName": "own"})).step()
    assert "ServiceAccount" in {m["kind"] for m in found.manifests()}


def test_weights_in_the_image_are_not_mounted() -> None:
    spec = tiny_spec()
    spec["model"] = {**spec["model"], "weights": {"uri": "file:///models/tiny"}}

    assert "weights" not in {volume["name"] for volume in pod(spec)["volumes"]}


def test_nothing_is_rendered_for_a_spec_that_cannot_be_read() -> None:
    found = cluster(tiny_spec())
    found.step()
    found.apply({"replicas": "many"})
    snapshot = found.snapshot()

    assert render(snapshot, found.decide()) == ()


MEMORY = {
    0: "0Mi",
    1: "1Mi",
    512 * MIB: "512Mi",
    GIB: "1Gi",
    GIB + 1: "1025Mi",
    4614 * MIB: "4614Mi",
    2048 * GIB: "2Ti",
}
CPU = {250: "250m", 1000: "1", 1500: "1500m", 4000: "4", 64_000: "64", 1_000_000: "1k"}


@pytest.mark.parametrize(("count", "quantity"), MEMORY.items())
def test_memory_as_the_api_server_writes_it(count: int, quantity: str) -> None:
    assert memory_quantity(count) == quantity


@pytest.mark.parametrize(("millis", "quantity"), CPU.items())
def test_cpu_as_the_api_server_writes_it(millis: int, quantity: str) -> None:
    assert cpu_quantity(millis) == quantity
