"""Read what the runtimes of serving pods say of themselves.

A pod that does not answer in time says nothing, and holds up nobody.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import aiohttp
import msgspec

from kindling_operator.model.quantities import format_bytes
from kindling_operator.model.reports import Report
from kindling_runtime.contract import STATUS_PATH, Phase, PluginState, Reason, last_words

READ_SECONDS: Final = 3.0
"""For one pod: an answer from inside the cluster takes milliseconds."""
LARGEST_BYTES: Final = 65_536
"""A status is about 2 KB."""
AT_ONCE: Final = 32
"""Pods that are read at the same time."""
_LONGEST: Final = 200
_LONGEST_TROUBLE: Final = 600


class _Named(msgspec.Struct):
    group: str
    backend: str


class _Used(msgspec.Struct):
    item: str
    bytes: int


class _Facts(msgspec.Struct, rename="camel"):
    kv_blocks: int | None = None
    kv_tokens: int | None = None
    cache_dtype: str | None = None
    attention_backends: tuple[_Named, ...] = ()
    memory: tuple[_Used, ...] = ()


class _Plugin(msgspec.Struct):
    name: str
    state: str
    why: str = ""


class _Engine(msgspec.Struct, rename="camel"):
    read_bytes: int | None = None


class _Evidence(msgspec.Struct, rename="camel"):
    misses: int = 0
    last_miss: str | None = None


class _Download(msgspec.Struct, rename="camel"):
    problem: str = ""


class _Told(msgspec.Struct, rename="camel"):
    """The part of a runtime's status that matters here, of this contract's version or another."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    engine: _Engine | None = None
    evidence: _Evidence | None = None
    download: _Download | None = None
    facts: _Facts | None = None
    plugins: tuple[_Plugin, ...] = ()


async def read(urls: Mapping[str, str]) -> dict[str, Report]:
    """The reports of pods by uid, given their runtimes' URLs; who does not answer is left out."""
    timeout = aiohttp.ClientTimeout(total=READ_SECONDS)
    connector = aiohttp.TCPConnector(force_close=True, limit=AT_ONCE)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        found = await asyncio.gather(*(_read(session, url) for url in urls.values()))
    told = zip(urls, found, strict=True)
    return {uid: report for uid, report in told if report is not None}


async def _read(session: aiohttp.ClientSession, url: str) -> Report | None:
    try:
        async with session.get(url + STATUS_PATH, allow_redirects=False) as response:
            if response.status != 200:
                return None
            body = bytearray()
            async for part in response.content.iter_any():
                body += part
                if len(body) > LARGEST_BYTES:
                    return None
    except (TimeoutError, aiohttp.ClientError, OSError):
        return None
    return parse(bytes(body))


def parse(body: bytes) -> Report | None:
    """The report in a status document; None in what is none."""
    try:
        found = msgspec.json.decode(body, type=_Told)
    except msgspec.DecodeError:
        return None
    facts = found.facts or _Facts()
    return Report(
        progress=_progress(found),
        kv_blocks=facts.kv_blocks,
        kv_tokens=facts.kv_tokens,
        cache_dtype=facts.cache_dtype,
        backends=tuple(sorted((each.group, each.backend) for each in facts.attention_backends)),
        memory=tuple(sorted((each.item, each.bytes) for each in facts.memory)),
        off=tuple(
            (each.name, _one_line(each.why))
            for each in found.plugins
            if each.state == PluginState.OFF
        ),
        trouble=_one_line(_trouble(found), longest=_LONGEST_TROUBLE),
    )


def _progress(found: _Told) -> str:
    """How far a start is: what a download says of itself, or what a loading engine has read."""
    if found.phase == Phase.DOWNLOADING:
        return _one_line(found.message)
    read = found.engine.read_bytes if found.engine is not None else None
    return f"has read {format_bytes(read)}" if found.phase == Phase.LOADING and read else ""


def _trouble(found: _Told) -> str:
    """Why a pod does not move although it runs: as it says itself, or as its counts tell."""
    if found.phase in (Phase.STALLED, Phase.FAILED):
        return f"{found.reason}: {found.message}"
    if found.phase == Phase.READY and found.evidence is not None and found.evidence.misses:
        why = found.evidence.last_miss or "it was asked for one"
        return last_words(Reason.NO_TOKEN, f"the engine showed no token: {why}")
    if found.phase == Phase.DOWNLOADING and found.download is not None and found.download.problem:
        return last_words(Reason.STORE_STALLED, found.download.problem)
    return ""


def _one_line(text: str, *, longest: int = _LONGEST) -> str:
    """A pod may say anything: printable, in one line, and not too much."""
    return " ".join("".join(c for c in text if c.isprintable() or c == " ").split())[:longest]
