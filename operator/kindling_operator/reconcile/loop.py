"""The story of one pass over one model."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

from kindling_operator.apply.executor import execute
from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import InvalidError, KubeError, NotFoundError, retry_of
from kindling_operator.kube.fence import Clock, boottime
from kindling_operator.model.names import Key
from kindling_operator.model.objects import ObjectRef
from kindling_operator.model.outcome import Outcome, Retry
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Decision, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.cuts import Cuts
from kindling_operator.reconcile.asker import AGAIN_SECONDS, Asker
from kindling_operator.reconcile.expect import LOOK_AGAIN_SECONDS, Expectations
from kindling_operator.reconcile.listener import Listener
from kindling_operator.reconcile.setbacks import Setbacks
from kindling_operator.report import fallback, writer
from kindling_operator.report.events import Recorder, cuts, transitions
from kindling_operator.report.metrics import Metrics
from kindling_operator.report.status import status

logger = logging.getLogger(__name__)

Plan = Callable[[Snapshot, Key], Decision]
Render = Callable[[Snapshot, Decision], Sequence[Mapping[str, Any]]]


class Ended(StrEnum):
    """How a pass ended; label of a metric."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    WAITING = "waiting"
    GONE = "gone"
    REFUSED = "refused"
    RETRY = "retry"
    ERROR = "error"
    """The operator could not handle the model; status says so."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a pass ended; `again` in seconds, None if only an event should start the next one."""

    ended: Ended
    again: float | None = None
    retry: Retry | None = None


