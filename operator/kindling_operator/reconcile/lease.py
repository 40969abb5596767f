"""Leader election on a Lease. Why not the official client's: docs/adr/0006-lease.md.

Safety rests on two clocks that start in a known order. The leader counts from before it *sends* a
renewal; a follower counts from after it has *seen* one. So the leader's fence closes before any
follower can think that the Lease has expired, whatever their clocks say.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kindling_operator.kube.client import Body, Kube
from kindling_operator.kube.errors import ConflictError, KubeError, NotFoundError
from kindling_operator.kube.fence import Clock, Fence, boottime
from kindling_operator.kube.kinds import LEASE

logger = logging.getLogger(__name__)

_MICROTIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds, as in client-go: a Lease lives `duration` after its last renewal; the leader writes
    nothing later than `renew_deadline` after it; both try every `retry_period`."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class _Sight:
    """The Lease as it was when it last differed, and when that was noticed."""

    holder: str
    version: str
    seconds: float
    at: float


class Elector:
    """Takes and keeps the Lease, and opens and closes the fence. `run` in a task, then `release`.

    `leading` is set while this process leads. `known` is called with the Lease's resource version
    after each successful look at it: the watch must show the same soon. `led` is called with
    whether this process leads, whenever that changes.
    """

    def __init__(
        self,
        kube: Kube,
        fence: Fence,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming,
        known: Callable[[str], None],
        led: Callable[[bool], None],
        beat: Callable[[], None],
        clock: Clock = boottime,
    ) -> None:
        self.leading = asyncio.Event()
        self._kube = kube
        self._fence = fence
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing
        self._known = known
        self._led = led
        self._beat = beat
        self._clock = clock
        self._lease: Body | None = None
        self._sight: _Sight | None = None

    async def run(self) -> None:
        """Try to lead until cancelled."""
        while True:
            self._beat()
            try:
                await self._round()
            except KubeError as error:
                logger.warning("the Lease was not renewed: %s", error)
                # Whether it took effect is unknown: look at the Lease before the next try.
                self._lease = None
            self._settle()
            await asyncio.sleep(self._timing.retry_period)

    async def release(self) -> None:
        """Give the Lease up, so that another need not wait for its end. No write after this."""
        held = self._lease if self._fence.open else None
        self._fence.close()
        self._settle()
        if held is None:
            return
        try:
            await self._kube.replace(self._renewed(held, holder="", seconds=1), LEASE)
            logger.info("gave up the Lease")
        except KubeError as error:
            logger.warning("the Lease was not given up and ends by itself: %s", error)

    async def _round(self) -> None:
        """Renew the Lease if we hold it; else look, and take it if it is free."""
        lease = self._lease or await self._look()
        started = self._clock()
        if not self._free(lease):
            # Whatever we believed: it is another's now.
            self._fence.close()
            return
        try:
            if lease is None:
                taken = await self._kube.create(self._first(), LEASE)
            else:
                taken = await self._kube.replace(self._taken(lease), LEASE)
        except (ConflictError, NotFoundError):
            # Another has written it, or somebody has deleted it: it is not ours any more.
            self._fence.close()
            raise
        self._lease = taken
        self._see(taken)
        self._fence.extend(started)

    async def _look(self) -> Body | None:
        try:
            found = await self._kube.get(LEASE, self._namespace, self._name)
        except NotFoundError:
            return None
        self._see(found)
        return found

    def _see(self, lease: Body) -> None:
        """Note a change of the Lease; only from then on can it expire."""
        spec = lease.get("spec") or {}
        version = str(lease["metadata"]["resourceVersion"])
        self._known(version)
        if self._sight is None or self._sight.version != version:
            self._sight = _Sight(
                holder=str(spec.get("holderIdentity") or ""),
                version=version,
                seconds=float(spec.get("leaseDurationSeconds") or self._timing.duration),
                at=self._clock(),
            )

    def _free(self, lease: Body | None) -> bool:
        """Whether we may write it: it is ours, given up, or unchanged for its whole duration.

        A Lease that somebody has deleted still binds those who have seen it: its holder goes on
        until it notices.
        """
        sight = self._sight
        if sight is None:
            return lease is None
        if lease is not None and sight.version != str(lease["metadata"]["resourceVersion"]):
            return False
        if sight.holder in {self._identity, ""}:
            return True
        return self._clock() >= sight.at + sight.seconds

    def _settle(self) -> None:
        """Let `leading` say what the fence says."""
        if self._fence.open and not self.leading.is_set():
            logger.info("leading", extra={"identity": self._identity})
            self.leading.set()
            self._led(True)
        elif not self._fence.open and self.leading.is_set():
            logger.warning("not leading any more", extra={"identity": self._identity})
            self.leading.clear()
            self._lease = None
            self._led(False)

    def _first(self) -> Body:
        metadata = {"namespace": self._namespace, "name": self._name}
        empty: Body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}
        return self._taken(empty)

    def _taken(self, lease: Body) -> Body:
        return self._renewed(lease, holder=self._identity, seconds=self._timing.duration)

    def _renewed(self, lease: Body, *, holder: str, seconds: float) -> Body:
        """The Lease as it should be; its resourceVersion makes the API server refuse a late one."""
        now = datetime.now(UTC).strftime(_MICROTIME)
        old: dict[str, Any] = lease.get("spec") or {}
        kept = holder in {"", old.get("holderIdentity")}
        spec = {
            "holderIdentity": holder,
            # Whole seconds in the API, and never less than the leader itself counts on.
            "leaseDurationSeconds": max(1, -int(-seconds // 1)),
            "renewTime": now,
            "acquireTime": old.get("acquireTime", now) if kept else now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (0 if kept else 1),
        }
        return {**lease, "spec": spec}
