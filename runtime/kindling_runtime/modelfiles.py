"""Are the tensor files of a model folder whole: told from their headers, before a byte is loaded.

Sources: huggingface/safetensors, README (format): eight bytes with the header's length, the header
as JSON with the end of each tensor, the tensors. huggingface_hub, serialization: an index names
the file of every tensor.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kindling_runtime.contract import LaunchPlan

_LENGTH: Final = 8
_LONGEST_HEADER: Final = 100_000_000
"""The format's own limit."""


def shards_of_the_index_are_there(plan: LaunchPlan) -> str | None:
    """A copy that broke off between two files."""
    folder = Path(plan.weights.path)
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            named = set(json.loads(index.read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{index.name} in the weights folder {folder} is no index; {_again(plan)}"
        missing = sorted(name for name in named if not (folder / str(name)).is_file())
        if missing:
            return (
                f"the weights folder {folder} lacks {len(missing)} of the {len(named)} files that"
                f" {index.name} names, such as {missing[0]}; {_again(plan)}"
            )
    return None


def tensor_files_are_whole(plan: LaunchPlan) -> str | None:
    """A copy that broke off within a file: the engine would end in the middle of its load."""
    for file in sorted(Path(plan.weights.path).glob("*.safetensors")):
        has, wanted = file.stat().st_size, _size(file)
        if wanted is None:
            return f"{file.name} in the weights folder has no header of its tensors; {_again(plan)}"
        if has != wanted:
            return (
                f"{file.name} in the weights folder has {has} bytes and its tensors need {wanted};"
                f" {_again(plan)}"
            )
    return None


def _size(file: Path) -> int | None:
    """Bytes of a whole file with this header; None for what is no header."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(_LENGTH), "little")
        if not 2 <= length <= _LONGEST_HEADER:
            return None
        text = opened.read(length)
    try:
        return _LENGTH + length + max(_ends(json.loads(text)), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _ends(header: Any) -> Iterator[int]:
    return (
        int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"
    )


def _again(plan: LaunchPlan) -> str:
    return f"copy it again to {plan.weights.uri}"
