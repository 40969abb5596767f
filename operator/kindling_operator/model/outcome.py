"""What came of applying a decision: data for the report and for the queue."""

from dataclasses import dataclass

from kindling_operator.model.objects import ObjectRef
from kindling_operator.model.plan import Verdict


@dataclass(frozen=True, slots=True)
class Retry:
    """Something that another try may mend. `after` is the least time in seconds until then.

    `counts` is False where nothing failed: another process may lead now, and does the work.
    """

    reason: str
    message: str
    after: float = 0.0
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """`applied` carries the resource versions that the API server returned.

    `verdict` is for the user: a taken name, an object that the cluster refuses. `retry` is for the
    queue: something is not written yet. Both stand where that has lasted too long.
    """

    applied: tuple[ObjectRef, ...] = ()
    pruned: tuple[ObjectRef, ...] = ()
    unchanged: int = 0
    verdict: Verdict | None = None
    retry: Retry | None = None

    @property
    def writes(self) -> int:
        """Objects that were written or deleted."""
        return len(self.applied) + len(self.pruned)
