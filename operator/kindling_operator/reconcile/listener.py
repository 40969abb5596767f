"""Keeps reading what the runtimes of serving pods say, beside the passes.

What came of it goes into the next snapshot. A model is only woken for what people are told: a
progress that ticks is told once a minute.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from kindling_operator.kube.fence import Clock, boottime
from kindling_operator.model.names import Key
from kindling_operator.model.reports import Report
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.observe.endpoint import runtimes_of
from kindling_operator.observe.runtimes import read

logger = logging.getLogger(__name__)

ROUND_SECONDS: Final = 10.0
"""Between two rounds, less up to a quarter, so that operators do not ask in step."""
PROGRESS_SECONDS: Final = 60.0
"""How often a progress is renewed in status."""

Read = Callable[[Mapping[str, str]], Awaitable[dict[str, Report]]]


class Listener:
    """Reports of all pods by uid; `changed` is called when those of a model have."""

    def __init__(
        self,
        changed: Callable[[Key], None],
        *,
        read: Read = read,
        clock: Clock = boottime,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._changed = changed
        self._read = read
        self._clock = clock
        self._chance = chance
        self._urls: dict[Key, dict[str, str]] = {}
        self._reports: dict[str, Report] = {}
        self._told_at: dict[str, float] = {}

    @property
    def reports(self) -> Mapping[str, Report]:
        """What is known, as a snapshot takes it: later reports do not change it."""
        return dict(self._reports)

    def follow(self, snapshot: Snapshot, key: Key) -> None:
        """Read the pods that a model has now, and forget those that are gone."""
        gone = self._urls.get(key, {}).keys() - (urls := runtimes_of(snapshot, key)).keys()
        self._forget(gone)
        self._urls[key] = urls

    def forget(self, key: Key) -> None:
        """The model is gone."""
        self._forget(self._urls.pop(key, {}).keys())

    async def run(self, beat: Callable[[], None]) -> None:
        """Read all pods again and again, until cancelled."""
        while True:
            beat()
            await self.round()
            await asyncio.sleep(ROUND_SECONDS * (1 - self._chance() / 4))

    async def round(self) -> None:
        """Read every pod once."""
        urls = {uid: url for each in self._urls.values() for uid, url in each.items()}
        if not urls:
            return
        try:
            found = await self._read(urls)
        except Exception:
            logger.exception("reading the runtimes' reports failed")
            return
        for key, pods in list(self._urls.items()):
            heard = [self._hear(uid, found[uid]) for uid in pods if uid in found]
            if any(heard):
                self._changed(key)

    def _hear(self, uid: str, report: Report) -> bool:
        """Keep a report; whether it says what is worth a word."""
        known, now = self._reports.get(uid), self._clock()
        if known is not None and replace(report, progress=known.progress) == known:
            ticks = bool(report.progress) and bool(known.progress)
            if ticks and now - self._told_at[uid] < PROGRESS_SECONDS:
                return False
        if report == known:
            return False
        self._reports[uid], self._told_at[uid] = report, now
        return True

    def _forget(self, uids: Iterable[str]) -> None:
        for uid in tuple(uids):
            self._reports.pop(uid, None)
            self._told_at.pop(uid, None)
