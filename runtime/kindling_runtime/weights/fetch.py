"""A fetch from its start to its end: from the cache, from another pod's download, or our own."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kindling_runtime.contract import Fetch, Phase, Reason, Weights
from kindling_runtime.weights import journal, lease, manifest, sources, space, strays, uses
from kindling_runtime.weights.board import Board
from kindling_runtime.weights.download import Download, patiently
from kindling_runtime.weights.errors import ChangedError, FetchError
from kindling_runtime.weights.lease import Leases
from kindling_runtime.weights.leasing import STALE_SECONDS
from kindling_runtime.weights.manifest import Entry, Manifest, Standing
from kindling_runtime.weights.parts import RemoteFile, done_bytes, impossible, total, unsafe
from kindling_runtime.weights.progress import Meter, size_text
from kindling_runtime.weights.store import Store
from kindling_runtime.weights.volume import JOURNAL, MANIFEST, Volume, flush

_log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
_LISTINGS = 3
"""Attempts at a source that is written to while it is read."""


class Fetcher:
    """Brings the weights of one plan into their volume."""

    def __init__(
        self,
        weights: Weights,
        fetch: Fetch,
        *,
        owner: str,
        board: Board,
        lease_seconds: float = STALE_SECONDS,
        thoroughly: bool = False,
    ) -> None:
        self._uri = weights.uri
        self._config_uri = fetch.config_uri or ""
        self._plan = fetch
        self._owner = owner
        self._board = board
        self._thoroughly = thoroughly
        self._volume = Volume(Path(fetch.volume))
        self._leases = Leases(self._volume.leases, fetch.key, owner=owner, limit=lease_seconds)
        self._published = self._volume.weights / fetch.key
        self._partial = self._volume.partial / fetch.key
        self._use = self._volume.uses / owner

    async def run(self) -> None:
        """Return once the weights are there, whole; raises FetchError, OSError."""
        # 1. The folders, and the mark that keeps others from evicting what this pod will use.
        await asyncio.to_thread(self._prepare)
        if not self._plan.key:
            self._board.enter(Phase.STARTING, Reason.WEIGHTS_READY, "nothing is to be downloaded")
            return
        using = uses.keep(self._use, uses.keys_of(self._plan)) if self._plan.shared else None
        try:
            await self._bring()
        finally:
            if using is not None:
                using.set()

    async def _bring(self) -> None:
        while True:
            # 2. They may be there already, whoever fetched them.
            stands = await asyncio.to_thread(self._look)
            if stands is not None and stands.whole:
                return
            # 3. Otherwise one pod downloads, and the others wait for it.
            held = await asyncio.to_thread(self._leases.take)
            if held is None:
                self._board.waiting(await asyncio.to_thread(self._leases.holder))
                await asyncio.sleep(min(_POLL_SECONDS, self._leases.limit / 4))
                continue
            await self._as_owner(held, stands)

    def _prepare(self) -> None:
        self._volume.prepare()
        if self._plan.kernels:
            (self._volume.root / self._plan.kernels).mkdir(parents=True, exist_ok=True)
        if self._plan.shared:
            uses.mark(self._use, uses.keys_of(self._plan))

    def _found(self) -> Manifest | None:
        """What is published of this source; None where nothing is."""
        found = manifest.read(self._published)
        if found is None or (found.uri, found.config_uri) != (self._uri, self._config_uri):
            return None
        return found

    def _look(self) -> Standing | None:
        """How the published folder stands; None where there is none."""
        found = self._found()
        if found is None:
            return None
        stands = manifest.standing(self._published, found, thoroughly=self._thoroughly)
        if not stands.whole:
            _log.warning("%s", stands)
            return stands
        with contextlib.suppress(OSError):
            os.utime(self._published / MANIFEST)  # the time of the last use
        text = f"{size_text(found.bytes)} are in the cache{_doubts(found)}"
        self._board.enter(Phase.STARTING, Reason.WEIGHTS_READY, text)
        return stands

    async def _as_owner(self, held: lease.Lease, stands: Standing | None) -> None:
        """Download under the lease, and publish; stops if the lease is lost."""
        keeping = asyncio.create_task(lease.keep(held, self._leases, self._board.teller))
        working = asyncio.create_task(self._mend(held.number, stands))
        try:
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
            if await asyncio.to_thread(held.is_mine, self._leases):
                # Of the two the one that has ended: the work, or beats that the volume refused.
                (working if working.done() else keeping).result()
            else:
                # What it met on the way may be the other one's doing, whose folder it is now.
                _log.warning("another pod has taken over the download")
        finally:
            keeping.cancel()
            working.cancel()
            await asyncio.wait({keeping, working})
            await asyncio.to_thread(held.release, self._leases)

    async def _mend(self, number: int, stands: Standing | None) -> None:
        """What is missing comes, and what nobody published goes: engines run from the folder and
        only read it, and whoever writes there holds the lease."""
        before = None if stands is None else stands.manifest
        if await asyncio.to_thread(self._found) != before:
            return  # another pod has published since: it has to be looked at again
        if stands is not None:
            names = [entry.path for entry in stands.manifest.files]
            await asyncio.to_thread(self._drop, strays.beside(self._published, names))
        if stands is None or stands.damaged:
            await self._download(number, None if stands is None else stands.damaged)

    async def _download(self, number: int, broken: tuple[Entry, ...] | None) -> None:
        store = await asyncio.to_thread(self._source, repairs=broken is not None)
        try:
            for attempt in range(_LISTINGS):
                try:
                    await self._download_once(store, number, broken)
                    return
                except ChangedError as change:
                    if attempt + 1 == _LISTINGS:
                        raise FetchError(
                            Reason.CHECKSUM_MISMATCH,
                            f"{change}, {_LISTINGS} times in a row; finish writing to {self._uri}, "
                            "or name a revision that stays",
                        ) from None
        finally:
            await store.close()

    def _source(self, *, repairs: bool) -> Store:
        """Where the files are. A published folder is repaired from the commits that it is of, not
        from what their branches are now."""
        kept = manifest.read(self._published) if repairs else None
        return sources.store_of(
            self._uri,
            (kept.resolved if kept is not None else "") or self._plan.revision,
            config_uri=self._plan.config_uri,
            config_revision=kept.config_resolved if kept is not None else "",
        )

    async def _download_once(
        self, store: Store, number: int, broken: tuple[Entry, ...] | None
    ) -> None:
        board, plan = self._board, self._plan
        # 1. What there is, and what is missing of it.
        board.enter(Phase.DOWNLOADING, Reason.LISTING, f"listing {self._uri}")
        listing = await patiently(store, board=board, stall_seconds=plan.stall_seconds)
        wanted = _wanted(self._uri, listing.files, broken)
        await asyncio.to_thread(self._prepare_partial, wanted)
        done = await asyncio.to_thread(journal.read, self._partial, wanted)
        there, whole = done_bytes(wanted, done), total(wanted)
        # 2. Room for it, then the bytes.
        board.enter(Phase.DOWNLOADING, Reason.PREFLIGHT, f"room for {size_text(whole - there)}")
        await self._make_room(whole - there)
        board.begin(Meter.begin(whole, done=there, now=time.monotonic()))
        board.enter(Phase.DOWNLOADING, Reason.DOWNLOADING, "")
        notes = journal.Journal(self._partial, number=number)
        try:
            entries = await Download(
                store,
                self._partial,
                journal=notes,
                done=done,
                board=board,
                stall_seconds=plan.stall_seconds,
            ).run(wanted)
        finally:
            notes.close()
        # 3. In one step, for all to see.
        made = Manifest(
            uri=self._uri,
            revision=plan.revision,
            resolved=listing.resolved,
            config_uri=self._config_uri,
            config_resolved=listing.config_resolved,
            files=entries,
        )
        await asyncio.to_thread(self._publish, made, repairs=broken is not None)
        board.tell()
        _log.info("published %s: %s", self._published, board.summary)

    def _prepare_partial(self, wanted: Sequence[RemoteFile]) -> None:
        if self._partial.is_symlink():
            self._partial.unlink()  # it leads elsewhere
        self._partial.mkdir(parents=True, exist_ok=True)
        # The source may have had others at an earlier attempt.
        self._drop(strays.beside(self._partial, [file.path for file in wanted]))

    def _drop(self, paths: Iterable[Path]) -> None:
        for path in paths:
            _log.info("removing %s, which is none of the weights", path)
            self._volume.remove(path)

    async def _make_room(self, need: int) -> None:
        await asyncio.to_thread(
            space.ensure,
            self._volume,
            need=need,
            key=self._plan.key,
            budget=self._plan.budget_bytes,
            shared=self._plan.shared,
        )

    def _publish(self, made: Manifest, *, repairs: bool) -> None:
        """Move what was downloaded to where engines look for it."""
        before = manifest.read(self._published) if repairs else None
        if before is None:
            # Whoever was frozen under an earlier lease may have made some again.
            self._drop(strays.beside(self._partial, [entry.path for entry in made.files]))
            manifest.write(self._partial, made)
            flush(self._partial)
            self._volume.remove(self._published)
            self._partial.rename(self._published)
            # Not before: a kill between the two would lose what has come.
            for note in (*self._published.glob(f"{JOURNAL}*"), *manifest.drafts(self._published)):
                with contextlib.suppress(OSError):
                    note.unlink()
        else:
            self._repair(made, before)
        flush(self._volume.weights)
        if doubts := _doubts(made):
            _log.warning("published %s%s", self._published, doubts)

    def _repair(self, made: Manifest, before: Manifest) -> None:
        """Put single files in the place of damaged ones: engines run from this folder."""
        for entry in made.files:
            place = self._published / entry.path
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_dir():
                self._volume.remove(place)
            (self._partial / entry.path).rename(place)
        fresh = {entry.path: entry for entry in made.files}
        files = tuple(fresh.get(entry.path, entry) for entry in before.files)
        manifest.write(self._published, msgspec.structs.replace(before, files=files))
        self._volume.remove(self._partial)


def _doubts(made: Manifest) -> str:
    """What is to be said of files that came twice as something else than their ETag."""
    if not (doubted := made.doubted):
        return ""
    names = ", ".join(path[:120] for path in doubted[:3])
    return (
        f"; {len(doubted)} of {len(made.files)} files do not fit the MD5 that their ETag looks like"
        f" ({names}), as is so with objects encrypted with SSE-KMS or SSE-C: if these are not, "
        "upload them again"
    )


def _wanted(
    uri: str, files: Sequence[RemoteFile], broken: tuple[Entry, ...] | None
) -> tuple[RemoteFile, ...]:
    """The files to fetch: all, or of a published folder the damaged ones."""
    if not files:
        raise FetchError(
            Reason.STORE_REFUSED,
            f"{uri} holds no file; correct spec.model.weights.uri, or upload the model there",
        )
    for file in files:
        if unsafe(file.path):
            raise FetchError(
                Reason.STORE_REFUSED,
                f"{uri} holds a file named {file.path[:120]!a}, which no folder can hold; "
                "rename or remove it",
            )
    if (wrong := impossible(files)) is not None:
        raise FetchError(
            Reason.STORE_REFUSED,
            f"{uri} holds {wrong.path[:120]} of {wrong.size} bytes, which no folder can hold beside"
            " the other files; rename or remove what has that name or lies below it",
        )
    if broken is None:
        return tuple(files)
    names = {entry.path for entry in broken}
    if gone := sorted(names - {file.path for file in files}):
        raise FetchError(
            Reason.STORE_REFUSED,
            f"{gone[0][:120]} is damaged in the cache and {uri} holds it no more; upload it again, "
            "or name another spec.model.weights.revision",
        )
    return tuple(file for file in files if file.path in names)
