"""Work that may never end, beside the event loop."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def aside(work: Callable[[], _Result]) -> _Result:
    """`work()` in a thread that the process does not wait for: a dead volume never returns, nor
    does a lookup of a name in time."""
    result: concurrent.futures.Future[_Result] = concurrent.futures.Future()

    def body() -> None:
        result.set_running_or_notify_cancel()  # from here on the waiter's timeout cannot touch it
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=body, daemon=True).start()
    return await asyncio.wrap_future(result)
