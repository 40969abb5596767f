"""A pod among the others of its group: waiting for them, and noticing when one is lost."""

import asyncio
import contextlib
import dataclasses
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

import aiohttp
import msgspec
from aiohttp import web

from kindling_runtime import clock, http, replies, wire
from kindling_runtime.aside import aside
from kindling_runtime.contract import BIND_HOST, EvidenceSource, Probe
from kindling_runtime.groupload import Done
from kindling_runtime.membership import Member
from kindling_runtime.peers import Peers
from kindling_runtime.roster import GROUP_PATH, Answer, Beat, Roster
from kindling_runtime.state import Event, GroupBroken, Idle, Miss, Signal, Token, Worked

_BEAT_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_LONGEST_ANSWER = 4096
_GONE_BEATS = 3
"""So many questions without an answer mean that a leader which was about to leave has left."""

Happened = Callable[[Event], None]
_Result = TypeVar("_Result")


class Seat(Protocol):
    """What a pod does in its group, leader or not."""

    @property
    def met(self) -> bool:
        """Whether the group was complete once."""

    @property
    def strangers(self) -> int:
        """How often somebody else has spoken for a pod of the group."""

    def open(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Be there for the others while the context lasts; raises OSError if the port is taken."""

    async def gather(self, happened: Happened) -> str:
        """Wait until all pods are there; returns the leader's address."""

    async def watch(self, happened: Happened) -> None:
        """Tell of the others until cancelled."""

    def loads(self, event: Event, happened: Happened) -> None:
        """Take what the pod's own engine does while it loads, and tell what follows."""

    def served(self) -> None:
        """The pod's own load is over: there was a token."""


def seat_of(member: Member, limits: Probe) -> Seat:
    """The pod's own."""
    return (Leader if member.leads else Follower)(member, limits)


def _counted(done: Done, event: Worked) -> Done:
    return dataclasses.replace(
        done, worked=(done.worked or 0) + 1, moved=done.moved + int(event.moved)
    )


class Leader:
    """Hears the others."""

    def __init__(self, member: Member, limits: Probe) -> None:
        self._member = member
        self._size = len(member.group.ranks)
        self.roster = Roster(self._size, silence_seconds=limits.wedged_seconds)
        """What the others have told."""
        self._stuck_seconds = limits.stuck_seconds
        self._done = Done(worked=0)
        self._awake = clock.Awake()
        self._peers = Peers(member.leader, self._size, clock=self._awake.now)

    @property
    def met(self) -> bool:
        """As in Seat."""
        return self.roster.met

    @property
    def strangers(self) -> int:
        """As in Seat."""
        return self._peers.strangers

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """As in Seat."""
        app = web.Application()
        app.router.add_post(GROUP_PATH, self._answer)
        async with http.serving(app, host=BIND_HOST, port=self._member.group.port):
            yield

    async def gather(self, happened: Happened) -> str:
        """As in Seat."""
        address = ""
        while (missing := self.roster.missing(now=self._awake.now())) or not address:
            if missing:
                here = self._size - len(missing)
                doubts = self._peers.doubts(missing)
                happened(Miss(f"{here} of {self._size} pods are there and wait{doubts}"))
                await asyncio.sleep(_BEAT_SECONDS)
            else:
                # DNS takes its time, in which one of them may have gone.
                address = await _resolved(self._member.leader, happened)
        self.roster.meet()
        self.roster.load.hear(self._member.rank, self._done, now=self._awake.now())
        return address

    def loads(self, event: Event, happened: Happened) -> None:
        """As in Seat; a load stands still when that of each pod does."""
        now = self._awake.now()
        if isinstance(event, Worked):
            self._done = _counted(self._done, event)
            self.roster.load.hear(self._member.rank, self._done, now=now)
            happened(event)
            return
        stuck = self.roster.load.stuck(self._size, now=now, seconds=self._stuck_seconds)
        if stuck is not None:
            pod, seconds = stuck
            happened(Idle(round(seconds), pod))

    def served(self) -> None:
        """As in Seat."""
        self.roster.started = True

    async def watch(self, happened: Happened) -> None:
        """As in Seat."""
        moved = 0
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            if self.roster.load.moved != moved:
                moved = self.roster.load.moved
                happened(Worked(moved=True))
            broken = self.roster.broken(now=self._awake.now())
            if broken is not None:
                happened(GroupBroken(broken))
                return

    async def _answer(self, request: web.Request) -> web.Response:
        beat = wire.decoded(await request.read(), Beat)
        if beat is None:
            return web.Response(status=400, text="this is no word of a group's pod\n")
        if self._peers.believes(beat.rank, beat.incarnation, request.remote or ""):
            answer = self.roster.hear(beat, now=self._awake.now())
        else:
            answer = self.roster.answer(beat)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


class Follower:
    """Asks the leader."""

    def __init__(self, member: Member, limits: Probe) -> None:
        self._member = member
        self._silence = limits.wedged_seconds
        self._done = Done()
        self._leader_started = False
        self._moved = 0
        self._incarnation = uuid.uuid4().hex
        self._session: aiohttp.ClientSession | None = None
        self._address = ""
        self.met = False
        """As in Seat."""
        self.strangers = 0
        """As in Seat; nobody speaks to it. It believes its leader, whose name it asks for."""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """As in Seat."""
        timeout = replies.within(_ANSWER_SECONDS)
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as self._session:
            yield

    async def gather(self, happened: Happened) -> str:
        """As in Seat."""
        while True:
            # A leader that was made again has another address; one that was met keeps it, and its
            # name may be gone long before its last stream has ended.
            self._address = await _resolved(self._member.leader, happened)
            answer = await self._ask(waiting=True)
            if isinstance(answer, Answer) and answer.met:
                self.met = True
                return self._address
            happened(Miss(answer if isinstance(answer, str) else "the leader waits for others"))
            await asyncio.sleep(_BEAT_SECONDS)

    def loads(self, event: Event, happened: Happened) -> None:
        """As in Seat; while the leader loads as well, it judges."""
        if isinstance(event, Worked):
            self._done = _counted(self._done, event)
            happened(event)
        elif self._leader_started:
            happened(event)

    def served(self) -> None:
        """As in Seat."""
        self._done = dataclasses.replace(self._done, loaded=True)

    async def watch(self, happened: Happened) -> None:
        """As in Seat."""
        self._done = dataclasses.replace(self._done, worked=self._done.worked or 0)
        awake, missed = clock.Awake(), 0
        heard = awake.now()
        while True:
            answer = await self._ask(waiting=False)
            if isinstance(answer, Answer) and answer.met:
                heard, missed = awake.now(), 0
                self.hear(answer, happened)
            elif isinstance(answer, Answer):
                happened(Signal.LEADER_GONE)
                happened(GroupBroken("the leader of the group has started again"))
            else:
                missed += 1
                self._judge(happened, Miss(answer))
                if missed >= _GONE_BEATS:
                    happened(Signal.LEADER_GONE)
                silence = awake.now() - heard
                if silence > self._silence:
                    lost = (
                        f"the leader of the group has not answered for {silence:.0f} s ({answer})"
                    )
                    happened(GroupBroken(lost))
            await asyncio.sleep(_BEAT_SECONDS)

    def hear(self, answer: Answer, happened: Happened) -> None:
        """Take what a leader says that has met this pod."""
        self._leader_started = answer.started
        if answer.moved != self._moved:
            self._moved = answer.moved
            happened(Worked(moved=True))
        if answer.started:
            self._judge(happened, Token(EvidenceSource.LEADER))

    def _judge(self, happened: Happened, event: Event) -> None:
        """Of an engine that answers requests itself, its own tokens tell."""
        if not self._member.serves:
            happened(event)

    async def _ask(self, *, waiting: bool) -> Answer | str:
        """The leader's answer, or why there is none."""
        assert self._session is not None, "the seat is open"
        beat = Beat(
            rank=self._member.rank,
            incarnation=self._incarnation,
            waiting=waiting,
            worked=self._done.worked,
            moved=self._done.moved,
            loaded=self._done.loaded,
        )
        host = f"[{self._address}]" if ":" in self._address else self._address
        url = f"http://{host}:{self._member.group.port}{GROUP_PATH}"
        try:
            async with self._session.post(url, data=msgspec.json.encode(beat)) as response:
                text = await replies.text_of(response, most=_LONGEST_ANSWER)
            answer = wire.decoded(text.encode(), Answer)
            return answer or f"what listens on {self._member.leader} is no leader of a group"
        except TimeoutError:
            return f"the leader did not answer within {_ANSWER_SECONDS:.0f} s"
        except (aiohttp.ClientError, OSError):
            return f"the leader's runtime on {self._member.leader} does not accept connections"
        except replies.TooLongError:
            return f"what listens on {self._member.leader} is no leader of a group"


async def _resolved(host: str, happened: Happened) -> str:
    """The address of a name that may not be known yet, IPv4 first.

    Engines get an address: ZeroMQ binds to none but a number. The question is asked in a thread
    that nobody waits for at the end: without an answer the C library keeps it for half a minute.
    """
    while True:
        question = asyncio.ensure_future(aside(lambda: _addresses(host)))
        try:
            found = await _answered(question, host, happened)
        except (OSError, UnicodeError) as error:
            trouble = getattr(error, "strerror", None) or str(error)
            happened(Miss(f"the leader's name {host} is not known yet ({trouble})"))
            await asyncio.sleep(_BEAT_SECONDS)
            continue
        return min(found)[1]


def _addresses(host: str) -> list[tuple[bool, str]]:
    """Each with whether it is no IPv4 address; raises OSError, UnicodeError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [(each[0] is not socket.AF_INET, str(each[4][0])) for each in found]


async def _answered(question: asyncio.Future[_Result], host: str, happened: Happened) -> _Result:
    """The answer, however long it takes; meanwhile what is waited for is told."""
    begun = time.monotonic()
    while not (await asyncio.wait({question}, timeout=_ANSWER_SECONDS))[0]:
        silence = f"DNS has not answered for {time.monotonic() - begun:.0f} s"
        happened(Miss(f"the leader's name {host} is not known yet ({silence})"))
    return question.result()
