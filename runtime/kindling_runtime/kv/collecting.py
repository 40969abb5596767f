"""Deleting what a deployment has too much of, by one of its pods.

Who holds the lease collects. It is an object that is only ever written on a condition: on that
nobody has one, or on that the one that is there has not changed for `LEASE_SECONDS` by the clock
of who wants it. The holder writes it anew before each page of deletes, and stops where another has
done so. A holder that dies in the middle has deleted some objects; nothing else can happen.
"""

import secrets
from dataclasses import dataclass, field
from typing import Final

from kindling_runtime.kv.bucket import ChangedError, Listed, MissingError, Version
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.policy.sweep import Kept, doomed, list_of, mark, read_list

LEASE_SECONDS: Final = 120.0
TURN_SECONDS: Final = 600.0
"""Between two turns of a pod: of telling what it uses, and of collecting."""
_LEASE: Final = "_lease"
_USES: Final = "_uses"
_PAGE: Final = 100


@dataclass(slots=True)
class Collector:
    """One pod's part. `deleted` and `deleted_bytes` count what it has removed; `kept_bytes` is what
    its last turn has found left, None before."""

    desk: Desk
    pod: str = field(default_factory=lambda: secrets.token_hex(8))
    deleted: int = 0
    deleted_bytes: int = 0
    turns: int = 0
    kept_bytes: int | None = None
    _lease: Version | None = None
    """Of ours, while we hold it."""
    _seen: Version | None = None
    _seen_at: float = 0.0

    async def turn(self) -> bool:
        """Tell what this pod uses, and collect if it is its turn; whether it was. Raises
        StoreError."""
        await self._tell()
        if not await self._hold():
            return False
        self.turns += 1
        try:
            await self._collect()
        except (ChangedError, MissingError):
            self._lease = None  # another pod has taken over
        return True

    async def _tell(self) -> None:
        desk, name = self.desk, f"{self.desk.place.home}/{_USES}/{self.pod}"
        used = [mark(desk.name(anchor)) for anchor in desk.used]
        damaged = [mark(desk.name(anchor)) for anchor in desk.presence.damage]
        if not used and not damaged:
            return
        await desk.bucket.overwrite(name, list_of(used, damaged), seconds=self._seconds)
        desk.used.clear()

    async def _hold(self) -> bool:
        """Whether this pod has the lease, newly written."""
        name = f"{self.desk.place.home}/{_LEASE}"
        try:
            if self._lease is None and not await self._is_free(name):
                return False
            await self._renew()
        except ChangedError:
            self._lease = None
            return False
        return True

    async def _is_free(self, name: str) -> bool:
        """Whether there is no lease, or one that may be replaced, which is then taken for ours."""
        desk = self.desk
        try:
            _, version = await desk.bucket.read_whole(name, seconds=self._seconds)
        except MissingError:
            return True
        if version != self._seen:
            self._seen, self._seen_at = version, desk.clock()
            return False
        if desk.clock() - self._seen_at < LEASE_SECONDS:
            return False
        self._lease = version
        return True

    async def _renew(self) -> None:
        """Raises ChangedError where it is another's."""
        name = f"{self.desk.place.home}/{_LEASE}"
        # Another content each time: some stores' versions are digests of it.
        content = f"{self.pod} {secrets.token_hex(8)}".encode()
        self._lease = await self.desk.bucket.replace(
            name, content, self._lease, seconds=self._seconds
        )

    async def _collect(self) -> None:
        desk = self.desk
        objects, lists, now = await self._listed()
        used: dict[bytes, float] = {}
        damaged: set[bytes] = set()
        for each in lists:
            content, _ = await desk.bucket.read_whole(each.name, seconds=self._seconds)
            marks, bad = read_list(content)
            damaged |= bad
            used |= {m: max(used.get(m, 0.0), each.modified.timestamp()) for m in marks}
        kept = [
            Kept(o.name, o.size, (at := o.modified.timestamp()), max(at, used.get(mark(o.name), 0)))
            for o in objects
        ]
        settings = desk.settings
        gone = doomed(
            kept,
            now=now,
            max_bytes=settings.max_bytes,
            max_age=settings.max_age,
            damaged=frozenset(damaged),
        )
        self.kept_bytes = sum(each.size for each in kept) - sum(each.size for each in gone)
        stale = [
            each.name
            for each in lists
            if settings.max_age and now - each.modified.timestamp() > settings.max_age
        ]
        await self._delete(gone, stale)

    async def _listed(self) -> tuple[list[Listed], list[Listed], float]:
        """Objects, lists of uses, and the moment by the store's clock: that of the lease, which was
        written just now."""
        home = self.desk.place.home
        objects, lists, now = [], [], 0.0
        async for page in self.desk.bucket.listing(home, seconds=self._seconds):
            for each in page:
                below = each.name.removeprefix(f"{home}/")
                if below == _LEASE:
                    now = each.modified.timestamp()
                elif below.startswith(f"{_USES}/"):
                    lists.append(each)
                elif "/" in below:
                    objects.append(each)
        return objects, lists, now

    async def _delete(self, gone: tuple[Kept, ...], stale: list[str]) -> None:
        bucket, presence = self.desk.bucket, self.desk.presence
        for first in range(0, len(gone), _PAGE):
            await self._renew()
            for each in gone[first : first + _PAGE]:
                await bucket.delete(each.name, seconds=self._seconds)
                self.deleted += 1
                self.deleted_bytes += each.size
                if (anchor := anchor_of(each.name)) is not None:
                    presence.removed(anchor)
        for name in stale:
            await bucket.delete(name, seconds=self._seconds)

    @property
    def _seconds(self) -> float:
        return self.desk.settings.deadlines.store


def anchor_of(name: str) -> bytes | None:
    """The key that an object of any deployment is named by; None for other names."""
    parts = name.split("/")
    if len(parts) < 3 or not parts[-3].startswith("g") or not parts[-3][1:].isdecimal():
        return None
    try:
        return bytes.fromhex(parts[-1]) + int(parts[-3][1:]).to_bytes(4, "big")
    except ValueError:
        return None
