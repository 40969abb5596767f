"""`python -m tests.bench.large_memory`: what a large cluster costs in memory, as JSON.

A process of its own lists pods of others and nodes with the operator's own client and reflectors
from a stand-in API server in another process, then places every model. The objects of the models
themselves are not listed here: kopf watches those.
"""

import asyncio
import gc
import json
import multiprocessing
import sys
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration
from tests.bench.large_cluster import node_bodies, pod_bodies, snapshot

from kindling_operator import handlers, main
from kindling_operator.kube.client import Kube
from kindling_operator.observe.beside import beside
from kindling_operator.observe.cache import Cache
from kindling_operator.plan import plan
from kindling_operator.plan.placement import placements
from kindling_operator.reconcile.placing import Placing

PODS: Final = 150_000
NODES: Final = 5_000
MODELS: Final = 1_000
USED_WITH: Final = (handlers, main)
"""Imported, as the operator has them in memory too."""


def measured(pods: int, nodes: int, models: int) -> dict[str, float]:
    """MiB of resident memory, now and at most, step by step."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(theirs, pods, nodes), daemon=True
    )
    server.start()
    try:
        port = ours.recv()
        return asyncio.run(_measure(f"http://127.0.0.1:{port}", pods, nodes, models))
    finally:
        server.terminate()


async def _measure(host: str, pods: int, nodes: int, models: int) -> dict[str, float]:
    found = {"imports": _mib("VmRSS")}
    settings = Configuration()
    settings.host = host
    base = snapshot(nodes=0, models=models, specs=models)
    async with Kube(settings) as kube:
        sources = beside(
            kube, nodes_changed=_nothing, pods_changed=_nothing, beat=lambda _: _nothing
        )
        for each in sources.lists[:2]:
            await each()
        cache = Cache(base.environment)
        cache.follow(sources)
        seen = cache.snapshot(now=datetime.now(UTC))
        assert len(seen.nodes) == nodes
        assert len(seen.pods) + sum(use.pods for use in seen.used.values()) == pods
        whole = replace(base, nodes=seen.nodes, pods=seen.pods, used=seen.used)
        gc.collect()
        found["listed"] = _mib("VmRSS")
        placing = Placing(
            plan,
            lambda s, fleet: placements(s, fleet=fleet),
            look=lambda: whole,
            wake=lambda _: None,
        )
        await placing.renew()
        for key in whole.models:
            placing.decide(whole, key)
        await placing.renew()
        gc.collect()
    return {**found, "placed": _mib("VmRSS"), "peak": _mib("VmHWM")}


def _nothing() -> None:
    """Nobody waits."""


def _mib(field: str) -> float:
    status = Path("/proc/self/status").read_text()
    line = next(each for each in status.splitlines() if each.startswith(field))
    return int(line.split()[1]) / 1024


def _serve(port: Connection, pods: int, nodes: int) -> None:
    """Pages of the two kinds, as long as the process lives."""
    asyncio.run(_serving(port, pods, nodes))


async def _serving(port: Connection, pods: int, nodes: int) -> None:
    kinds = {"pods": pod_bodies(pods, nodes=nodes), "nodes": node_bodies(nodes)}

    async def page(request: web.Request) -> web.Response:
        bodies = kinds[request.match_info["kind"]]
        items = [body for _, body in zip(range(int(request.query["limit"])), bodies, strict=False)]
        more = "more" if len(items) == int(request.query["limit"]) else ""
        metadata = {"resourceVersion": "1", "continue": more}
        body = msgspec.json.encode({"metadata": metadata, "items": items})
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/v1/{kind}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port.send(runner.addresses[0][1])
    await asyncio.Event().wait()


if __name__ == "__main__":
    counts = [int(each) for each in sys.argv[1:]] or [PODS, NODES, MODELS]
    print(json.dumps(measured(*counts)))
