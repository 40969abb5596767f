"""What `kindling doctor` looks at: one cluster, read once. What may not be read is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.exceptions import ApiException

from kindling_operator.cli_cluster import NEEDED, OPERATOR, Operator, operator_from
from kindling_operator.cli_connection import Connection
from kindling_operator.cli_failure import REFUSED, Failure
from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import ForbiddenError, NotFoundError
from kindling_operator.kube.kinds import EVENT, MODEL, NODE
from kindling_operator.model.names import DEPLOYMENT, Kind
from kindling_operator.observe.fields import Body, items, mapping, text

NAMESPACE: Final = Kind("v1", "Namespace", "namespaces")
DAEMON_SET: Final = Kind("apps/v1", "DaemonSet", "daemonsets")
DEFINITION: Final = Kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"
)

SECONDS: Final = 10.0

Right = tuple[str, str, str]
"""Verb, group and resource."""

RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "plan": tuple(("list", kind.group, kind.plural) for kind in NEEDED),
    "explain": (
        ("get", MODEL.group, MODEL.plural),
        ("list", "", "pods"),
        ("list", EVENT.group, EVENT.plural),
    ),
    "replan": (("patch", MODEL.group, MODEL.plural),),
}
"""What each command needs, in all namespaces."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts; None where they may not be read, and `unread` says which kinds those are.

    `version` is the API server's, such as v1.37.0. `groups` are the API groups with their versions.
    `nodes` are bodies. `levels` is the Pod Security level that each namespace enforces, "" for
    none. `daemons` are names of DaemonSets with those of their containers. `schema` is the CRD's.
    `refused` are the rights that the user lacks, by command.
    """

    version: str
    groups: Mapping[str, tuple[str, ...]]
    nodes: tuple[Body, ...] | None = None
    levels: Mapping[str, str] | None = None
    daemons: tuple[str, ...] | None = None
    deployments: tuple[Body, ...] | None = None
    schema: Mapping[str, Any] | None = None
    served_in: frozenset[str] = frozenset()
    refused: Mapping[str, tuple[Right, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Deployments of Kindling's operator."""
        return tuple(
            operator_from(body)
            for body in self.deployments or ()
            if _selected(mapping(body, "metadata", "labels"))
        )


async def cluster_of(connection: Connection) -> Cluster:
    """Read everything; raises `Failure` if the API server does not answer."""
    try:
        async with ApiClient(connection.configuration) as api, asyncio.timeout(6 * SECONDS):
            version = await client.VersionApi(api).get_code(_request_timeout=SECONDS)
            listed = await client.ApisApi(api).get_api_versions(_request_timeout=SECONDS)
            refused = {name: await _refused(api, rights) for name, rights in RIGHTS.items()}
    except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise Failure(
            f"the API server of {connection.context} does not answer ({why}): check the context"
            " and your credentials with `kubectl version`",
            code=REFUSED,
        ) from error
    reader = _Reader(connection.kube)
    return Cluster(
        version=version.git_version,
        groups={group.name: tuple(v.version for v in group.versions) for group in listed.groups},
        refused=refused,
        nodes=await reader.all(NODE),
        levels=_levels(await reader.all(NAMESPACE)),
        daemons=_daemons(await reader.all(DAEMON_SET)),
        deployments=await reader.all(DEPLOYMENT),
        served_in=frozenset(
            text(body, "metadata", "namespace") for body in await reader.all(MODEL) or ()
        ),
        schema=await reader.schema(),
        unread=tuple(reader.unread),
    )


class _Reader:
    """Lists in the whole cluster, remembering what was not allowed."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.unread: list[str] = []

    async def all(self, kind: Kind) -> tuple[Body, ...] | None:
        try:
            return tuple([body async for body in self._kube.list(kind)])
        except ForbiddenError:
            self.unread.append(kind.plural)
            return None
        except NotFoundError:
            return ()

    async def schema(self) -> Mapping[str, Any] | None:
        """The schema of the installed CRD; empty if there is none."""
        name = f"{MODEL.plural}.{MODEL.group}"
        try:
            body = await self._kube.get(DEFINITION, "", name)
        except ForbiddenError:
            self.unread.append(DEFINITION.plural)
            return None
        except NotFoundError:
            return {}
        served = (each for each in items(body, "spec", "versions") if text(each, "name"))
        stored = next((each for each in served if each.get("storage") is True), {})
        return mapping(stored, "schema", "openAPIV3Schema")


async def _refused(api: ApiClient, rights: tuple[Right, ...]) -> tuple[Right, ...]:
    """Those of the rights that the user does not have (SelfSubjectAccessReview)."""
    found = []
    for verb, group, resource in rights:
        attributes = client.V1ResourceAttributes(verb=verb, group=group, resource=resource)
        review = client.V1SelfSubjectAccessReview(
            spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        )
        answer = await client.AuthorizationV1Api(api).create_self_subject_access_review(
            review, _request_timeout=SECONDS
        )
        if answer.status is None or not answer.status.allowed:
            found.append((verb, group, resource))
    return tuple(found)


def _levels(namespaces: tuple[Body, ...] | None) -> Mapping[str, str] | None:
    if namespaces is None:
        return None
    enforce = "pod-security.kubernetes.io/enforce"
    return {
        text(body, "metadata", "name"): text(mapping(body, "metadata", "labels"), enforce)
        for body in namespaces
    }


def _daemons(bodies: tuple[Body, ...] | None) -> tuple[str, ...] | None:
    if bodies is None:
        return None
    return tuple(
        name
        for body in bodies
        for name in (
            text(body, "metadata", "name"),
            *(text(each, "name") for each in items(body, "spec", "template", "spec", "containers")),
        )
    )


def _selected(labels: Mapping[str, Any]) -> bool:
    wanted = dict(part.split("=") for part in OPERATOR.split(","))
    return all(labels.get(name) == value for name, value in wanted.items())
