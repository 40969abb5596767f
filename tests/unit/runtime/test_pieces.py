"""How much of a range is handed on at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import obstore
import pytest

from kindling_runtime.weights import objects
from kindling_runtime.weights.parts import Part, RemoteFile
from kindling_runtime.weights.store import PIECE_BYTES, QUICK_PIECE_BYTES, REQUEST_SECONDS, Pieces

MIB = 1 << 20


def test_large_pieces_are_for_a_store_that_brings_many_of_them_in_time() -> None:
    pieces = Pieces()
    assert pieces.size == PIECE_BYTES
    pieces.came(8 * MIB, 1)
    assert pieces.size == QUICK_PIECE_BYTES
    pieces.came(8 * MIB, 9)
    assert pieces.size == PIECE_BYTES
    assert QUICK_PIECE_BYTES / REQUEST_SECONDS < MIB / 20, "a store that is a little slower is lost"


async def test_a_request_that_is_given_up_is_made_again_for_small_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that was quick and brings less than a large piece in the time of a request."""
    asked: list[int] = []

    class Body:
        async def stream(self, *, min_chunk_size: int) -> AsyncIterator[bytes]:
            asked.append(min_chunk_size)
            if len(asked) == 2:
                await asyncio.Event().wait()
            yield bytes(8 * MIB)

    async def get(*_: object, **__: object) -> Any:
        return Body()

    monkeypatch.setattr(obstore, "get_async", get)
    monkeypatch.setenv("KINDLING_DEVELOPMENT_STORE", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    store = objects.Objects("s3://weights/tiny")
    part = Part(RemoteFile("model", 8 * MIB), 0, 0, 8 * MIB)

    async def read() -> None:
        async for _ in store.read(part, skip=0):
            pass

    await read()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await read()
    await read()

    assert asked == [PIECE_BYTES, QUICK_PIECE_BYTES, PIECE_BYTES]
