"""Everything that kopf calls. No logic: views go into indexes, events into the process."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import kopf

from kindling_operator.kube.kinds import LEASE
from kindling_operator.model.names import Kind
from kindling_operator.observe.cache import Index
from kindling_operator.observe.watched import WATCHED, Entry, Watched
from kindling_operator.reconcile.process import Process
from kindling_operator.settings import resource_parts

IndexFunction = Callable[..., Awaitable[Mapping[str, Entry]]]

PROBE_ID: Final = "problem"


def register(
    process: Process, *, login: Callable[..., Any], absent: Collection[Kind] = ()
) -> kopf.OperatorRegistry:
    """A registry of its own, so that nothing global decides what runs.

    Kinds that are `absent` from the cluster are not watched: kopf would wait for their objects.
    """
    registry = kopf.OperatorRegistry()
    present = tuple(watched for watched in WATCHED if watched.kind not in absent)
    for watched in present:
        _watch(registry, watched, process)
    _watch_lease(registry, process)
    _manage(registry, process, login, present)
    return registry


def _watch(registry: kopf.OperatorRegistry, watched: Watched, process: Process) -> None:
    @kopf.index(*resource_parts(watched.kind), id=watched.id, registry=registry)
    async def index(body: kopf.Body, **_: Any) -> Mapping[str, Entry]:
        # An empty mapping takes a former entry out of the index; None would keep it.
        entry = watched.entry(body)
        return {} if entry is None else {entry.uid: entry}

    @kopf.on.event(*resource_parts(watched.kind), id=f"{watched.id}-event", registry=registry)
    async def event(body: kopf.Body, **_: Any) -> None:
        process.event(watched, body)


def _watch_lease(registry: kopf.OperatorRegistry, process: Process) -> None:
    @kopf.on.event(*resource_parts(LEASE), id="lease-event", registry=registry)
    async def lease(body: kopf.Body, **_: Any) -> None:
        process.lease_event(body)


def _manage(
    registry: kopf.OperatorRegistry,
    process: Process,
    login: Callable[..., Any],
    present: Collection[Watched],
) -> None:
    @kopf.on.login(id="login", registry=registry)
    async def log_in(**kwargs: Any) -> Any:
        return login(**kwargs)

    @kopf.on.startup(id="attach", registry=registry)
    async def attach(**kwargs: Any) -> None:
        indices: dict[str, Index] = {watched.id: kwargs[watched.id] for watched in present}
        process.attach(indices)

    @kopf.on.probe(id=PROBE_ID, registry=registry)
    async def problem(**_: Any) -> str:
        found = process.health.problem()
        if found:
            # kopf answers 500 for a permanent error at once; any other is retried for a minute.
            raise kopf.PermanentError(found)
        return "none"
