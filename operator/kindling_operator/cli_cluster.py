"""A living cluster, looked at once and only read: what the operator would decide from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kindling_operator.cli_failure import REFUSED, Failure
from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import ForbiddenError, NotFoundError
from kindling_operator.kube.kinds import BESIDE_KINDS
from kindling_operator.model.names import (
    CONTROLLER_REVISION,
    DEPLOYMENT,
    LABEL_COMPONENT,
    LABEL_NAME,
    WORKLOAD_KINDS,
    Kind,
)
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.observe.beside import Beside, beside
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.fields import items, mapping, number, text
from kindling_operator.observe.watched import CHILDREN, WATCHED, Entry, Watched

OPERATOR: str = f"{LABEL_NAME}=kindling,{LABEL_COMPONENT}=operator"
"""Label selector of the operator's own objects, as the chart makes them."""
VERSION_LABEL = "app.kubernetes.io/version"

STANDING = tuple(
    watched for watched in CHILDREN if watched.kind in {CONTROLLER_REVISION, *WORKLOAD_KINDS}
)
"""The children that decisions look at: nobody needs a right to read the others."""

READ: tuple[Watched, ...] = (*(w for w in WATCHED if w not in CHILDREN), *STANDING)
"""What a plan reads of what the operator watches through kopf, each in all namespaces."""
NEEDED: tuple[Kind, ...] = (*(watched.kind for watched in READ), *BESIDE_KINDS)
"""All that a plan lists."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator's Deployment: its version, its variables, how many of its pods are available."""

    namespace: str
    name: str
    version: str
    variables: Mapping[str, str]
    available: int


async def operator_of(kube: Kube) -> Operator | None:
    """The operator that the cluster runs, the first by name; None if it runs none."""
    try:
        found = [body async for body in kube.list(DEPLOYMENT, selector=OPERATOR)]
    except ForbiddenError as error:
        raise _not_allowed(DEPLOYMENT) from error
    found.sort(
        key=lambda body: (text(body, "metadata", "namespace"), text(body, "metadata", "name"))
    )
    return operator_from(found[0]) if found else None


async def look(kube: Kube, environment: Environment, namespaces: Iterable[str] = ()) -> Snapshot:
    """One look at everything that a decision depends on, with the models that are there.

    `namespaces` are those that the operator serves, none is all. Raises `Failure` that names the
    missing right.
    """
    indices: dict[str, dict[str, list[Entry]]] = {}
    for watched in READ:
        for namespace in tuple(namespaces) or ("",):
            found = await _entries(kube, watched, namespace)
            if found is None and watched.optional:
                continue
            entries = indices.setdefault(watched.id, {})
            entries.update({f"{each.namespace}/{each.name}": [each] for each in found or ()})
    cache = Cache(environment)
    cache.attach(indices)
    cache.follow(await _beside(kube, namespaces))
    return replace(cache.snapshot(now=datetime.now(UTC)), synced=True)


def with_models(snapshot: Snapshot, models: Iterable[ParsedModel | Invalid]) -> Snapshot:
    """The cluster as if these models had been applied: new ones are the youngest.

    One that is there already keeps its identity, age and status, so its stored revisions count.
    """
    merged = dict(snapshot.models)
    for model in models:
        there = merged.get(model.key)
        if there is None:
            metadata = replace(model.metadata, created=snapshot.now)
            merged[model.key] = replace(model, metadata=metadata)
            continue
        annotations = {**there.metadata.annotations, **model.metadata.annotations}
        metadata = replace(there.metadata, annotations=annotations)
        merged[model.key] = replace(model, metadata=metadata, status=there.status)
    return replace(snapshot, models=dict(sorted(merged.items())))


def _not_allowed(kind: Kind, namespace: str = "") -> Failure:
    """A list that the user has no right to."""
    group = f" of {kind.group}" if kind.group else ""
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    return Failure(
        f"you may not list {kind.plural}{group} {where}: ask for a role with the verb list on"
        f" {kind.plural}, or plan from files with --nodes and --pods",
        code=REFUSED,
    )


async def _beside(kube: Kube, namespaces: Iterable[str]) -> Beside:
    """Nodes, pods of others and devices, listed once."""
    sources = beside(
        kube,
        namespaces=namespaces,
        nodes_changed=_nothing,
        pods_changed=_nothing,
        beat=lambda _: _nothing,
    )
    for each in sources.lists:
        try:
            await each()
        except NotFoundError:
            continue
        except ForbiddenError as error:
            raise Failure(
                f"{error}: ask for a ClusterRole with that right, or plan from files with --nodes"
                " and --pods",
                code=REFUSED,
            ) from error
    return sources


def _nothing() -> None:
    """Nobody waits for a list that is made once."""


async def _entries(kube: Kube, watched: Watched, namespace: str) -> list[Entry] | None:
    """The objects of one kind; None where the cluster does not have the kind."""
    found = []
    try:
        async for body in kube.list(watched.kind, namespace=namespace, selector=watched.selector):
            entry = watched.entry(body)
            if entry is not None:
                found.append(entry)
    except NotFoundError:
        return None
    except ForbiddenError as error:
        raise _not_allowed(watched.kind, namespace) from error
    return found


def operator_from(body: Mapping[str, Any]) -> Operator:
    """What its Deployment tells."""
    containers = items(body, "spec", "template", "spec", "containers")
    engine = next((each for each in containers if text(each, "name") == "operator"), {})
    return Operator(
        namespace=text(body, "metadata", "namespace"),
        name=text(body, "metadata", "name"),
        version=text(mapping(body, "metadata", "labels"), VERSION_LABEL),
        variables={text(each, "name"): text(each, "value") for each in items(engine, "env")},
        available=number(body, "status", "availableReplicas"),
    )
