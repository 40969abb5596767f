"""The background rounds: what concerns all models, the audit of the indexes, the loop's own lag."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable

from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import KubeError, UnavailableError
from kindling_operator.kube.fence import Clock, boottime
from kindling_operator.model.names import Key
from kindling_operator.model.objects import ClaimView
from kindling_operator.observe.audit import Auditor, Findings
from kindling_operator.observe.cache import Cache, World
from kindling_operator.observe.watched import MODELS, WATCHED, Watched
from kindling_operator.reconcile.health import Health
from kindling_operator.reconcile.placing import Placing
from kindling_operator.reconcile.queue import Queue
from kindling_operator.report.metrics import Metrics

logger = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 1.0
"""A node that comes or goes makes a storm of events; one look after it is enough."""
SWEEP_SHARE = 4.0
"""So many times as long as the last sweep took passes before the next."""
LOOK_SECONDS = 30.0
"""All models are placed again after that long without an event that concerns all."""
LAG_SECONDS = 1.0
KINDS_SECONDS = 30.0
"""Time between two looks at the kinds that a cluster may lack."""
FULL_AUDIT_ROUNDS = 5
"""Every audit looks at the models; every so many also at all other kinds."""


class WorldWatch:
    """Wakes models when something changed that is not theirs: nodes, other pods, claims."""

    def __init__(
        self,
        cache: Cache,
        queue: Queue[Key],
        placing: Placing,
        *,
        leading: Callable[[], bool],
    ) -> None:
        """Only a process that is `leading` places models."""
        self._cache = cache
        self._queue = queue
        self._placing = placing
        self._leading = leading
        self._dirty = asyncio.Event()
        self._world: World | None = None
        self._claims: frozenset[ClaimView] = frozenset()

    def touch(self) -> None:
        """Something may have changed."""
        self._dirty.set()

    async def run(self, beat: Callable[[], None]) -> None:
        """Compare and wake until cancelled."""
        while True:
            beat()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._dirty.wait()
            except TimeoutError:
                await self.wake(also_same=True)
                continue
            # A sweep over a large cluster takes its time, and others want theirs.
            rest = min(LOOK_SECONDS, SWEEP_SHARE * self._placing.seconds)
            await asyncio.sleep(max(DEBOUNCE_SECONDS, rest))
            self._dirty.clear()
            await self.wake()

    async def wake(self, *, also_same: bool = False) -> None:
        """Place all models again if the world has changed since the last call, or `also_same`, and
        enqueue those that this concerns.

        Without an event, time and what became of the models themselves may have changed a place.
        """
        if not self._cache.synced or not self._leading():
            self._world = None
            self._placing.forget()
            return
        world, claims = self._cache.world(), frozenset(self._cache.claims())
        if self._world is None:
            self._add(self._cache.model_keys())
        elif world != self._world or claims != self._claims:
            self._add(await self._placing.renew())
            self._add(self._placing.unsettled())
            for namespace in {claim.namespace for claim in claims ^ self._claims}:
                self._add(self._cache.model_keys_of(namespace))
        elif also_same:
            self._add(await self._placing.renew())
        self._world, self._claims = world, claims

    def _add(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._queue.add(key)


async def audit(
    auditor: Auditor,
    cache: Cache,
    queue: Queue[Key],
    *,
    health: Health,
    metrics: Metrics,
    interval: float,
    resync: float,
    clock: Clock = boottime,
) -> None:
    """Compare indexes and API server, and enqueue every model now and then, until cancelled.

    Before the watches have delivered everything there is nothing to compare. The first request
    without an answer ends a round: an API server that is away answers for no other kind either.
    """
    beat = health.beater("audit")
    rounds, resynced = 0, clock()
    while True:
        await asyncio.sleep(interval)
        beat()
        if not cache.synced:
            continue
        rounds += 1
        every = tuple(watched for watched in WATCHED if cache.watches(watched))
        kinds = every if rounds % FULL_AUDIT_ROUNDS == 0 else (MODELS,)
        async for watched, findings, concerned in _looked(auditor, kinds, beat=beat, clock=clock):
            cache.forget(findings.gone)
            for key in concerned:
                queue.add(key)
            health.audited(watched.id, _problem(watched.id, findings))
            stale = len(findings.missed) + len(findings.outdated)
            metrics.stale_objects.labels(watched.id).set(stale)
        if clock() - resynced >= resync:
            resynced = clock()
            for key in cache.model_keys():
                queue.add(key)


async def _looked(
    auditor: Auditor, kinds: Iterable[Watched], *, beat: Callable[[], None], clock: Clock
) -> AsyncIterator[tuple[Watched, Findings, frozenset[Key]]]:
    """One round: what was found of each kind, up to the first request without an answer."""
    for watched in kinds:
        beat()
        try:
            findings, concerned = await auditor.look(watched, now=clock(), beat=beat)
        except KubeError as error:
            logger.warning("the index of %s was not audited: %s", watched.id, error)
            if isinstance(error, UnavailableError):
                return
            continue
        yield watched, findings, concerned


def _problem(kind: str, findings: Findings) -> str:
    if findings.gone:
        logger.warning("%d %s were deleted and no watch said so", len(findings.gone), kind)
    lost = len(findings.missed) + len(findings.outdated)
    if not lost:
        return ""
    sentence = f"the watch of {kind} has missed {lost} objects; a restart lists them again"
    logger.error(sentence)
    return sentence


async def notice_kinds(
    kube: Kube, cache: Cache, *, namespace: str, beat: Callable[[], None]
) -> None:
    """Return once the API server serves an optional kind that is not watched, or no longer one
    that is. The process then starts again: its watches are those of its start."""
    while True:
        await asyncio.sleep(KINDS_SECONDS)
        beat()
        for watched in (each for each in WATCHED if cache.synced and each.optional):
            try:
                served = await kube.serves(watched.kind, namespace)
            except KubeError as error:
                logger.debug("whether there are %s is not known: %s", watched.id, error)
                continue
            if served != cache.watches(watched):
                now = "has" if served else "no longer has"
                logger.warning("the cluster %s %s: the operator starts again", now, watched.id)
                return


async def measure_lag(health: Health, metrics: Metrics) -> None:
    """How late a sleeper wakes is how long something held the loop."""
    beat = health.beater("loop")
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        metrics.loop_lag.set(loop.time() - due)
        metrics.lease_watch_lag.set(health.watch_lag)
        beat()
