"""Keeps asking through the Services of the models whose rollouts wait for an answer.

Beside the passes, so that a pod that does not answer holds up no worker. What came of it goes into
the next snapshot; it is forgotten with the rollout.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kindling_operator.kube.fence import Clock, boottime
from kindling_operator.model.names import Key
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Answers, Snapshot
from kindling_operator.observe.endpoint import Question, ask, question

logger = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 5.0
"""Between two questions for one model."""
ANSWER_SECONDS: Final = 60.0
"""For one question with all its requests, each of which has a deadline of its own."""


class Asker:
    """One question per model at a time; `found` is called when a model's answers have changed."""

    def __init__(
        self,
        found: Callable[[Key], None],
        *,
        ask: Callable[[Question], Awaitable[Answers]] = ask,
        clock: Clock = boottime,
    ) -> None:
        self._found = found
        self._ask = ask
        self._clock = clock
        self._answers: dict[Key, Answers] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._asked: dict[Key, float] = {}

    @property
    def answers(self) -> Mapping[Key, Answers]:
        """What is known, as a snapshot takes it: later answers do not change it."""
        return dict(self._answers)

    def follow(self, snapshot: Snapshot, decision: Decision) -> None:
        """Ask what a decision waits for, unless that has just been done."""
        key = decision.key
        if len(decision.targets) < 2:
            self.forget(key)
            return
        wanted = question(snapshot, decision)
        last = self._asked.get(key)
        if wanted is None or key in self._tasks:
            return
        if last is None or self._clock() - last >= AGAIN_SECONDS:
            self._tasks[key] = asyncio.create_task(self._run(wanted), name=f"ask {key}")

    def forget(self, key: Key) -> None:
        """The rollout is over, or the model gone."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        self._answers.pop(key, None)
        self._asked.pop(key, None)

    async def close(self) -> None:
        """End the questions that are under way."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, wanted: Question) -> None:
        key, known = wanted.key, self._answers.get(wanted.key, Answers())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                new = await self._ask(wanted)
        except TimeoutError:
            new = Answers(problem=f"nothing was known after {ANSWER_SECONDS:g} s of asking")
        except Exception:
            logger.exception("asking %s failed", wanted.service, extra={"key": str(key)})
            new = Answers(problem="the operator failed to ask: see its log")
        self._tasks.pop(key, None)
        self._asked[key] = self._clock()
        both = Answers(known.pods | new.pods, new.problem)
        if both != known:
            self._answers[key] = both
            self._found(key)
