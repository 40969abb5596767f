"""What came of applying: data for the report."""

from dataclasses import dataclass

from kindling_operator.kube.errors import KubeError
from kindling_operator.model.objects import ObjectRef
from kindling_operator.model.plan import Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """`applied` carries the resource versions that the API server returned.

    `verdict` is for the user: a taken name, an object that the cluster refuses. `retry` is for the
    queue: something that another try may mend; then the pass ended early and status is not
    computed from it.
    """

    applied: tuple[ObjectRef, ...] = ()
    pruned: tuple[ObjectRef, ...] = ()
    unchanged: int = 0
    verdict: Verdict | None = None
    retry: KubeError | None = None

    @property
    def writes(self) -> int:
        """Objects that were written or deleted."""
        return len(self.applied) + len(self.pruned)
