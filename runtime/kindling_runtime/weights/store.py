"""What a download asks of a source."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.parts import Part, RemoteFile

REQUEST_SECONDS: Final = 30.0
"""Without a byte for so long, a request is given up and made again."""
PIECE_BYTES: Final = 1 << 18
"""As much as must come in that time, on each connection."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What the source holds now; `resolved` is the commit that a branch stands for, else "", and
    `config_resolved` that of the repository that config and tokenizer are from."""

    files: tuple[RemoteFile, ...]
    resolved: str = ""
    config_resolved: str = ""


class Store(Protocol):
    """A source of files. Both calls raise TransientError, ChangedError or FetchError, and nothing
    else that a source can cause."""

    async def listing(self) -> Listing:
        """All files."""

    def read(self, part: Part, *, skip: int) -> AsyncIterator[Buffer]:
        """The part's bytes in order, without the first `skip`."""

    async def close(self) -> None:
        """Let go of connections."""


def short(error: BaseException) -> str:
    """What an error says, on one line that fits into a sentence."""
    # obstore repeats itself at length below its first lines.
    text = " ".join(str(error).partition("Debug source:")[0].split()) or type(error).__name__
    return text if len(text) <= 240 else text[:239] + "…"
