"""Is the operator alive: do its watches deliver, does its queue move, do its tasks come round."""

from collections.abc import Callable
from typing import Final

from kindling_operator.kube.fence import Clock, boottime
from kindling_operator.kube.versions import at_least

TASK_SECONDS: Final = 120.0
"""Longest silence of a task. A pass makes at most some thirty requests of ten seconds each, but
one that waits that long for every answer is not alive either."""
WATCH_SECONDS: Final = 60.0
"""Longest time after which the watch must have shown a change of the Lease that we know of."""

SYNC_SECONDS: Final = 900.0
"""Longest time to the end of the first lists. A page of 500 objects takes well under a second, so a
cluster of 100,000 pods is listed and indexed in minutes."""


class Health:
    """Heartbeats and evidence. `problem` is the one question that the liveness probe asks."""

    def __init__(self, *, clock: Clock = boottime) -> None:
        self._clock = clock
        self._beats: dict[str, float] = {}
        self._lease_version = ""
        self._owed_since: float | None = None
        self._begun = self._known_at = clock()
        self._synced = False
        self._stale: dict[str, str] = {}

    def beat(self, task: str) -> None:
        """The task has come round."""
        self._beats[task] = self._clock()

    def beater(self, task: str) -> Callable[[], None]:
        """`beat` for one task; the task counts as begun."""
        self.beat(task)
        return lambda: self.beat(task)

    def synced(self) -> None:
        """All kinds have been listed; only from now on does the watch owe us anything."""
        self._synced = True

    def lease_known(self, version: str) -> None:
        """A request of our own has just shown the Lease at this resource version."""
        self._known_at = self._clock()
        if not self._synced or at_least(self._lease_version, version):
            self._owed_since = None
        elif self._owed_since is None:
            self._owed_since = self._known_at

    def lease_seen(self, version: str) -> None:
        """The watch has delivered the Lease at this resource version."""
        self._lease_version = version
        self._owed_since = None

    @property
    def watch_lag(self) -> float:
        """Seconds for which the watch has owed us a change of the Lease.

        They count up to our last look at the Lease: while the API server does not answer us,
        a silent watch proves nothing, and a restart would not help.
        """
        return 0.0 if self._owed_since is None else self._known_at - self._owed_since

    def audited(self, kind: str, problem: str) -> None:
        """The audit of one kind: "" if the index agrees with the API server, else a sentence."""
        self._stale[kind] = problem

    def problem(self) -> str:
        """One sentence that says why the process should be started again, or ""."""
        stale = next(filter(None, self._stale.values()), "")
        if stale:
            return stale
        if self.watch_lag > WATCH_SECONDS:
            return (
                f"the watch has not shown a change of the Lease for {self.watch_lag:.0f} s"
                f" of at most {WATCH_SECONDS:.0f} s"
            )
        now = self._clock()
        if not self._synced and now - self._begun > SYNC_SECONDS:
            return (
                f"the watches have not delivered every object within {now - self._begun:.0f} s of"
                f" at most {SYNC_SECONDS:.0f} s"
            )
        late = {task: now - at for task, at in self._beats.items() if now - at > TASK_SECONDS}
        if late:
            task, silence = max(late.items(), key=lambda item: item[1])
            return f"{task} has not come round for {silence:.0f} s of at most {TASK_SECONDS:.0f} s"
        return ""
