"""What is rendered for a replica of several pods, and the fence around a model's pods."""

from typing import Any

import pytest
from tests.support.builders import Cluster, catalog_spec, gpu_node, tiny_spec
from tests.support.groups import GroupCluster, nodes, spec

from kindling_operator.model.names import (
    ENGINE_CONTAINER,
    LABEL_COMPONENT,
    LABEL_FOLLOWER,
    LABEL_GPU_CLIQUE,
    LABEL_GROUP,
    LABEL_MODEL,
    LABEL_ROLE,
    ROLE_LEADER,
    ROLE_WORKER,
)
from kindling_operator.render import Manifest
from kindling_runtime import contract

MEMBERS = {"matchLabels": {LABEL_MODEL: "tiny", LABEL_COMPONENT: ENGINE_CONTAINER}}
ANY_TCP = [{"protocol": "TCP"}]
STAGES = {"parallelism": {"tensor": 8, "pipeline": 2}}


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def one(manifests: tuple[Manifest, ...], kind: str) -> Any:
    [found] = of_kind(manifests, kind)
    return found


def rendered(**fields: Any) -> tuple[Manifest, ...]:
    return GroupCluster(nodes=nodes(4)).apply(spec(**fields)).manifests()


def headless() -> tuple[Manifest, ...]:
    """One engine over two nodes: the second has no server."""
    return rendered(placement=STAGES, serving={"speculation": {"mode": "Disabled"}})


def templates(manifests: tuple[Manifest, ...]) -> tuple[Any, Any]:
    group = one(manifests, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    return group["leaderTemplate"], group["workerTemplate"]


def engine(template: Any) -> Any:
    [found] = template["spec"]["containers"]
    return found


def test_a_group_instead_of_a_deployment() -> None:
    manifests = rendered(replicas=2)

    assert of_kind(manifests, "Deployment") == []
    first, second = of_kind(manifests, "LeaderWorkerSet")
    assert first["metadata"]["name"].endswith("-0")
    assert second["metadata"]["name"].endswith("-1")
    for group in (first, second):
        assert group["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
        assert group["spec"]["replicas"] == 1
        assert group["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert first["spec"] == second["spec"]


def test_the_runtimes_restart_a_group_and_not_the_controller() -> None:
    """It would delete all pods at once, as often as one fails (LeaderWorkerSet v0.8)."""
    group = one(headless(), "LeaderWorkerSet")["spec"]

    assert group["leaderWorkerTemplate"]["restartPolicy"] == "None"
    assert group["startupPolicy"] == "LeaderCreated"
    assert group["networkConfig"] == {"subdomainPolicy": "Shared"}


def test_the_templates_are_the_stored_ones() -> None:
    manifests = headless()
    data = one(manifests, "ControllerRevision")["data"]

    assert templates(manifests) == (data["template"], data["worker"])


def test_a_follower_without_a_server_gets_no_traffic() -> None:
    leader, worker = templates(headless())

    assert leader["metadata"]["labels"][LABEL_ROLE] == ROLE_LEADER
    assert worker["metadata"]["labels"][LABEL_ROLE] == ROLE_WORKER
    assert [port["name"] for port in engine(leader)["ports"]] == ["http", "runtime"]
    assert [port["name"] for port in engine(worker)["ports"]] == ["runtime"]


def test_a_follower_with_a_server_gets_traffic_and_is_no_replica() -> None:
    _, worker = templates(rendered())
    labels = worker["metadata"]["labels"]

    assert (labels[LABEL_ROLE], labels[LABEL_FOLLOWER]) == (ROLE_LEADER, "true")
    assert [port["name"] for port in engine(worker)["ports"]] == ["http", "runtime"]


def test_every_pod_of_a_group_tells_the_others_its_own_address() -> None:
    for template in templates(headless()):
        [address] = [v for v in engine(template)["env"] if v["name"] == "VLLM_HOST_IP"]
        assert address["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_all_pods_have_one_launch_plan_and_differ_by_rank() -> None:
    plan = contract.decode(one(headless(), "ConfigMap")["data"]["plan.json"].encode())

    assert plan.group is not None
    assert [rank.serves for rank in plan.group.ranks] == [True, False]
    for number, rank in enumerate(plan.group.ranks):
        assert f"--node-rank={number}" in rank.argv
        assert "--master-addr={leader}" in rank.argv
    assert "--headless" in plan.group.ranks[1].argv
    assert not any("{leader}" in argument for argument in plan.engine.argv)


def test_a_tensor_group_over_nodes_stays_in_one_nvlink_domain() -> None:
    rack = tuple(
        gpu_node(f"tray-{n}", "NVIDIA-B200", gpus=4, clique=f"rack.{n // 4}") for n in range(8)
    )
    cluster = Cluster(nodes=rack).apply(
        catalog_spec("inkling", placement={"parallelism": {"tensor": 8}})
    )
    found = [template["spec"]["affinity"] for template in templates(cluster.manifests())]
    one_domain = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": LABEL_GPU_CLIQUE,
                "labelSelector": {"matchLabels": {LABEL_MODEL: "tiny"}},
                "matchLabelKeys": [LABEL_GROUP],
            }
        ]
    }

    assert [affinity["podAffinity"] for affinity in found] == [one_domain] * 2


def test_other_groups_go_anywhere() -> None:
    found = [template["spec"]["affinity"] for template in templates(headless())]

    assert [set(affinity) for affinity in found] == [{"nodeAffinity"}] * 2


@pytest.mark.parametrize("path", ["ingress", "egress"])
def test_pods_of_a_group_reach_each_other_on_every_port(path: str) -> None:
    """vLLM's coordination listens on ports that the kernel assigns."""
    side = {"ingress": "from", "egress": "to"}[path]
    policy = one(headless(), "NetworkPolicy")["spec"]

    assert policy["podSelector"] == MEMBERS
    assert {side: [{"podSelector": MEMBERS}], "ports": ANY_TCP} in policy[path]


def test_a_single_pod_reaches_dns_and_nothing_else() -> None:
    policy = one(Cluster().apply(tiny_spec()).manifests(), "NetworkPolicy")["spec"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [
        {"ports": [{"port": name, "protocol": "TCP"} for name in ("http", "runtime")]}
    ]
    assert policy["egress"] == [
        {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
    ]


def test_media_comes_from_the_web_and_never_from_a_private_address() -> None:
    domains = {"mediaDomains": ["assets.example.com"]}
    policy = one(rendered(serving=domains), "NetworkPolicy")["spec"]

    [media] = [rule for rule in policy["egress"] if "ipBlock" in rule.get("to", [{}])[0]]
    assert media["ports"] == [{"port": port, "protocol": "TCP"} for port in (80, 443)]
    refused = {block["ipBlock"]["cidr"]: block["ipBlock"]["except"] for block in media["to"]}
    assert refused.keys() == {"0.0.0.0/0", "::/0"}
    assert {"169.254.0.0/16", "10.0.0.0/8", "127.0.0.0/8"} <= set(refused["0.0.0.0/0"])
    assert "fc00::/7" in refused["::/0"]
