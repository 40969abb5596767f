"""The operator with a fault, for tests: `python -m tests.support.faulty_operator`.

TEST_KILL_AT=N ends the process with SIGKILL instead of sending its N-th write (the Lease's do not
count), so that a test can stop it between any two writes. Everything else is the operator's own.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from kindling_operator.kube import client
from kindling_operator.main import main

KILL_AT = "TEST_KILL_AT"
_READS = frozenset({"get", "list", "version"})


def kill_at(number: int) -> None:
    """End the process in place of its `number`-th write."""
    send = client.Kube._call
    writes = 0

    async def counted(
        self: client.Kube,
        verb: str,
        kind: str,
        request: Callable[[dict[str, Any]], Awaitable[Any]],
        what: str = "",
    ) -> client.Body:
        nonlocal writes
        if verb not in _READS and kind != "Lease":
            writes += 1
            if writes == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return await send(self, verb, kind, request, what)

    client.Kube._call = counted  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    kill_at(int(os.environ[KILL_AT]))
    sys.exit(main())
