"""What a download asks of a source."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from kindling_runtime.contract import Reason
from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.errors import FetchError
from kindling_runtime.weights.parts import Part, RemoteFile

REQUEST_SECONDS: Final = 30.0
"""Without a byte for so long, a request is given up and made again."""
PIECE_BYTES: Final = 1 << 18
"""As much as must come in that time, on each connection."""
QUICK_PIECE_BYTES: Final = 1 << 20
MOST_FILES: Final = 20_000
"""Of a listing. A checkpoint has some hundreds; the hub wants fewer than 100,000 in a repository
and 10,000 in a folder ("Repository limitations and recommendations"). Each costs 2 KiB beside its
name (20,000: 177 MiB resident, of the container's 1 GiB)."""
_LONGEST_NAMES: Final = 16 << 20
_QUICK: Final = 1 << 20
"""Bytes per second of one connection: a thirtieth of it still brings a large piece in time."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What the source holds now; `resolved` is the commit that a branch stands for, else "", and
    `config_resolved` that of the repository that config and tokenizer are from."""

    files: tuple[RemoteFile, ...]
    resolved: str = ""
    config_resolved: str = ""


class Catch:
    """The files of a listing as they come; raises FetchError above what a checkpoint may have."""

    def __init__(self, uri: str) -> None:
        self.files: list[RemoteFile] = []
        self._uri = uri
        self._names = 0

    def add(self, file: RemoteFile) -> None:
        """One more."""
        self._names += len(file.path)
        if len(self.files) >= MOST_FILES or self._names > _LONGEST_NAMES:
            most = f"{MOST_FILES} files" if self._names <= _LONGEST_NAMES else "16 MiB of names"
            raise FetchError(
                Reason.STORE_REFUSED,
                f"{self._uri} lists more than {most}; name the folder of the one model in "
                "spec.model.weights.uri",
            )
        self.files.append(file)


class Store(Protocol):
    """A source of files. Both calls raise TransientError, ChangedError or FetchError, and nothing
    else that a source can cause."""

    @property
    def come(self) -> int:
        """Files that the last listing has brought so far."""

    async def listing(self) -> Listing:
        """All files."""

    def read(self, part: Part, *, skip: int) -> AsyncIterator[Buffer]:
        """The part's bytes in order, without the first `skip`."""

    async def close(self) -> None:
        """Let go of connections."""


class Pieces:
    """How many bytes of a range are handed on at once: each piece costs a change of threads, and a
    slow store's should show."""

    def __init__(self) -> None:
        self.size = PIECE_BYTES

    def came(self, count: int, seconds: float) -> None:
        """A request has brought so many bytes in so long, however it has ended."""
        self.size = QUICK_PIECE_BYTES if count > _QUICK * seconds else PIECE_BYTES
