"""When a model must be looked at again although nothing happens. Pure."""

from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Snapshot


def seconds_to_deadline(snapshot: Snapshot, decision: Decision) -> float | None:
    """Seconds until the decision changes by time alone, such as by a progress deadline.

    None if no deadline runs, or if it has passed: then the decision has taken it into account.
    """
    if decision.look_again is None:
        return None
    seconds = (decision.look_again - snapshot.now).total_seconds()
    return seconds if seconds > 0 else None
