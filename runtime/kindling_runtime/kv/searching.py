"""Looking for a prompt in the store."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kindling_runtime.kv.bucket import StoreError
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.policy.search import Chain, Question, Search, Source

MOST_USED: Final = 262_144
"""Objects that are told as used at once, 2 MiB."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A prompt that is looked for; the engine has its first `have` tokens already."""

    request: str
    chains: tuple[Chain, ...]
    have: int
    begun: float


@dataclass(frozen=True, slots=True)
class Found:
    """Where its chunks are, by key; nothing where loading does not pay."""

    request: str
    sources: Mapping[bytes, Source]


async def search(desk: Desk, sought: Sought) -> Found:
    """All questions, until the answer is known or time is up: then nothing was found."""
    counts = desk.counts
    deadline = sought.begun + desk.settings.deadlines.search
    looked = Search(sought.chains, desk.layout.slots, desk.presence.count)
    counts.prompts += 1
    counts.prompt_tokens += _tokens(sought.chains)
    sources: Mapping[bytes, Source] = {}
    try:
        while asked := looked.round():
            answers = await asyncio.gather(*(_answer(desk, each, deadline) for each in asked))
            for question, count in zip(asked, answers, strict=True):
                looked.answer(question, count)
        sources = looked.sources()
    except (StoreError, TimeoutError):
        counts.late_searches += desk.clock() >= deadline
    counts.search_seconds.append(desk.clock() - sought.begun)
    new = looked.tokens - sought.have
    if not sources or new <= 0:
        return Found(sought.request, {})
    if not desk.worth.pays(new, _bytes(desk, sought, sources)):
        counts.unpaid += 1
        return Found(sought.request, {})
    _note_use(desk, sources)
    counts.hit_prompts += 1
    counts.hit_tokens += new
    return Found(sought.request, sources)


def _note_use(desk: Desk, sources: Mapping[bytes, Source]) -> None:
    """Also of what is not loaded since the engine has it: its use is the same."""
    if len(desk.used) < MOST_USED:
        desk.used |= {source.anchor for source in sources.values()}


async def _answer(desk: Desk, question: Question, deadline: float) -> int | None:
    async with desk.turn(desk.questions, deadline):
        return await desk.size(question.key, deadline)


def _bytes(desk: Desk, sought: Sought, sources: Mapping[bytes, Source]) -> int:
    """That would be read: of the groups without a window all that is new, of others a window."""
    chunks = 0
    for chain in sought.chains:
        there = sum(key in sources for key in chain.keys[sought.have // chain.tokens :])
        chunks += there if chain.window is None else min(there, chain.window)
    return chunks * desk.layout.chunk


def _tokens(chains: Sequence[Chain]) -> int:
    return max((len(chain.keys) * chain.tokens for chain in chains), default=0)
