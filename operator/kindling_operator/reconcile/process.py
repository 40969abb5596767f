"""The operator process: every background task, and what kopf's handlers call."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kindling_operator.kube.client import Kube
from kindling_operator.kube.fence import Fence
from kindling_operator.model.names import Key
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.observe.audit import Auditor
from kindling_operator.observe.beside import Beside, beside
from kindling_operator.observe.cache import Cache, Index
from kindling_operator.observe.cuts import Cuts
from kindling_operator.observe.fields import Body, text
from kindling_operator.observe.watched import CLAIMS, MODELS, PODS, PRIORITIES, Watched
from kindling_operator.reconcile.asker import Asker
from kindling_operator.reconcile.health import Health
from kindling_operator.reconcile.lease import Elector, LeaseTiming
from kindling_operator.reconcile.listener import Listener
from kindling_operator.reconcile.loop import Reconciler, Render
from kindling_operator.reconcile.placing import Placing, PlanOne, Sweep
from kindling_operator.reconcile.queue import Queue
from kindling_operator.reconcile.watchdog import WorldWatch, audit, measure_lag, notice_kinds
from kindling_operator.reconcile.workers import work
from kindling_operator.report.events import Recorder
from kindling_operator.report.metrics import Metrics

logger = logging.getLogger(__name__)

STOP_SECONDS = 10.0
"""How long passes in work may take to end before they are cancelled."""
CANCEL_SECONDS = 5.0
"""How long a cancelled task may take to end; then the process goes without it."""

KINDS_TASK = "kinds"
"""Name of the task that ends when the cluster has other kinds than at the start."""

_CONCERN_ALL = frozenset(watched.id for watched in (MODELS, PODS, CLAIMS, PRIORITIES))


@dataclass(frozen=True, slots=True)
class Tuning:
    """Numbers of the process; durations in seconds.

    `namespaces`: those that are watched, none is all. `grace`: how long index and API server may
    differ.
    """

    identity: str
    namespace: str
    lease_name: str = "kindling-operator"
    lease: LeaseTiming = field(default_factory=LeaseTiming)
    workers: int = 4
    audit_interval: float = 60.0
    resync_interval: float = 600.0
    grace: float = 30.0
    namespaces: tuple[str, ...] = ()


class Process:
    """Built before kopf runs, so that kopf leaves its tasks alone; stopped before kopf ends."""

    def __init__(
        self,
        tuning: Tuning,
        environment: Environment,
        metrics: Metrics,
        *,
        kube: Kube,
        lease_kube: Kube,
        fence: Fence,
        plan: PlanOne,
        sweep: Sweep,
        render: Render,
    ) -> None:
        """`kube` writes through `fence`; `lease_kube` does not, for the Lease itself."""
        self._tuning = tuning
        self._metrics = metrics
        self._kube = kube
        self.health = Health()
        self.queue: Queue[Key] = Queue()
        self.cache = Cache(environment)
        self._cuts = Cuts()
        self.elector = self._elector(lease_kube, fence)
        self._asker = Asker(self.queue.add)
        self._listener = Listener(self.queue.add) if environment.prove_endpoint else None
        self._placing = Placing(plan, sweep, look=self._look, wake=self.queue.add)
        leading = self.elector.leading.is_set
        self._world = WorldWatch(self.cache, self.queue, self._placing, leading=leading)
        self._beside = self._sources(kube)
        self.cache.follow(self._beside)
        self._reconciler = self._made(render)
        self._tasks: list[asyncio.Task[None]] = []

    def _made(self, render: Render) -> Reconciler:
        return Reconciler(
            self._kube,
            self.cache,
            Recorder(self._kube, instance=self._tuning.identity),
            self._metrics,
            plan=self._placing.decide,
            prepare=self._placing.prepare,
            render=render,
            now=_now,
            asker=self._asker,
            listener=self._listener,
            heard=self._cuts,
        )

    def _sources(self, kube: Kube) -> Beside:
        """What is watched beside kopf."""
        return beside(
            kube,
            namespaces=self._tuning.namespaces,
            nodes_changed=self._nodes_changed,
            pods_changed=self._pods_changed,
            beat=self.health.beater,
        )

    def _elector(self, lease_kube: Kube, fence: Fence) -> Elector:
        return Elector(
            lease_kube,
            fence,
            namespace=self._tuning.namespace,
            name=self._tuning.lease_name,
            identity=self._tuning.identity,
            timing=self._tuning.lease,
            known=self.health.lease_known,
            led=self._led,
            beat=self.health.beater("elector"),
        )

    def start(self) -> list[asyncio.Task[None]]:
        """Start the tasks; any of them that ends by itself must end the process.

        The end of KINDS_TASK is no failure: the cluster has other kinds than at the start.
        """
        tuning, health, metrics = self._tuning, self.health, self._metrics
        auditor = Auditor(self._kube, self.cache, namespaces=tuning.namespaces, grace=tuning.grace)
        coroutines = {
            "elector": self.elector.run(),
            "world": self._world.run(health.beater("world")),
            "lag": measure_lag(health, metrics),
            KINDS_TASK: notice_kinds(
                self._kube,
                self.cache,
                namespace=next(iter(tuning.namespaces), ""),
                beat=health.beater(KINDS_TASK),
            ),
            "audit": audit(
                auditor,
                self.cache,
                self.queue,
                health=health,
                metrics=metrics,
                interval=tuning.audit_interval,
                resync=tuning.resync_interval,
            ),
        }
        if self._listener is not None:
            coroutines["listener"] = self._listener.run(health.beater("listener"))
        coroutines |= {f"watch-{n}": run() for n, run in enumerate(self._beside.runs)}
        coroutines |= {f"worker-{n}": self._worker(f"worker-{n}") for n in range(tuning.workers)}
        self._tasks = [asyncio.create_task(c, name=name) for name, c in coroutines.items()]
        return self._tasks

    async def stop(self) -> None:
        """Let the passes in work end, then give the Lease up, so that another can go on at once.

        A write that is cancelled may still take effect, so cancelling comes last.
        """
        self.queue.close()
        if not await self.queue.drained(within=STOP_SECONDS):
            logger.warning("passes did not end within %.0f s and are cancelled", STOP_SECONDS)
        elector = next((task for task in self._tasks if task.get_name() == "elector"), None)
        await self._asker.close()
        others = [task for task in self._tasks if task is not elector]
        await _end(others)
        if elector is not None:
            await _end([elector])
            await self.elector.release()

    def attach(self, indices: Mapping[str, Index]) -> None:
        """kopf's indexes, by the ids of `observe.watched`."""
        self.cache.attach(indices)

    def event(self, watched: Watched, body: Body) -> None:
        """The watch delivered an object, and the index has it; or it is gone."""
        self._metrics.last_event.labels(watched.id).set(time.time())
        self.cache.touch(watched)
        if watched is PODS:
            self._cuts.hear(body, now=_now())
        self._heard()
        for key in watched.wakes(body):
            self.queue.add(key)
        if watched.id in _CONCERN_ALL:
            self._world.touch()

    def _look(self) -> Snapshot:
        return self.cache.snapshot(now=_now())

    def _pods_changed(self) -> None:
        """A pod of somebody else takes more of a node, or less."""
        self._metrics.last_event.labels("foreign-pods").set(time.time())
        self._heard()
        self._world.touch()

    def _nodes_changed(self) -> None:
        """A node or one of its devices has changed."""
        self._metrics.last_event.labels("nodes").set(time.time())
        self.cache.touch_nodes()
        self._heard()
        self._world.touch()

    def _heard(self) -> None:
        """Something has been delivered: perhaps the last of the first lists."""
        if self.cache.synced:
            self.health.synced()

    def lease_event(self, body: Body) -> None:
        """The watch delivered our Lease."""
        self._metrics.last_event.labels("leases").set(time.time())
        self.health.lease_seen(text(body, "metadata", "resourceVersion"))

    async def _worker(self, name: str) -> None:
        beat: Callable[[], None] = self.health.beater(name)
        await work(
            self.queue,
            self._reconciler,
            leading=self.elector.leading,
            metrics=self._metrics,
            beat=beat,
        )

    def _led(self, leads: bool) -> None:
        """A new leader looks at everything: what the old one left undone is not in any event."""
        self._metrics.leading.set(int(leads))
        if leads:
            for key in self.cache.model_keys():
                self.queue.add(key)


def _now() -> datetime:
    return datetime.now(UTC)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their end; a task that failed has been told of already."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
