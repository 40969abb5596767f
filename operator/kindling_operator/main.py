"""The process from its first line to its exit code."""

import asyncio
import logging
import signal
import sys
from collections.abc import Iterable
from typing import Any, Final

import kopf
from kubernetes.aio.config import ConfigException

from kindling_operator import handlers
from kindling_operator.kube.client import Kube
from kindling_operator.kube.credentials import configuration
from kindling_operator.kube.errors import KubeError, NotFoundError
from kindling_operator.kube.fence import Fence
from kindling_operator.kube.kinds import LEASE, NODE
from kindling_operator.model.names import Kind
from kindling_operator.observe.watched import MODELS, WATCHED
from kindling_operator.plan import plan
from kindling_operator.plan.placement import placements
from kindling_operator.reconcile.process import KINDS_TASK, Process
from kindling_operator.render import render
from kindling_operator.report.metrics import Metrics
from kindling_operator.settings import Settings, SettingsError, configure_kopf

logger = logging.getLogger(__name__)

EXIT_CLEAN: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 64
"""EX_USAGE of sysexits.h: a setting is wrong, and starting again will not help."""


class StartError(Exception):
    """The cluster is not ready for the operator; the text is one sentence."""


def main() -> int:
    """Run until a signal; the exit code."""
    try:
        settings = Settings.from_environment()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    _configure_logging(settings)
    try:
        return asyncio.run(_run(settings))
    except (StartError, ConfigException) as error:
        logger.error("%s", error)
        return EXIT_FAILED


async def _run(settings: Settings) -> int:
    metrics = Metrics()
    fence = Fence(lease_seconds=settings.lease_duration, renew_seconds=settings.renew_deadline)
    async with (
        Kube(await configuration(), fence=fence, counted=metrics.count_request) as kube,
        Kube(
            await configuration(),
            counted=metrics.count_request,
            call_seconds=settings.renew_deadline / 2,
        ) as lease_kube,
    ):
        minor, absent = await _check_access(kube, settings)
        metrics.serve(settings.metrics_port)
        process = Process(
            settings.tuning(),
            settings.installation(),
            metrics,
            kube=kube,
            lease_kube=lease_kube,
            fence=fence,
            plan=plan,
            sweep=lambda snapshot, fleet: placements(snapshot, fleet=fleet),
            render=render,
        )
        return await _supervise(process, settings, minor, absent)


async def _supervise(
    process: Process, settings: Settings, minor: int, absent: frozenset[Kind]
) -> int:
    """Run kopf and our tasks side by side; the first that ends, ends all, in order."""
    stop, asked, ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
    tasks = process.start()
    watching = asyncio.create_task(
        _watch(process, settings, minor, absent=absent, stop=stop, ready=ready), name="kopf"
    )
    # kopf installs its own handlers while it starts; ours must come after.
    signals = asyncio.create_task(_take_signals(asked, ready))
    ended = [*tasks, watching, asyncio.create_task(asked.wait())]
    await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in (*tasks, watching) if _failed(task)]
    for task in failed:
        error = None if task.cancelled() else task.exception()
        logger.error("%s has ended: the process ends too", task.get_name(), exc_info=error)
    await process.stop()
    stop.set()
    signals.cancel()
    await asyncio.wait([watching], timeout=30)
    logger.info("ended", extra={"clean": not failed})
    return EXIT_FAILED if failed else EXIT_CLEAN


def _failed(task: asyncio.Task[None]) -> bool:
    """Whether a task ended although nobody asked.

    kopf ends by itself on an early signal, the watch of kinds when the cluster has others now.
    """
    if not task.done():
        return False
    may_end = task.get_name() in {"kopf", KINDS_TASK}
    return not may_end or task.cancelled() or task.exception() is not None


async def _watch(
    process: Process,
    settings: Settings,
    minor: int,
    *,
    absent: frozenset[Kind],
    stop: asyncio.Event,
    ready: asyncio.Event,
) -> None:
    knobs = kopf.OperatorSettings()
    configure_kopf(knobs, settings, server_minor=minor)
    health = f"http://0.0.0.0:{settings.health_port}/healthz" if settings.health_port else None
    # Without one, kopf asks the system for the user's name, and a container's user has none.
    identity: Any = settings.pod_name
    await kopf.operator(
        registry=handlers.register(process, login=_login, absent=absent),
        settings=knobs,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        liveness_endpoint=health,
        identity=identity,
        stop_flag=stop,
        ready_flag=ready,
    )


async def _take_signals(asked: asyncio.Event, ready: asyncio.Event) -> None:
    await ready.wait()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)


def _login(**kwargs: Any) -> Any:
    """kopf's own credentials: an explicit KUBECONFIG, else the service account's present token."""
    return kopf.login_with_kubeconfig(**kwargs) or kopf.login_with_service_account(**kwargs)


async def _check_access(kube: Kube, settings: Settings) -> tuple[int, frozenset[Kind]]:
    """Ask for one object of each watched kind: kopf would wait for ever for a kind it cannot list.

    Returns the API server's minor version and the optional kinds that it lacks; raises StartError
    that names what else is missing.
    """
    namespaces: Iterable[str] = settings.namespaces or ("",)
    absent: set[Kind] = set()
    try:
        minor = await kube.server_minor()
        for namespace in namespaces:
            for watched in WATCHED:
                if not watched.optional:
                    await _ask(kube, watched.kind, namespace)
                elif not await kube.serves(watched.kind, namespace):
                    absent.add(watched.kind)
            await _ask(kube, LEASE, namespace, selector=settings.lease_selector)
        await _ask(kube, NODE)
    except NotFoundError as error:
        raise StartError(
            f"the cluster has no {MODELS.kind.plural}.{MODELS.kind.group} ({error}): install the"
            " CRD that comes with the chart"
        ) from error
    except KubeError as error:
        raise StartError(f"the cluster cannot be watched: {error}") from error
    for kind in absent:
        logger.info("the cluster has no %s.%s, which some models need", kind.plural, kind.group)
    return minor, frozenset(absent)


async def _ask(kube: Kube, kind: Kind, namespace: str = "", *, selector: str = "") -> None:
    async for _ in kube.list(kind, namespace=namespace, fields=selector, limit=1):
        return


def _configure_logging(settings: Settings) -> None:
    kopf.configure(log_format=kopf.LogFormat.JSON, log_refkey="object")
    logging.getLogger().setLevel(settings.log_level)
    # One line per handler call and per probe is noise.
    for name in ("kopf.objects", "kopf.activities", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
