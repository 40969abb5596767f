"""When a model's user is told that the cluster does not take what is written for it.

A single failed write is the queue's business and mends itself; one that fails again and again, such
as for a webhook that is away, would else be in the log alone.
"""

from dataclasses import dataclass, replace
from typing import Final

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.plan import Verdict

PASSES: Final = 3
"""So many in a row must have failed: the first retries come within a second."""
SECONDS: Final = 10.0
"""And for so long: an API server that is started again answers sooner."""


@dataclass(frozen=True, slots=True)
class _Run:
    since: float
    passes: int


class Setbacks:
    """Per model: the passes in a row that could not write everything."""

    def __init__(self) -> None:
        self._of: dict[Key, _Run] = {}

    def judged(self, key: Key, outcome: Outcome, *, now: float) -> Outcome:
        """The outcome, with a verdict for the user once writes have failed for too long."""
        if outcome.retry is None:
            self.forget(key)
            return outcome
        if not outcome.retry.counts:
            return outcome
        before = self._of.get(key, _Run(now, 0))
        run = self._of[key] = replace(before, passes=before.passes + 1)
        if run.passes < PASSES or now - run.since < SECONDS:
            return outcome
        message = (
            f"A part of this InferenceModel cannot be written ({outcome.retry.message}): see"
            " whether what the message names works, it is tried again by itself."
        )
        verdict = Verdict(ConditionType.PROGRESSING, Reason.APPLY_REFUSED, message)
        return replace(outcome, verdict=verdict)

    def forget(self, key: Key) -> None:
        """The model's last pass has written everything, or the model is gone."""
        self._of.pop(key, None)
