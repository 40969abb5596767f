"""The duty of process 1: every child is waited for, also those it never started.

vLLM's engine processes outlive a parent that dies and are then inherited by process 1. Waiting for
any child would take the engine's own exit status from whoever else waits for it, so this is the
only place that waits: the engine's status is handed to the one that expects it.
"""

import asyncio
import ctypes
import os
import signal

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def _become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class Reaper:
    """Waits for every child of this process, from SIGCHLD on the running event loop."""

    def __init__(self) -> None:
        self.orphans = 0
        """Inherited children that were waited for."""
        self._expected: dict[int, asyncio.Future[int]] = {}

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reap on `loop` from now on. Children must be started from the loop's own thread.

        Orphans of our descendants are inherited even where we are not process 1.
        """
        _become_subreaper()
        loop.add_signal_handler(signal.SIGCHLD, self.collect)

    def expect(self, pid: int) -> asyncio.Future[int]:
        """The exit status of child `pid`, negative for a signal.

        Call it in the same step of the loop that started the child, before a signal can be
        handled.
        """
        future = asyncio.get_running_loop().create_future()
        self._expected[pid] = future
        return future

    def collect(self) -> None:
        """Wait for every child that has ended; one signal may stand for many of them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            future = self._expected.pop(pid, None)
            if future is None:
                self.orphans += 1
            elif not future.done():
                future.set_result(os.waitstatus_to_exitcode(status))
