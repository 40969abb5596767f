"""The checks of `kindling doctor`: one named function per question, in the order of telling. Pure.

Each gives findings with a number and, where something is amiss, with the fix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kindling_operator import __version__
from kindling_operator.cli_doctor_facts import RIGHTS, Cluster
from kindling_operator.cli_doctor_finding import Finding, fail, ok, unread, warn
from kindling_operator.cli_doctor_nodes import (
    drivers_are_new_enough,
    gpu_labels_are_complete,
    gpus_are_whole,
    gpus_can_be_requested,
)
from kindling_operator.kube.kinds import MODEL
from kindling_operator.model import names
from kindling_operator.observe.fields import items, mapping, text
from kindling_operator.plan.listing import few
from kindling_operator.schema.crd import root_schema

OLDEST_MINOR: Final = 31
"""As Chart.yaml's kubeVersion: the oldest that any vendor still supports."""

_LWS: Final = "leaderworkerset.x-k8s.io"
_INFERENCE: Final = "inference.networking.k8s.io"
_GATEWAY: Final = "gateway.networking.k8s.io"
_METRICS: Final = "metrics.k8s.io"

_ENGINES: Final = {
    "calico-node": "Calico",
    "canal": "Canal",
    "cilium": "Cilium",
    "antrea-agent": "Antrea",
    "kube-router": "kube-router",
    "weave-net": "Weave Net",
    "anetd": "GKE Dataplane V2",
    "aws-network-policy-agent": "the agent of Amazon's VPC CNI",
    "aws-eks-nodeagent": "the agent of Amazon's VPC CNI",
    "azure-npm": "Azure NPM",
    "kindnet": "kindnet",
    "kube-network-policies": "kube-network-policies",
    "ovnkube-node": "OVN-Kubernetes",
    "sdn": "OpenShift SDN",
}
"""Names of DaemonSets or of their containers, as these projects' own manifests call them."""


Check = Callable[[Cluster], Iterator[Finding]]


def findings(cluster: Cluster) -> tuple[Finding, ...]:
    """Every line, in order."""
    return tuple(finding for check in CHECKS for finding in check(cluster))


def kubernetes_is_new_enough(cluster: Cluster) -> Iterator[Finding]:
    """The chart refuses older ones."""
    parts = cluster.version.lstrip("v").split(".")
    minor = int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0
    if minor >= OLDEST_MINOR:
        yield ok("Kubernetes", f"{cluster.version}, at least 1.{OLDEST_MINOR} is needed.")
    else:
        yield fail(
            "Kubernetes",
            f"{cluster.version} is older than 1.{OLDEST_MINOR}: upgrade the control plane.",
        )


def groups_can_be_made(cluster: Cluster) -> Iterator[Finding]:
    """A replica over several nodes is a LeaderWorkerSet."""
    check = "LeaderWorkerSet"
    served = cluster.groups.get(_LWS, ())
    if not served:
        yield warn(
            check,
            "0 versions are served, so no replica can span nodes: install LeaderWorkerSet v0.8 or"
            " later if a model needs more GPUs than one node has.",
        )
        return
    controller = [
        body
        for body in cluster.deployments or ()
        if text(body, "metadata", "name") == "lws-controller-manager"
    ]
    version = next((_image_tag(body) for body in controller), "")
    controllers = f", its controller is {version}" if version else ""
    if "v1" not in served:
        yield fail(
            check,
            f"{', '.join(served)} is served and v1 is needed: upgrade LeaderWorkerSet to v0.8.",
        )
    elif cluster.deployments is not None and not controller:
        yield warn(
            check,
            f"{_LWS}/v1 is served and none of {len(cluster.deployments)} Deployments is"
            " lws-controller-manager: check that its controller runs.",
        )
    else:
        yield ok(check, f"{_LWS}/v1 is served{controllers}.")


def inference_pools_can_be_used(cluster: Cluster) -> Iterator[Finding]:
    """Only for spec.endpoint.gateway InferencePool, which is refused yet: nothing to warn of."""
    check = "Inference gateway"
    missing = [group for group in (_GATEWAY, _INFERENCE) if group not in cluster.groups]
    if missing:
        yield ok(
            check,
            f"{len(missing)} of 2 APIs are not served ({', '.join(missing)}), and this version uses"
            " neither.",
        )
    else:
        yield ok(check, f"{_INFERENCE} {', '.join(cluster.groups[_INFERENCE])} is served.")


def metrics_are_served(cluster: Cluster) -> Iterator[Finding]:
    """`kubectl top` and autoscalers by CPU or memory need it; Kindling does not."""
    if _METRICS in cluster.groups:
        yield ok("Metrics", f"{_METRICS} {', '.join(cluster.groups[_METRICS])} is served.")
    else:
        yield warn(
            "Metrics",
            f"0 versions of {_METRICS} are served: install metrics-server for `kubectl top` and"
            " for autoscalers by CPU or memory.",
        )


