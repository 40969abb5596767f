"""Do the indexes agree with the API server? A watch that lost something says nothing about it.

Two ways to lose an object are known in kopf 1.45.2: after "410 Gone" it lists again and never
learns what was deleted in the gap, and a stream that breaks during its initial events goes on from
the version of whatever object came last. So every kind is listed now and then, metadata only.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kindling_operator.kube.client import Kube
from kindling_operator.kube.kinds import CLUSTER_SCOPED
from kindling_operator.model.names import Key
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.watched import MODELS, Watched


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as one side has it; the version is "" where only existence counts."""

    version: str
    key: Key | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """An object in which the two sides differ: since when, and what the index had then."""

    since: float
    indexed: str | None


@dataclass(frozen=True, slots=True)
class Findings:
    """Differences older than the grace. `gone` are uids that only the index still has; `missed` and
    `outdated` are objects of which the index has nothing, or an old version."""

    suspects: Mapping[str, Suspect]
    gone: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()


def judge(
    indexed: Mapping[str, Seen],
    listed: Mapping[str, Seen],
    suspects: Mapping[str, Suspect],
    *,
    complete: bool,
    now: float,
    grace: float,
) -> Findings:
    """Compare by uid. A difference counts once the index has stood still over the grace.

    `complete`: every listed object should be in the index; else only the other direction counts.
    """
    differing = {
        uid: indexed[uid].version if uid in indexed else None
        for uid in {*indexed, *(listed if complete else ())}
        if indexed.get(uid) is None
        or listed.get(uid) is None
        or indexed[uid].version != listed[uid].version
    }
    known = {
        uid: suspects[uid]
        if uid in suspects and suspects[uid].indexed == version
        else Suspect(now, version)
        for uid, version in differing.items()
    }
    old = sorted(uid for uid, suspect in known.items() if now - suspect.since >= grace)
    return Findings(
        suspects=known,
        gone=tuple(uid for uid in old if uid not in listed),
        missed=tuple(uid for uid in old if uid not in indexed),
        outdated=tuple(uid for uid in old if uid in indexed and uid in listed),
    )


class Auditor:
    """Compares one kind at a time and remembers the suspects in between."""

    def __init__(
        self, kube: Kube, cache: Cache, *, namespaces: Iterable[str] = (), grace: float
    ) -> None:
        """`namespaces`: those that are watched; none means all."""
        self._kube = kube
        self._cache = cache
        self._namespaces = tuple(namespaces)
        self._grace = grace
        self._suspects: dict[str, Mapping[str, Suspect]] = {}

    async def look(
        self, watched: Watched, *, now: float, beat: Callable[[], None]
    ) -> tuple[Findings, frozenset[Key]]:
        """The findings for one kind and the models that they concern; raises KubeError.

        `beat` is called for every object: a long list shows that the audit is alive.
        """
        versions = watched == MODELS
        indexed = {
            entry.uid: Seen(entry.resource_version if versions else "", entry.key)
            for entry in self._cache.entries(watched)
        }
        listed = await self._list(watched, versions=versions, beat=beat)
        findings = judge(
            indexed,
            listed,
            self._suspects.get(watched.id, {}),
            complete=watched.complete,
            now=now,
            grace=self._grace,
        )
        self._suspects[watched.id] = findings.suspects
        concerned = (
            (listed.get(uid) or indexed[uid]).key
            for uid in (*findings.gone, *findings.missed, *findings.outdated)
        )
        return findings, frozenset(key for key in concerned if key is not None)

    async def _list(
        self, watched: Watched, *, versions: bool, beat: Callable[[], None]
    ) -> dict[str, Seen]:
        everywhere = watched.kind in CLUSTER_SCOPED or not self._namespaces
        found: dict[str, Seen] = {}
        for namespace in ("",) if everywhere else self._namespaces:
            async for body in self._kube.list(
                watched.kind,
                namespace=namespace,
                selector=watched.selector,
                metadata_only=True,
            ):
                beat()
                metadata = body["metadata"]
                version = str(metadata["resourceVersion"]) if versions else ""
                found[str(metadata["uid"])] = Seen(version, watched.key(body))
        return found
