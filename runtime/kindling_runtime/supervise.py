"""One engine, from the checks before its start to the exit of the pod.

The supervisor is the hands of `lifecycle`: it tells the state machine what happened, and does to
the engine what the new state orders. It decides nothing itself.
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kindling_runtime import clock, http, leftovers, preflight
from kindling_runtime.aside import aside
from kindling_runtime.contract import (
    BIND_HOST,
    EvidenceSource,
    GroupStatus,
    LaunchPlan,
    Phase,
)
from kindling_runtime.engine import Engine
from kindling_runtime.facts import Facts
from kindling_runtime.group import seat_of
from kindling_runtime.kv import telling as caching
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.loading import LoadWatch
from kindling_runtime.membership import Member
from kindling_runtime.plugins import record, registry, telling
from kindling_runtime.probe import Prober
from kindling_runtime.reaper import Reaper
from kindling_runtime.requests import RequestWatch
from kindling_runtime.state import (
    EngineStarted,
    EngineState,
    Event,
    Order,
    Paused,
    PreflightFailed,
    Signal,
    State,
    Token,
)
from kindling_runtime.watch import TokenWatch

_log = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_PREFLIGHT_SECONDS = 120
"""A volume that does not answer in this time will not serve weights either."""

_DEVELOPMENT = "VLLM_SERVER_DEV_MODE"
"""Of vLLM (vllm/envs.py): serves /sleep, /collective_rpc and others without authentication."""


class Supervisor:
    """Runs one plan once."""

    def __init__(
        self,
        plan: LaunchPlan,
        *,
        version: str,
        started: float,
        shared_memory: Path,
        changed: Callable[[State, str], None],
        member: Member | None = None,
    ) -> None:
        """`started` is when the process began (monotonic); `changed` hears of each new state,
        and of one that refuses what each check has said.

        `member` is the pod's place in its group, None where it is a replica of its own.
        """
        self._plan = plan
        self._member = member
        self._seat = None if member is None else seat_of(member, plan.probe)
        self._version = version
        self._started = started
        self._shared_memory = shared_memory
        self._tell = changed
        self._lifecycle = _lifecycle(plan, member, started)
        self._state = self._lifecycle.begin()
        self._moved = asyncio.Event()
        self._start_over = asyncio.Event()
        self._awake = clock.Awake()
        self._reaper = Reaper()
        self._engine: Engine | None = None
        self._watch: TokenWatch | None = None
        self._load: LoadWatch | None = None
        self._watching: asyncio.Task[None] | None = None
        self._guarding: list[asyncio.Task[None]] = []
        self._leftover_bytes = 0
        self._preflight = preflight.Preflight(plan)
        self._requests = RequestWatch(plan.front, port=plan.engine.port)

    async def run(self) -> State:
        """Serve until the engine is gone; returns the last state."""
        # 1. Be heard and hear: signals first, so that none is lost, then the endpoints.
        self._listen_to_signals()
        app = http.application(
            self._plan,
            self.facts,
            state=lambda: self._state,
            start_over=self._start_over.wait,
        )
        async with contextlib.AsyncExitStack() as stack:
            try:
                port, owner = self._plan.runtime_port, "runtime"
                await stack.enter_async_context(http.serving(app, host=BIND_HOST, port=port))
                if self._member is not None and self._seat is not None:
                    port, owner = self._member.group.port, "group"
                    await stack.enter_async_context(self._seat.open())
            except OSError as error:
                self._happened(PreflightFailed(preflight.port_taken(port, error, owner=owner)))
                return self._state
            # 2. Live the engine's life while time passes.
            try:
                async with asyncio.TaskGroup() as tasks:
                    life = tasks.create_task(self._live(tasks))
                    await self._let_time_pass()
                    for task in (life, *self._guarding):
                        task.cancel()
            finally:
                # 3. Whatever happened, leave nothing running.
                if self._engine is not None:
                    self._engine.kill()
                self._requests.close()
        return self._state

    def facts(self) -> Facts:
        """What can be told at this moment."""
        state, engine = self._state, self._engine
        return Facts(
            version=self._version,
            state=state,
            deadline=self._lifecycle.deadline(state),
            engine_pid=None if engine is None else engine.pid,
            engine_started=None if engine is None else engine.started,
            engine_launch_seconds=None if engine is None else engine.started - self._started,
            first_token_seconds=None
            if state.first_token is None or state.source is EvidenceSource.LEADER
            else state.first_token - self._started,
            canaries=0 if self._watch is None else self._watch.canaries,
            orphans=self._reaper.orphans,
            leftover_bytes=self._leftover_bytes,
            group=None
            if self._member is None or self._seat is None
            else GroupStatus(
                rank=self._member.rank,
                size=len(self._member.group.ranks),
                met=self._seat.met,
                strangers=self._seat.strangers,
            ),
            traffic=self._requests.traffic(gone=state.engine is EngineState.GONE),
            plugins=record.read(self._plugin_folder(), registry.NAMES),
            cache=caching.read(self._plugin_folder()),
            loaded_bytes=None if self._load is None else self._load.work.read,
            engine=telling.read(self._plugin_folder()),
            preflight=self._preflight.results,
        )

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        self._reaper.install(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._happened, Signal.TERMINATE)
        # They were blocked since the process began, and reach the handlers now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})

    async def _live(self, tasks: asyncio.TaskGroup) -> None:
        # 1. Nothing of an earlier engine may take this one's memory, and the pod must be able to
        #    serve at all.
        failed = await self._check_pod()
        if failed is not None:
            self._happened(failed)
        if self._state.phase is not Phase.STARTING:
            return
        # 2. Of a group, all engines start together.
        argv = await self._command()
        # 3. Start the engine. From here to `expect` nothing may be awaited.
        try:
            # Whatever the container says: routes for development let anybody put it to sleep.
            told = {_DEVELOPMENT: "0", record.FOLDER_VARIABLE: str(self._plugin_folder())}
            told |= self._requests.environment
            engine = Engine.launch(argv, {**self._plan.engine.env, **told})
        except OSError as error:
            problem = preflight.command_unusable(self._plan, f"cannot be run ({error.strerror})")
            self._happened(PreflightFailed(problem))
            return
        exited = self._reaper.expect(engine.pid)
        self._engine = engine
        self._happened(EngineStarted(engine.pid))
        # 4. Watch for tokens, and the others of the group, until it ends.
        self._guarding.append(tasks.create_task(self._watch_load(engine)))
        if self._member is None or self._member.serves:
            self._watching = tasks.create_task(self._watch_tokens())
        self._guarding.append(tasks.create_task(self._requests.run(self._happened)))
        if self._seat is not None:
            self._guarding.append(tasks.create_task(self._seat.watch(self._happened)))
        end = await engine.buried(await exited)
        self._happened(dataclasses.replace(end, cut=self._requests.lost()))

    async def _command(self) -> tuple[str, ...]:
        """The engine's whole command; of a group's pod, once all the others are there."""
        if self._member is None or self._seat is None:
            return self._plan.engine.argv
        self._happened(Signal.GATHERING)
        leader = await self._seat.gather(self._happened)
        self._happened(Signal.GATHERED)
        return self._member.engine(self._plan.engine, leader=leader)

    async def _check_pod(self) -> PreflightFailed | None:
        def prepare() -> tuple[int, PreflightFailed | None]:
            record.forget(self._plugin_folder())
            return leftovers.remove(self._shared_memory), self._preflight.first_problem()

        try:
            async with asyncio.timeout(_PREFLIGHT_SECONDS):
                self._leftover_bytes, failed = await aside(prepare)
        except TimeoutError:
            return PreflightFailed(
                f"the checks before the engine's start did not end within {_PREFLIGHT_SECONDS} s; "
                f"see whether the volume of {self._plan.weights.uri} answers"
            )
        if self._leftover_bytes:
            _log.info("removed %d bytes of earlier engines' shared memory", self._leftover_bytes)
        return failed

    def _plugin_folder(self) -> Path:
        environment = {**os.environ, **self._plan.engine.env}
        return record.folder_of(environment, process=str(os.getpid()))

    async def _watch_load(self, engine: Engine) -> None:
        """See whether the engine works, until its load is over."""
        self._load = LoadWatch(engine.pid, stuck_seconds=self._plan.probe.stuck_seconds)
        loading = asyncio.ensure_future(self._load.run(self._loads))
        try:
            await self._start_over.wait()
        finally:
            loading.cancel()

    def _loads(self, event: Event) -> None:
        if self._seat is None:
            self._happened(event)
        else:
            self._seat.loads(event, self._happened)

    async def _watch_tokens(self) -> None:
        limits = self._plan.probe
        prober = Prober(
            port=self._plan.engine.port,
            model=self._plan.model.served_name,
            limits=limits,
            argv=self._plan.engine.argv,
        )
        self._watch = TokenWatch(prober, limits)
        try:
            await self._watch.run(state=lambda: self._state, happened=self._happened)
        finally:
            await prober.close()

    async def _let_time_pass(self) -> None:
        while not self._state.finished:
            self._moved.clear()
            deadline = self._lifecycle.deadline(self._state)
            wait = _BEAT_SECONDS
            if deadline is not None:
                wait = min(wait, deadline - time.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._moved.wait()
            self._happened(Signal.TICK)

    def _happened(self, event: Event) -> None:
        if still := self._awake.stood_still():
            # First: what was missed meanwhile is nobody's fault.
            _log.warning("the runtime stood still for %.0f s", still)
            self._happened(Paused(still))
        before = self._state
        after = self._lifecycle.advance(before, event, now=time.monotonic())
        if after is before:
            return
        self._state = after
        if isinstance(event, Token) and self._engine is not None:
            self._engine.served()
            if self._seat is not None:
                self._seat.served()
        if after.started or after.finished:
            self._start_over.set()
        self._obey(before.order)
        if after.phase is Phase.DRAINING and before.phase is not Phase.DRAINING:
            self._requests.drain()
        if self._watching is not None and after.phase not in _WATCHED:
            # A look that is under way is a request that the drain would wait for.
            self._watching.cancel()
        if (before.phase, before.message) != (after.phase, after.message):
            _log.info("%s %s: %s", after.phase, after.reason, after.message)
            self._tell(after, self._preflight.summary if after.refused else "")
        self._moved.set()

    def _obey(self, before: Order) -> None:
        order = self._state.order
        if self._engine is None or order <= before:
            return
        self._requests.order(order)
        if order < Order.TERMINATE:
            return
        if order is Order.TERMINATE:
            self._engine.terminate()
        else:
            self._engine.kill()


def _lifecycle(plan: LaunchPlan, member: Member | None, started: float) -> Lifecycle:
    return Lifecycle(
        probe=plan.probe,
        drain=plan.drain,
        started=started,
        gather_seconds=0 if member is None else member.group.gather_seconds,
        follows=member is not None and not member.serves,
        front=plan.front,
    )


_WATCHED = frozenset({Phase.LOADING, Phase.READY, Phase.STALLED})