class Reconciler:
    """Runs the stages for one model at a time; several passes over different models may overlap."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        recorder: Recorder,
        metrics: Metrics,
        *,
        plan: Plan,
        render: Render,
        now: Callable[[], datetime],
        clock: Clock = boottime,
        asker: Asker | None = None,
        listener: Listener | None = None,
        heard: Cuts | None = None,
        prepare: Callable[[Key], Awaitable[None]] | None = None,
    ) -> None:
        """`prepare` is awaited before a pass looks at anything; `heard` is what pods cut."""
        self._kube = kube
        self._cache = cache
        self._recorder = recorder
        self._metrics = metrics
        self._plan = plan
        self._render = render
        self._now = now
        self._clock = clock
        self._asker = asker
        self._listener = listener
        self._cuts = heard or Cuts()
        self._prepare = prepare
        self._expectations = Expectations()
        self._setbacks = Setbacks()
        self._broken: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster be what the model asks for, one step. Raises nothing of the API's."""
        if self._prepare is not None:
            await self._prepare(key)
        # 1. Look: one frozen snapshot, which must show what the last pass wrote.
        snapshot = self._look()
        if not snapshot.synced or not self._expectations.met(key, snapshot, now=self._clock()):
            return Result(Ended.WAITING, again=LOOK_AGAIN_SECONDS)
        model = snapshot.models.get(key)
        if model is None or model.metadata.deletion is not None:
            return self._gone(key)
        # 2. Decide, from the snapshot alone.
        # 3. Render the decision.
        try:
            with self._stage("plan"):
                decision = self._plan(snapshot, key)
            with self._stage("render"):
                manifests = self._render(snapshot, decision)
        except Exception as error:
            return await self._cannot(snapshot, model, error)
        # 4. Apply what differs, delete what is left over.
        with self._stage("apply"):
            outcome = Outcome()
            if not decision.untouched:
                outcome = await execute(
                    self._kube, snapshot, decision, manifests, counted=self._metrics.count_apply
                )
        written = list(outcome.applied)
        outcome = self._setbacks.judged(key, outcome, now=self._clock())
        # 5. Report, also of a pass that could not be finished, unless another process leads now.
        if outcome.retry is None or outcome.retry.counts:
            with self._stage("report"):
                outcome, reported = await self._report(snapshot, decision, outcome)
            written += reported
        # 6. Remember what was written, ask what the next step waits for, say when to look again.
        self._follow(snapshot, decision)
        self._expectations.expect(key, written, now=self._clock())
        self._tell(key, model.metadata.generation, decision, outcome)
        return _result(snapshot, decision, outcome, changed=bool(written or outcome.pruned))

    async def _tell_cuts(self, snapshot: Snapshot, model: ParsedModel | Invalid) -> None:
        """What leaving pods cut is in no status: they are gone."""
        if events := cuts(snapshot, model.key):
            await self._recorder.tell(events, model, now=snapshot.now)
            self._cuts.told(snapshot.cuts[model.key])

    def _look(self) -> Snapshot:
        found = self._cache.snapshot(now=self._now())
        answers = self._asker.answers if self._asker is not None else {}
        reports = self._listener.reports if self._listener is not None else {}
        return replace(found, answers=answers, reports=reports, cuts=self._cuts.untold)

    async def _report(
        self, snapshot: Snapshot, decision: Decision, outcome: Outcome
    ) -> tuple[Outcome, list[ObjectRef]]:
        """Write status if it differs, then tell what has changed."""
        model = snapshot.models[decision.key]
        await self._tell_cuts(snapshot, model)
        new = status(snapshot, decision, outcome)
        wire = new.to_wire()
        if not writer.differs(model, wire):
            return outcome, []
        try:
            written = await writer.write(self._kube, model, wire)
        except NotFoundError:
            return outcome, []
        except InvalidError as error:
            verdict = fallback.unwritable(error)
            self._log_once(model, verdict, error)
            return await self._fall_back(snapshot, model, replace(outcome, verdict=verdict))
        except KubeError as error:
            return replace(outcome, retry=outcome.retry or retry_of(error)), []
        self._broken.pop(decision.key, None)
        await self._recorder.tell(transitions(snapshot, decision, new), model, now=snapshot.now)
        return outcome, [written]

    async def _cannot(
        self, snapshot: Snapshot, model: ParsedModel | Invalid, error: Exception
    ) -> Result:
        """A bug: nothing is applied, status tells of it, and it is tried again now and then."""
        verdict = fallback.broken(error)
        self._log_once(model, verdict, error)
        outcome, written = await self._fall_back(snapshot, model, Outcome(verdict=verdict))
        self._expectations.expect(model.key, written, now=self._clock())
        return Result(Ended.ERROR, retry=outcome.retry)

    async def _fall_back(
        self, snapshot: Snapshot, model: ParsedModel | Invalid, outcome: Outcome
    ) -> tuple[Outcome, list[ObjectRef]]:
        """Write the least that a status can say, if that differs."""
        for kept in (True, False):
            verdict: Verdict | None = outcome.verdict
            if verdict is None:
                break
            wire = fallback.fallback(model, verdict, now=snapshot.now, kept=kept)
            if not writer.differs(model, wire):
                break
            try:
                return outcome, [await writer.write(self._kube, model, wire)]
            except NotFoundError:
                break
            except InvalidError as error:
                logger.warning("the least status was refused too: %s", error)
            except KubeError as error:
                return replace(outcome, retry=retry_of(error)), []
        return outcome, []

    def _log_once(self, model: ParsedModel | Invalid, verdict: Verdict, error: Exception) -> None:
        """With its traceback the first time; the retries of the same find the same."""
        if self._broken.get(model.key) == verdict.message:
            return
        self._broken[model.key] = verdict.message
        logger.error(verdict.message, exc_info=error, extra={"key": str(model.key)})

    def _follow(self, snapshot: Snapshot, decision: Decision) -> None:
        """Have the pods asked what the next passes want to know."""
        if self._asker is not None:
            self._asker.follow(snapshot, decision)
        if self._listener is not None:
            self._listener.follow(snapshot, decision.key)

    def _gone(self, key: Key) -> Result:
        self._setbacks.forget(key)
        self._broken.pop(key, None)
        for each in (self._asker, self._listener):
            if each is not None:
                each.forget(key)
        return Result(Ended.GONE)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        with self._metrics.stage_seconds.labels(name).time():
            yield

    def _tell(self, key: Key, generation: int, decision: Decision, outcome: Outcome) -> None:
        """One line when something changed; the rest is for debugging."""
        level = logging.INFO if outcome.writes else logging.DEBUG
        if outcome.retry is not None:
            level = logging.WARNING if outcome.retry.counts else logging.DEBUG
        if not logger.isEnabledFor(level):
            return
        logger.log(
            level,
            "reconciled" if outcome.retry is None else outcome.retry.message,
            extra={
                "key": str(key),
                "generation": generation,
                "reconcile_id": uuid4().hex[:8],
                "revision": decision.current.hash if decision.current is not None else "",
                "applied": [str(ref) for ref in outcome.applied],
                "pruned": [str(ref) for ref in outcome.pruned],
            },
        )


def _result(snapshot: Snapshot, decision: Decision, outcome: Outcome, *, changed: bool) -> Result:
    if outcome.retry is not None:
        return Result(Ended.RETRY, retry=outcome.retry)
    if outcome.verdict is not None:
        return Result(Ended.REFUSED)
    ended = Ended.CHANGED if changed else Ended.UNCHANGED
    times = [AGAIN_SECONDS] if decision.ask else []
    if decision.look_again is not None:
        times.append(max(0.0, (decision.look_again - snapshot.now).total_seconds()))
    return Result(ended, again=min(times, default=None))
