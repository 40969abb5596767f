"""How the tier stands, in a reason and a sentence."""

from kindling_runtime.contract import CacheReason, CacheStatus
from kindling_runtime.kv.bucket import Trouble
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.policy.breaker import BreakerState


def broken(reason: CacheReason, why: str) -> CacheStatus:
    """Of a tier that does not run."""
    return CacheStatus(ready=False, reason=reason, message=why)


def standing(desk: Desk) -> CacheStatus:
    """Of a tier that runs."""
    reason, message = _reason(desk)
    counts = desk.counts
    return CacheStatus(
        ready=reason is CacheReason.IN_USE,
        reason=reason,
        message=message,
        prompt_tokens=counts.prompt_tokens,
        hit_tokens=counts.hit_tokens,
        loaded_bytes=counts.loaded_bytes,
        stored_bytes=counts.stored_bytes,
        pays_from=desk.worth.threshold(),
    )


def _reason(desk: Desk) -> tuple[CacheReason, str]:
    bucket, uri = desk.bucket, desk.settings.uri
    if bucket.breaker.state(desk.clock()) is not BreakerState.CLOSED or not bucket.heard:
        return _silence(desk)
    worth = desk.worth
    if worth.threshold() is None:
        found = worth.estimate(10_000, int(10_000 * (worth.density or 0)))
        times = (found.load or 0.0) / (found.recompute or 1.0)
        return CacheReason.DOES_NOT_PAY, (
            f"loading from {uri} takes {times:.1f} times as long as computing again, so nearly "
            "nothing is loaded"
        )
    return CacheReason.IN_USE, f"{uri} is in use"


def _silence(desk: Desk) -> tuple[CacheReason, str]:
    bucket, uri = desk.bucket, desk.settings.uri
    trouble, why = bucket.trouble, bucket.breaker.why or bucket.said
    if trouble is None:
        return CacheReason.UNPROVEN, f"{uri} has not answered yet"
    if trouble is Trouble.REFUSED:
        return CacheReason.REFUSED, f"{uri} refuses the pod's identity ({why})"
    if not bucket.heard:
        return CacheReason.UNREACHABLE, f"{uri} does not answer ({why})"
    return CacheReason.BREAKER_OPEN, (
        f"{uri} is left out after {bucket.breaker.failures} failures in a row ({why}); it is tried "
        f"again at least every {bucket.breaker.longest:g} s"
    )
