"""Workers: they take keys from the queue while this process leads, and never die of a pass."""

import asyncio
import logging
import time
from collections.abc import Callable

from kindling_operator.model.names import Key
from kindling_operator.reconcile.loop import Ended, Reconciler, Result
from kindling_operator.reconcile.queue import Queue
from kindling_operator.report.metrics import Metrics

logger = logging.getLogger(__name__)

REFUSED_SECONDS = 30.0
"""A quota, an admission policy or the owner of a name tells nobody when it changes."""
IDLE_SECONDS = 5.0
"""How often a worker without work shows that it is alive."""


async def work(
    queue: Queue[Key],
    reconciler: Reconciler,
    *,
    leading: asyncio.Event,
    metrics: Metrics,
    beat: Callable[[], None],
) -> None:
    """Reconcile one key after the other until the queue is closed."""
    while not queue.closed:
        beat()
        if not await _led(leading):
            continue
        key = await queue.get(within=IDLE_SECONDS)
        if key is None:
            continue
        try:
            result = await reconciler.reconcile(key)
            settle(queue, key, result)
            metrics.reconciles.labels(result.ended.value).inc()
            if result.ended not in {Ended.RETRY, Ended.ERROR}:
                metrics.last_success.set(time.time())
        except Exception:
            # A bug outside of deciding must not stop the others; it is retried and counted.
            logger.exception("the pass over %s failed", key, extra={"key": str(key)})
            queue.retry(key)
            metrics.reconciles.labels("error").inc()
        finally:
            queue.done(key)
            metrics.queue_depth.set(len(queue))


def settle(queue: Queue[Key], key: Key, result: Result) -> None:
    """When the key comes up again, and whether it counts as failed."""
    if result.retry is not None and result.retry.counts:
        queue.retry(key, at_least=result.retry.after)
        return
    if result.retry is not None:
        queue.add_after(key, max(result.retry.after, IDLE_SECONDS))
        return
    if result.ended in {Ended.REFUSED, Ended.ERROR}:
        queue.retry(key, at_least=1.0, at_most=REFUSED_SECONDS)
        return
    if result.ended is not Ended.WAITING:
        queue.forget(key)
    if result.again is not None:
        queue.add_after(key, result.again)


async def _led(leading: asyncio.Event) -> bool:
    """Whether this process leads; waits a while for it."""
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            await leading.wait()
    except TimeoutError:
        return False
    return True
