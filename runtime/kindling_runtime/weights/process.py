"""`kindling-runtime fetch` as a process: its `/status`, its last words, its exit status."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from pathlib import Path
from typing import Final

from aiohttp import web

from kindling_runtime import clock, foreign, http, preflight, termination
from kindling_runtime.contract import (
    BIND_HOST,
    CONTRACT_VERSION,
    POD_VARIABLE,
    STATUS_PATH,
    Download,
    EngineStatus,
    Evidence,
    ExitCode,
    LaunchPlan,
    Phase,
    Reason,
    Status,
)
from kindling_runtime.weights import heap, volume
from kindling_runtime.weights.board import Board
from kindling_runtime.weights.errors import FetchError
from kindling_runtime.weights.fetch import Fetcher

_log = logging.getLogger(__name__)

_LOG_SECONDS: Final = 10.0
_TELL_SECONDS: Final = 1.0
_EXIT_CODES: Final = {
    Reason.WEIGHTS_READY: ExitCode.CLEAN,
    Reason.RUNTIME_FAILED: ExitCode.ENGINE,
}


def fetch(
    plan: LaunchPlan,
    *,
    version: str,
    termination_log: Path,
    lease_seconds: float,
    thoroughly: bool,
) -> ExitCode:
    """Bring the plan's weights; returns the exit status."""
    if plan.weights.fetch is None:
        _log.info("the launch plan has nothing to fetch")
        return ExitCode.CLEAN
    heap.share_one_arena()
    board = Board()
    fetcher = Fetcher(
        plan.weights,
        plan.weights.fetch,
        owner=os.environ.get(POD_VARIABLE) or socket.gethostname(),
        board=board,
        lease_seconds=lease_seconds,
        thoroughly=thoroughly,
    )
    for library in ("httpx", "httpx2", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # Not asyncio.run: at its end it would wait for threads, which a dead volume never gives back.
    loop = asyncio.new_event_loop()
    try:
        ended = loop.run_until_complete(_run(fetcher, plan, board, version=version))
    except asyncio.CancelledError:
        ended = None
    reason, sentence = ended or (
        Reason.TERMINATION_REQUESTED,
        "told to leave while weights were fetched; what has come is kept for the next attempt",
    )
    _log.info("%s: %s", reason, foreign.printable(sentence))
    termination.write(termination_log, reason, sentence)
    return _EXIT_CODES.get(reason, ExitCode.PREFLIGHT)


async def _run(
    fetcher: Fetcher, plan: LaunchPlan, board: Board, *, version: str
) -> tuple[Reason, str]:
    """The fetch with everything around it; the reason and sentence of its end."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, this.cancel)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    app = web.Application()

    async def show(_: web.Request) -> web.Response:
        return http.document(status(plan, board, version=version))

    app.router.add_get(STATUS_PATH, show)
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(
                http.serving(app, host=BIND_HOST, port=plan.runtime_port)
            )
        except OSError as error:
            problem = preflight.port_taken(plan.runtime_port, error, owner="runtime")
            return Reason.PREFLIGHT_FAILED, problem
        telling = asyncio.create_task(_tell(board))
        try:
            failed = await _outcome(fetcher, plan)
        finally:
            telling.cancel()
    return failed or (Reason.WEIGHTS_READY, board.message)


async def _outcome(fetcher: Fetcher, plan: LaunchPlan) -> tuple[Reason, str] | None:
    """Why the fetch has failed; None if it has not."""
    try:
        await fetcher.run()
    except FetchError as error:
        return error.reason, str(error)
    except OSError as error:
        if error.errno in volume.FULL and plan.weights.fetch is not None:
            told = volume.full(Path(plan.weights.fetch.volume), error)
            return told.reason, str(told)
        return Reason.WEIGHTS_INCOMPLETE, (
            f"{error.filename or plan.weights.uri} cannot be used ({error.strerror}); see the "
            "volume of spec.model.weights.cacheClaim"
        )
    except Exception as error:
        _log.exception("the fetch itself failed")
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return Reason.RUNTIME_FAILED, f"the fetch itself failed with {what}; report its log"
    return None


async def _tell(board: Board) -> None:
    """Keep the lease's words fresh, and the log going while bytes come."""
    logged = time.monotonic()
    while True:
        await asyncio.sleep(_TELL_SECONDS)
        if board.reason is Reason.DOWNLOADING:
            board.tell()
        if board.phase is Phase.DOWNLOADING and time.monotonic() - logged >= _LOG_SECONDS:
            logged = time.monotonic()
            _log.info(board.message)


def status(plan: LaunchPlan, board: Board, *, version: str) -> Status:
    """The status document of this moment, in the shape that a serving pod's has."""
    return Status(
        contract_version=CONTRACT_VERSION,
        runtime_version=version,
        phase=board.phase,
        since=clock.rfc3339(board.since),
        deadline=None,
        reason=board.reason,
        message=board.message,
        ready=False,
        alive=True,
        model=plan.model,
        engine=EngineStatus(pid=None, started_at=None),
        evidence=Evidence(
            first_token_seconds=None,
            last_token_at=None,
            source=None,
            canaries=0,
            misses=0,
            last_miss=None,
        ),
        drain=None,
        expected=plan.expected,
        download=_download(board),
    )


def _download(board: Board) -> Download | None:
    """The bytes: this pod's own, or those of the one that it waits for."""
    now, meter = time.monotonic(), board.meter
    if meter is None:
        teller = board.teller
        if not teller.total and not board.problem:
            return None
        return Download(bytes=teller.done, total=teller.total, problem=board.problem)
    rate, left = meter.rate(now), meter.seconds_left(now)
    return Download(
        bytes=meter.done,
        total=meter.total,
        fetched=meter.fetched,
        bytes_per_second=None if rate is None else round(rate),
        seconds_left=None if left is None else round(left),
        problem=board.problem,
    )
