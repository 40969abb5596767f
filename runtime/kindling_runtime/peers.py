"""Who may speak for a pod of the group: whoever comes from an address that the pod's name has.

LeaderWorkerSet v0.8 names the leader `GROUP` and the others `GROUP-RANK`, below one headless
Service that also has pods which are not ready (pkg/utils/pod/pod_utils.go and
pkg/utils/controller/controller_utils.go). What a name has, the cluster's DNS alone tells; a
connection's address cannot be made up by whoever wants to be answered.

DNS is asked about an incarnation that is new, never about one that was believed: a group that runs
does not need it. While it is slow or away, who is new waits.
"""

import asyncio
import dataclasses
import ipaddress
import logging
import socket
from collections.abc import Callable
from typing import Final

from kindling_runtime.aside import aside
from kindling_runtime.clock import Clock

_FRESH_SECONDS: Final = 5.0
"""For so long an answer of DNS is not asked for again; a pod's record lives as long (CoreDNS)."""
_AGAIN_SECONDS: Final = 1.0
"""Between two questions for a name that nobody answers: pods speak once a second."""
_PATIENCE_SECONDS: Final = 5.0
"""A question that takes longer does not hold up the next one."""
_MOST_QUESTIONS: Final = 3
"""At once, for one name: each is a thread, which the C library holds for as long as it likes."""

_log = logging.getLogger(__name__)

Resolve = Callable[[str], frozenset[str]]
"""The addresses of a name, as `plain` writes them; raises OSError."""


def plain(address: str) -> str:
    """An address in the one form that can be compared: an IPv4 one that is written as IPv6, and an
    interface's name, are the same address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def resolved(name: str) -> frozenset[str]:
    """As Resolve, from the system."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return frozenset(plain(str(each[4][0])) for each in found)


def on_this_host(address: str) -> bool:
    """Whether only processes of this host, and in a pod of this pod, have that address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(plain(address)).is_loopback
    except ValueError:
        return False


def name_of(leader: str, rank: int) -> str:
    """The name of another pod of a group whose leader has the name `leader`."""
    head, dot, rest = leader.partition(".")
    return f"{head}-{rank}{dot}{rest}"


def has_names(leader: str) -> bool:
    """Whether a group whose leader is found there has a name for each of its pods."""
    return "." in leader and not _is_address(leader)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class _Name:
    """What one name has, asked for when somebody wants to know."""

    def __init__(self, name: str, resolve: Resolve, clock: Clock) -> None:
        self.name = name
        self._resolve = resolve
        self._clock = clock
        self._found: frozenset[str] | None = None
        self._at = 0.0
        self._asked: float | None = None
        self._questions: set[asyncio.Task[None]] = set()
        self.trouble = "nobody has answered yet"
        """Why there is no answer."""

    def addresses(self) -> frozenset[str] | None:
        """Those found lately; else None, and the question is on its way."""
        now = self._clock()
        if self._found is not None and now - self._at < _FRESH_SECONDS:
            return self._found
        self._found = None
        pause = _PATIENCE_SECONDS if self._questions else _AGAIN_SECONDS
        waited = self._asked is None or now - self._asked >= pause
        if waited and len(self._questions) < _MOST_QUESTIONS:
            self._asked = now
            question = asyncio.ensure_future(self._ask())
            self._questions.add(question)
            question.add_done_callback(self._questions.discard)
        return None

    async def _ask(self) -> None:
        try:
            self._found = await aside(lambda: self._resolve(self.name))
            self._at = self._clock()
            self.trouble = "it is asked for again"
        except (OSError, UnicodeError) as error:
            self.trouble = getattr(error, "strerror", None) or str(error)


@dataclasses.dataclass(frozen=True, slots=True)
class Believed:
    """Who speaks for a rank: `incarnation` as it was first told from `address`."""

    incarnation: str
    address: str


class Peers:
    """The other pods of a group as its leader knows them; for use in an event loop."""

    def __init__(
        self, leader: str, size: int, *, clock: Clock, resolve: Resolve = resolved
    ) -> None:
        """`leader` has the names of the others (`has_names`) or is `on_this_host`, as they are
        then. `clock` is of seconds that do not run backwards."""
        self._ranks = range(1, size)
        self._names = (
            {rank: _Name(name_of(leader, rank), resolve, clock) for rank in self._ranks}
            if has_names(leader)
            else None
        )
        self._believed: dict[int, Believed] = {}
        self._doubts: dict[int, str] = {}
        self._told: set[int] = set()
        self.strangers = 0
        """How often somebody else has spoken for a pod."""

    def believes(self, rank: int, incarnation: str, address: str) -> bool:
        """Whether pod `rank` speaks from `address`; False also while nobody can tell yet."""
        if rank not in self._ranks:
            return False
        speaker = Believed(incarnation, plain(address))
        if self._believed.get(rank) == speaker:
            return True
        doubt = self._doubt(rank, speaker.address)
        if doubt is None:
            self._believed[rank] = speaker
            self._doubts.pop(rank, None)
            return True
        self._doubts[rank] = doubt
        return False

    def doubts(self, ranks: tuple[int, ...]) -> str:
        """Why somebody who spoke for one of `ranks` is not believed, to follow a clause; "" where
        nobody is doubted."""
        return next((f"; {self._doubts[rank]}" for rank in ranks if rank in self._doubts), "")

    def _doubt(self, rank: int, address: str) -> str | None:
        says = f"{address} says that it is pod {rank}"
        if self._names is None:
            if on_this_host(address):
                return None
            return self._stranger(rank, f"{says}, and all pods of the group are on this host")
        name = self._names[rank]
        found = name.addresses()
        if found is None:
            return f"{says}, and the name {name.name} is not known yet ({name.trouble})"
        if address in found:
            return None
        return self._stranger(rank, f"{says}, and {name.name} is {_listed(found)}")

    def _stranger(self, rank: int, doubt: str) -> str:
        self.strangers += 1
        if rank not in self._told:
            self._told.add(rank)
            _log.warning("%s: it is not believed", doubt)
        return doubt


def _listed(addresses: frozenset[str]) -> str:
    first = sorted(addresses)[:3]
    return " or ".join(first) + (" and others" if len(addresses) > len(first) else "")