def network_policies_are_enforced(cluster: Cluster) -> Iterator[Finding]:
    """No API tells, so this is a guess by what runs on the nodes."""
    check = "NetworkPolicy"
    if cluster.daemons is None:
        yield unread(check, "daemonsets")
        return
    found = sorted({engine for name, engine in _ENGINES.items() if name in cluster.daemons})
    if found:
        yield ok(check, f"{len(found)} engine found by name: {', '.join(found)}.")
    else:
        yield warn(
            check,
            f"0 of {len(_ENGINES)} known engines run as a DaemonSet: check that the cluster's"
            " network enforces NetworkPolicies, else those that Kindling makes fence nothing.",
        )


def namespaces_have_a_level(cluster: Cluster) -> Iterator[Finding]:
    """Kindling's pods meet the strictest Pod Security level, so it costs nothing."""
    check = "Pod Security"
    if cluster.levels is None:
        yield unread(check, "namespaces")
        return
    ours = {*cluster.served_in, *(operator.namespace for operator in cluster.operators)}
    found = sorted(name for name in ours if name in cluster.levels)
    loose = [name for name in found if cluster.levels[name] != "restricted"]
    if loose:
        yield warn(
            check,
            f"{len(loose)} of {len(found)} namespaces with models or the operator do not enforce"
            f" the level restricted ({few(loose)}): label them"
            " pod-security.kubernetes.io/enforce=restricted, Kindling's pods comply.",
        )
    elif found:
        yield ok(check, f"{len(found)} of {len(found)} namespaces enforce the level restricted.")


def the_crd_is_this_versions(cluster: Cluster) -> Iterator[Finding]:
    """Fields that the CRD lacks are dropped by the API server without a word."""
    check = "CRD"
    if cluster.schema is None:
        yield unread(check, "customresourcedefinitions")
        return
    if not cluster.schema:
        yield warn(check, f"{MODEL.plural}.{MODEL.group} is not installed: install the chart.")
        return
    there, wanted = set(_fields(cluster.schema)), set(_fields(root_schema()))
    lacking, further = sorted(wanted - there), sorted(there - wanted)
    if lacking:
        yield fail(
            check,
            f"{len(lacking)} of {len(wanted)} fields of this version are missing"
            f" ({few(lacking)}): upgrade the CRD with the chart, or use the command line of the"
            " operator's version.",
        )
    elif further:
        yield warn(
            check,
            f"{len(further)} fields are unknown to this version ({few(further)}): use the"
            " command line of the operator's version.",
        )
    else:
        yield ok(check, f"{len(wanted)} of {len(wanted)} fields are those of {__version__}.")


def the_operator_works(cluster: Cluster) -> Iterator[Finding]:
    """It runs, and it is of this version."""
    check = "Operator"
    if cluster.deployments is None:
        yield unread(check, "deployments")
        return
    if not cluster.operators:
        level = fail if cluster.schema else warn
        yield level(
            check,
            f"0 of {len(cluster.deployments)} Deployments are Kindling's operator: install it with"
            " `helm install kindling charts/kindling -n kindling-system`.",
        )
    for each in cluster.operators:
        where = f"{each.namespace}/{each.name}"
        if not each.available:
            yield fail(
                check,
                f"{where} has 0 available pods: see `kubectl describe pods -n {each.namespace} -l"
                f" {names.LABEL_COMPONENT}=operator`.",
            )
        elif each.version != __version__:
            yield warn(
                check,
                f"{where} is {each.version or 'of no version'} and this command line {__version__}:"
                " use that of the same version, their plans may differ.",
            )
        else:
            yield ok(check, f"{where} {each.version}, available pods: {each.available}.")


def you_may_do_it(cluster: Cluster) -> Iterator[Finding]:
    """What the user's own rights allow of the other commands."""
    for command, rights in RIGHTS.items():
        refused = cluster.refused.get(command, ())
        if refused:
            missing = ", ".join(f"{verb} {resource}" for verb, _, resource in refused)
            yield warn(
                f"{command}: rights",
                f"{len(refused)} of {len(rights)} are missing in the whole cluster ({missing}): ask"
                f" for a ClusterRole with them if you want to `kindling {command}` here.",
            )
        else:
            yield ok(f"{command}: rights", f"{len(rights)} of {len(rights)} are yours.")


CHECKS: Final[tuple[Check, ...]] = (
    kubernetes_is_new_enough,
    gpus_can_be_requested,
    gpu_labels_are_complete,
    gpus_are_whole,
    drivers_are_new_enough,
    groups_can_be_made,
    inference_pools_can_be_used,
    metrics_are_served,
    network_policies_are_enforced,
    namespaces_have_a_level,
    the_crd_is_this_versions,
    the_operator_works,
    you_may_do_it,
)


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all fields of a schema below spec; items of lists count as their own kind."""
    for name, below in mapping(schema, "properties").items():
        if not path and name != "spec":
            continue
        here = f"{path}.{name}".lstrip(".")
        yield here
        yield from _fields(below, here)
        yield from _fields(mapping(below, "items"), here)


def _image_tag(deployment: Mapping[str, Any]) -> str:
    """The tag of a Deployment's first image."""
    containers = list(items(deployment, "spec", "template", "spec", "containers"))
    image = text(containers[0], "image") if containers else ""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
