"""Weights of one source with the config and tokenizer of another, as one folder.

A GGUF's repository may hold that file alone, and vLLM 0.33.0 reads neither config nor tokenizer
from it (config/model.py:605-607 and 647-681).
"""

from collections.abc import AsyncIterator, Iterable
from fnmatch import fnmatchcase
from typing import Final

from kindling_runtime.contract import Reason
from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.errors import FetchError
from kindling_runtime.weights.parts import Part, RemoteFile
from kindling_runtime.weights.store import Listing, Store

CONFIG: Final = "config.json"
CONFIG_FILES: Final = (
    CONFIG,
    "generation_config.json",
    "tokenizer*",
    "*.jinja",
    "chat_template.json",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
)
"""Names of what is no weight and that an engine reads, at the top of the folder."""
TENSOR_FILES: Final = (
    "*.safetensors",
    "*.gguf",
    "*.bin",
    "*.pt",
    "*.pth",
    "*.h5",
    "*.onnx",
    "*.msgpack",
)
"""What never comes from the second source, whatever it is called."""


def lacking(own: Iterable[RemoteFile], other: Iterable[RemoteFile]) -> tuple[RemoteFile, ...]:
    """The config and tokenizer files of `other` whose names `own` does not have."""
    names = {file.path for file in own}
    return tuple(
        file
        for file in other
        if file.path not in names
        and "/" not in file.path
        and _matches(file.path, CONFIG_FILES)
        and not _matches(file.path, TENSOR_FILES)
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Joined:
    """All of `weights`, and of `config` what that lacks."""

    def __init__(self, weights: Store, config: Store, *, uri: str, config_uri: str) -> None:
        self._weights = weights
        self._config = config
        self._uris = f"{uri} and {config_uri}"
        self._from_config: frozenset[RemoteFile] = frozenset()

    @property
    def come(self) -> int:
        """Files that the last listings have brought so far."""
        return self._weights.come + self._config.come

    async def listing(self) -> Listing:
        """The files of both; raises FetchError where neither has config.json."""
        own, other = await self._weights.listing(), await self._config.listing()
        if not own.files:
            return own
        added = lacking(own.files, other.files)
        files = (*own.files, *added)
        if not any(file.path == CONFIG for file in files):
            raise FetchError(
                Reason.STORE_REFUSED,
                f"neither of {self._uris} holds {CONFIG}, without which no engine starts; put the "
                "weights with it into a folder and name that in spec.model.weights.uri",
            )
        self._from_config = frozenset(added)
        return Listing(files, resolved=own.resolved, config_resolved=other.resolved)

    def read(self, part: Part, *, skip: int) -> AsyncIterator[Buffer]:
        """The part's bytes, from where its file was listed."""
        store = self._config if part.file in self._from_config else self._weights
        return store.read(part, skip=skip)

    async def close(self) -> None:
        """Let go of both."""
        await self._weights.close()
        await self._config.close()
