"""The fence around a model's pods: who reaches them, and what they reach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kindling_operator.model.names import (
    ENGINE_CONTAINER,
    LABEL_COMPONENT,
    LABEL_MODEL,
    NETWORK_POLICY,
    Key,
)
from kindling_operator.model.parse import Metadata
from kindling_operator.model.plan import EnginePlan
from kindling_operator.render.metadata import Manifest, manifest, metadata
from kindling_operator.render.podtemplate import HTTP_PORT_NAME, RUNTIME_PORT_NAME

_DNS_PORT: Final = 53
_WEB_PORTS: Final = (80, 443)
_PRIVATE: Final = {
    # RFC 6890, and the addresses by which clouds hand out credentials (169.254.169.254 and
    # fd00:ec2::254 are among them): whatever name media comes from, it does not lead there.
    "0.0.0.0/0": (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
    ),
    "::/0": ("64:ff9b::/96", "fc00::/7", "fe80::/10"),
}


def network_policy(owner: Metadata, plans: Iterable[EnginePlan]) -> Manifest:
    """One policy for all pods of a model, whatever revision they run; `plans` are those of all.

    Policies add up: who needs another way out for these pods writes one beside it.
    """
    every = tuple(plans)
    ingress, egress = [_clients()], [_dns()]
    if any(plan.group is not None for plan in every):
        members = {"podSelector": _pods(owner.key)}
        # vLLM's coordination listens on ports that the kernel assigns.
        ingress.append({"from": [members], "ports": [{"protocol": "TCP"}]})
        egress.append({"to": [members], "ports": [{"protocol": "TCP"}]})
    if any(plan.media_domains for plan in every):
        egress.append(_media())
    if any(plan.weights.fetch is not None for plan in every):
        egress += [_stores(), _identities()]
    return manifest(
        NETWORK_POLICY,
        metadata(owner, owner.key.name, component="network"),
        spec={
            "podSelector": _pods(owner.key),
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    )


def _pods(key: Key) -> dict[str, Any]:
    return {"matchLabels": {LABEL_MODEL: key.name, LABEL_COMPONENT: ENGINE_CONTAINER}}


def _clients() -> dict[str, Any]:
    """The API, and the runtime's own endpoints, which Prometheus reads."""
    names = (HTTP_PORT_NAME, RUNTIME_PORT_NAME)
    return {"ports": [{"port": name, "protocol": "TCP"} for name in names]}


def _dns() -> dict[str, Any]:
    """To any address: node-local caches answer from one that no selector matches."""
    return {"ports": [{"port": _DNS_PORT, "protocol": name} for name in ("UDP", "TCP")]}


def _stores() -> dict[str, Any]:
    """Any address: stores are in private networks too. A policy is of the whole pod, so the engine
    could go there as well; what it may fetch its own list decides."""
    return {"ports": [{"port": 443, "protocol": "TCP"}]}


def _identities() -> dict[str, Any]:
    """Where a node gives its pods the credentials of their ServiceAccount: GKE (docs: workload
    identity, network policies) and EKS Pod Identity (docs: how it works)."""
    return {
        "to": [
            {"ipBlock": {"cidr": cidr}}
            for cidr in ("169.254.169.252/32", "169.254.169.254/32", "169.254.170.23/32")
        ],
        "ports": [{"port": port, "protocol": "TCP"} for port in (80, 987, 988)],
    }


def _media() -> dict[str, Any]:
    """The web without private addresses. Which of its hosts, the engine's own list decides."""
    return {
        "to": [
            {"ipBlock": {"cidr": cidr, "except": list(private)}}
            for cidr, private in _PRIVATE.items()
        ],
        "ports": [{"port": port, "protocol": "TCP"} for port in _WEB_PORTS],
    }
