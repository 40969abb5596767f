"""Everything that a cluster tells about one model, read for `kindling explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from kindling_operator.cli_cluster import STANDING
from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import ForbiddenError, NotFoundError
from kindling_operator.kube.kinds import EVENT, MODEL, POD
from kindling_operator.model.names import LABEL_MODEL, Key, Kind
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.observe import parse as views
from kindling_operator.observe.fields import LONG_AGO, Body, mapping, moment, number, text
from kindling_operator.observe.watched import ENDPOINTS

NOTHING_INSTALLED: Final = Environment(cuda_image="", cpu_image="", catalog={}, runtimes={})
"""A story judges nothing anew, so it needs neither images nor a catalog."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event: about the model itself, or about one of its pods (`about` is its name)."""

    when: datetime
    warning: bool
    reason: str
    note: str
    about: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """One model with what belongs to it. `gaps` are sentences about what could not be read."""

    snapshot: Snapshot
    model: ParsedModel | Invalid
    events: tuple[Told, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.model.key


async def see(kube: Kube, key: Key, *, now: datetime) -> Seen:
    """Read it all; only the model itself is needed. Raises `KubeError` if there is none."""
    reader = _Reader(kube, key)
    bodies: list[Body] = [await kube.get(MODEL, key.namespace, key.name)]
    label = f"{LABEL_MODEL}={key.name}"
    for kind in (POD, ENDPOINTS.kind, *(watched.kind for watched in STANDING)):
        bodies += await reader.list(kind, selector=label)
    mine = f"regarding.kind={MODEL.kind},regarding.name={key.name}"
    bodies += await reader.list(EVENT, fields=mine)
    bodies += await reader.list(EVENT, fields="type=Warning,regarding.kind=Pod")
    return replace(seen_in(bodies, key, now=now), gaps=tuple(reader.gaps))


def seen_in(bodies: Iterable[Body], key: Key, *, now: datetime) -> Seen:
    """What objects of any kinds tell about one model. Raises `KeyError` if it is not among them."""
    given = tuple(bodies)

    def of(kind: Kind) -> Iterator[Body]:
        return filter(kind.is_of, given)

    models = map(views.model, of(MODEL))
    model = next((each for each in models if each is not None and each.key == key), None)
    if model is None:
        raise KeyError(key)
    pods = [pod for body in of(POD) if (pod := views.pod(body)) is not None]
    slices = [ENDPOINTS.view(body) for body in of(ENDPOINTS.kind)]
    children = [watched.view(body) for watched in STANDING for body in of(watched.kind)]
    ready = {name for each in slices if each and each.model == key for name in each.ready_pods}
    snapshot = Snapshot(
        now=now,
        synced=True,
        environment=NOTHING_INSTALLED,
        models={key: model},
        pods=tuple(sorted((pod for pod in pods if pod.model == key), key=lambda pod: pod.name)),
        children={key: tuple(children)},
        endpoints={key: tuple(sorted(ready))},
    )
    names = {pod.name for pod in snapshot.pods}
    return Seen(snapshot, model, _events(of(EVENT), key, names))


class _Reader:
    """Lists in the model's namespace; what it may not list becomes a gap."""

    def __init__(self, kube: Kube, key: Key) -> None:
        self._kube = kube
        self._key = key
        self.gaps: list[str] = []

    async def list(self, kind: Kind, *, selector: str = "", fields: str = "") -> list[Body]:
        found: list[Body] = []
        try:
            async for body in self._kube.list(
                kind, namespace=self._key.namespace, selector=selector, fields=fields
            ):
                # Items of a list do not say what they are.
                found.append({**body, "apiVersion": kind.api_version, "kind": kind.kind})
        except NotFoundError:
            return []
        except ForbiddenError:
            gap = (
                f"you may not list {kind.plural} in namespace {self._key.namespace}: ask for a"
                f" role with the verb list on {kind.plural} to see them here"
            )
            self.gaps += [gap] if gap not in self.gaps else []
        return found


def _events(bodies: Iterable[Body], key: Key, pods: set[str]) -> tuple[Told, ...]:
    """Events of the model and of its pods, the oldest first."""
    found = []
    for body in bodies:
        about, name = mapping(body, "regarding"), text(body, "regarding", "name")
        if MODEL.is_of(about) and name == key.name:
            found.append(_told(body))
        elif POD.is_of(about) and name in pods:
            found.append(_told(body, about=name))
    return tuple(sorted(found, key=lambda told: (told.when, told.about, told.reason)))


def _told(body: Any, about: str = "") -> Told:
    """An event in either of the API's two ways to count and to date."""
    paths = (("series", "lastObservedTime"), ("deprecatedLastTimestamp",), ("eventTime",))
    times = (moment(body, *path) for path in (*paths, ("metadata", "creationTimestamp")))
    return Told(
        when=next((when for when in times if when != LONG_AGO), LONG_AGO),
        warning=text(body, "type") == "Warning",
        reason=text(body, "reason"),
        note=text(body, "note"),
        about=about,
        times=number(body, "series", "count") or number(body, "deprecatedCount") or 1,
    )
