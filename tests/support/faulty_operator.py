"""The operator with a fault, for tests: `python -m tests.support.faulty_operator`.

TEST_KILL_AT=N ends the process with SIGKILL instead of sending its N-th write, TEST_FREEZE_AT=N
stops it with SIGSTOP just before it, so that a test can interrupt it between any two writes. The
Lease's do not count. Everything else is the operator's own.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kindling_operator.kube import client
from kindling_operator.main import main

KILL_AT: Final = "TEST_KILL_AT"
FREEZE_AT: Final = "TEST_FREEZE_AT"

_SIGNALS: Final = {KILL_AT: signal.SIGKILL, FREEZE_AT: signal.SIGSTOP}
_READS: Final = frozenset({"get", "list", "version"})


def interrupt(faults: dict[int, signal.Signals]) -> None:
    """Send the process a signal in place of, or before, its n-th write."""
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
            if writes in faults:
                os.kill(os.getpid(), faults[writes])
        return await send(self, verb, kind, request, what)

    client.Kube._call = counted  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    interrupt(
        {int(os.environ[name]): number for name, number in _SIGNALS.items() if name in os.environ}
    )
    sys.exit(main())
