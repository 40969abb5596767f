"""Ranges of files in the hub's Xet storage, by hf_xet, for as long as that works.

Whatever goes wrong here, the same bytes are to be had by HTTP: the first failure ends the use of
Xet for the rest of the download.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from kindling_runtime.objectstore.words import short
from kindling_runtime.weights.parts import Part
from kindling_runtime.weights.store import REQUEST_SECONDS

_log = logging.getLogger(__name__)


class Xet:
    """The streams of one repository at one commit."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}
        self._route = ""
        self._headers: dict[str, str] = {}
        self._session: Any = None
        self._group: Any = None
        self._opening = asyncio.Lock()

    def learn(self, hashes: Mapping[str, str], *, route: str, headers: Mapping[str, str]) -> None:
        """Which files are in Xet storage, and where the hub gives out the tokens to read them."""
        try:
            import hf_xet
        except ImportError:  # as in the CPU image
            return
        from huggingface_hub import constants
        from huggingface_hub.utils._xet import xet_headers_without_auth

        if constants.HF_HUB_DISABLE_XET:
            return
        self._hashes, self._route, self._headers = dict(hashes), route, dict(headers)
        self._plain = xet_headers_without_auth(self._headers)
        self._session = self._session or hf_xet.XetSession()

    def has(self, path: str) -> bool:
        """Whether to try it for this file."""
        return path in self._hashes

    async def read(self, part: Part, *, skip: int) -> AsyncIterator[bytes]:
        """The part's bytes, as many as come: fewer than there should be once Xet has failed."""
        stream: Any = None
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                group = await self._connected()
                stream = await asyncio.to_thread(self._open, group, part, skip)
            while True:
                async with asyncio.timeout(REQUEST_SECONDS):
                    piece: object = await asyncio.to_thread(next, stream, None)
                if not isinstance(piece, bytes):
                    return
                yield piece
        except Exception as error:
            _log.warning("Xet storage is of no use (%s); going on by HTTP", short(error))
            self._hashes = {}
        finally:
            if stream is not None:
                stream.cancel()

    def close(self) -> None:
        """End what still runs."""
        if self._group is not None:
            self._group.abort()

    async def _connected(self) -> Any:
        async with self._opening:
            if self._group is None:
                self._group = await asyncio.to_thread(
                    self._session.new_download_stream_group,
                    token_refresh_url=self._route,
                    token_refresh_headers=self._headers,
                    custom_headers=self._plain,
                )
            return self._group

    def _open(self, group: Any, part: Part, skip: int) -> Any:
        import hf_xet

        info = hf_xet.XetFileInfo(self._hashes[part.file.path], part.file.size)
        return group.download_stream(info, start=part.start + skip, end=part.end)
