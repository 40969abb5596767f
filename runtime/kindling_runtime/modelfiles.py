"""Are the files of a model folder whole: told from their names, the headers of tensor files, the
index, and of what the fetch published from its manifest, before a byte is loaded.

Sources: huggingface_hub, serialization: an index names the file of every tensor, files are numbered
NAME-00001-of-00003. vLLM 0.33, default_loader.py: where there are safetensors, no other file is
read; tensors are taken from whichever file has them.
"""

import itertools
import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from kindling_runtime import foreign, gguf, tensorfiles
from kindling_runtime.contract import LaunchPlan
from kindling_runtime.weights import digests, manifest

_SAFETENSORS: Final = "*.safetensors"
_INDEX: Final = "*.safetensors.index.json"
_GGUF: Final = "*.gguf"
_TORCH: Final = ("pytorch_model*.bin", "consolidated*.pth")
_TORCH_INDEX: Final = "pytorch_model.bin.index.json"
_PART: Final = re.compile(r"(?P<set>.+)-(?P<number>[0-9]+)(?P<rest>-of-(?P<total>[0-9]+)\.[a-z]+)")
_JSON: Final = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"),
    *("video_preprocessor_config.json", "chat_template.json"),
)
"""What an engine reads of them where they are there; each is an object."""
_SMALL: Final = 32 << 20
"""Config, tokenizer and templates are read in milliseconds; tensors are the fetch's to compare."""
_LARGEST_JSON: Final = 256 << 20
_LARGEST_SURPLUS: Final = 2
"""Of an index's total: some count shared tensors twice, or those before a quantization to FP8."""


def json_files_parse(plan: LaunchPlan) -> str | None:
    """An interrupted copy leaves them short."""
    folder = Path(plan.weights.path)
    planned = {name for name in plan.requires.files if name.endswith(".json")}
    there = {name for name in _JSON if (folder / name).exists()}
    for name in sorted(planned | there):
        if not _is_object(foreign.content(folder / name, most=_LARGEST_JSON)):
            return (
                f"{name} in the weights folder {folder} is not a JSON object; "
                f"copy it again to {plan.weights.uri}"
            )
    return None


def some_tensors_are_there(plan: LaunchPlan) -> str | None:
    """A folder with a config and a tokenizer alone."""
    folder, wanted = Path(plan.weights.path), plan.requires.tensors
    if not wanted or any(any(folder.glob(pattern)) for pattern in wanted):
        return None
    return (
        f"the weights folder {folder} has no file {' or '.join(wanted)}; "
        f"make {plan.weights.uri} name the folder that holds the model's weights"
    )


def shards_of_the_index_are_there(plan: LaunchPlan) -> str | None:
    """A copy that broke off between two files."""
    folder = Path(plan.weights.path)
    for index in _indices(folder):
        found = _read(index)
        if found is None:
            return f"{index.name} in the weights folder {folder} is no index; {_again(plan)}"
        named = set(found.weight_map.values())
        missing = sorted(name for name in named if not _is_file(folder, name))
        if missing:
            return (
                f"the weights folder {folder} lacks {len(missing)} of the {len(named)} files that"
                f" {index.name} names, such as {foreign.quoted(missing[0])}; {_again(plan)}"
            )
    return None


def numbered_files_are_all_there(plan: LaunchPlan) -> str | None:
    """The same without an index, or of GGUF files, which have none: NAME-00001-of-00003 says how
    many there are. What an index names, the index alone decides."""
    folder = Path(plan.weights.path)
    indices = (_read(index) for index in _indices(folder))
    named = {name for each in indices if each is not None for name in each.weight_map.values()}
    for file in _tensor_files(folder):
        part = _PART.fullmatch(file.name)
        if part is None or file.name in named:
            continue
        mates = [_PART.fullmatch(each.name) for each in folder.glob(f"*{part['rest']}")]
        there = {
            int(each["number"]): each[0] for each in mates if each and each["set"] == part["set"]
        }
        if len(there) >= int(part["total"]) or not named.isdisjoint(there.values()):
            continue
        first = next(number for number in itertools.count(1) if number not in there)
        return (
            f"the weights folder {folder} has {len(there)} of {int(part['total'])} files and lacks"
            f" {part['set']}-{first:0{len(part['number'])}}{part['rest']}; {_again(plan)}"
        )
    return None


def tensor_files_are_whole(plan: LaunchPlan) -> str | None:
    """A copy that broke off within a file: the engine would end in the middle of its load."""
    files, tensors = sorted(Path(plan.weights.path).glob(_SAFETENSORS)), 0
    for file in files:
        header = tensorfiles.safetensors(file)
        if header is None:
            return f"{file.name} in the weights folder has no header of its tensors; {_again(plan)}"
        if header.wrong:
            return f"{file.name} in the weights folder {header.wrong}; {_again(plan)}"
        if (has := file.stat().st_size) != header.size:
            return (
                f"{file.name} in the weights folder has {has} bytes and its tensors need"
                f" {header.size}; {_again(plan)}"
            )
        tensors += len(header.sizes)
    if files and not tensors and plan.requires.tensors:
        return f"{files[0].name} in the weights folder holds no tensor; {_again(plan)}"
    return None


def tensors_of_the_index_are_there(plan: LaunchPlan) -> str | None:
    """Files of another model, or one file twice, under the right names."""
    folder = Path(plan.weights.path)
    indices = sorted(folder.glob(_INDEX))
    held = _held(folder) if indices else {}
    for index in indices:
        found = _read(index)
        names = {} if found is None else found.weight_map
        missing = sorted(name for name in names if name not in held)
        if missing:
            return (
                f"no file in the weights folder {folder} has {len(missing)} of the {len(names)}"
                f" tensors that {index.name} names, such as {foreign.quoted(missing[0])};"
                f" {_again(plan)}"
            )
        total, has = 0 if found is None else found.total, sum(held[name] for name in names)
        if _LARGEST_SURPLUS * has < total:
            return (
                f"the tensors that {index.name} names have {has} bytes and it says {total};"
                f" {_again(plan)}"
            )
    return None


def torch_files_are_whole(plan: LaunchPlan) -> str | None:
    """The same of what torch.save wrote, where the engine would read it."""
    for file in _torch_files(Path(plan.weights.path)):
        if not tensorfiles.torch_file_is_whole(file):
            return (
                f"{file.name} in the weights folder has {file.stat().st_size} bytes and is no whole"
                f" file of torch.save; {_again(plan)}"
            )
    return None


def gguf_files_are_whole(plan: LaunchPlan) -> str | None:
    """A copy that broke off before the end of the last tensor, or before the last file."""
    files = sorted(Path(plan.weights.path).glob(_GGUF))
    for file in files:
        has, header = file.stat().st_size, gguf.header(file)
        if header is None:
            return f"{file.name} in the weights folder has no header of its tensors; {_again(plan)}"
        if has < header.size:
            return (
                f"{file.name} in the weights folder has {has} bytes and its tensors need"
                f" {header.size}; {_again(plan)}"
            )
        if len(files) < header.parts:
            return (
                f"{file.name} in the weights folder is one of {header.parts} files and only"
                f" {len(files)} are there; {_again(plan)}"
            )
    return None


def files_are_as_published(plan: LaunchPlan) -> str | None:
    """Every size is as in the fetch's manifest, and of small files the checksum."""
    folder = Path(plan.weights.path)
    published = manifest.read(folder)
    for entry in published.files if published is not None else ():
        file = folder / entry.path
        has = file.stat().st_size if file.is_file() else None
        if has == entry.size and (has > _SMALL or digests.of_file(file) == entry.blake3):
            continue
        found = {None: "is gone", entry.size: "has another checksum"}.get(has, f"has {has} bytes")
        return (
            f"{entry.path} in the weights folder {found} and came with {entry.size} bytes and"
            f" another content from {plan.weights.uri}; delete the pod: its fetch brings it again"
        )
    return None


def _is_object(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, ValueError, RecursionError):
        # Slower, but takes what Python's own module writes: NaN, a byte order mark.
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False
    return True


def _indices(folder: Path) -> list[Path]:
    return sorted((*folder.glob(_INDEX), *folder.glob(_TORCH_INDEX)))


class _Index(msgspec.Struct):
    weight_map: dict[str, str]
    metadata: Any = None

    @property
    def total(self) -> int | float:
        """Bytes of all tensors; 0 where it does not say."""
        match self.metadata:
            case {"total_size": int() | float() as total}:
                return total
            case _:
                return 0


def _read(index: Path) -> _Index | None:
    try:
        return msgspec.json.decode(foreign.content(index, most=_LARGEST_JSON), type=_Index)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _held(folder: Path) -> dict[str, int]:
    """The bytes of each tensor of the folder's safetensors."""
    headers = (tensorfiles.safetensors(file) for file in folder.glob(_SAFETENSORS))
    return {
        name: size
        for header in headers
        if header is not None
        for name, size in header.sizes.items()
    }


def _torch_files(folder: Path) -> list[Path]:
    """Those that an engine reads: none where there are safetensors or GGUF."""
    if any(folder.glob(_SAFETENSORS)) or any(folder.glob(_GGUF)):
        return []
    return sorted(file for pattern in _TORCH for file in folder.glob(pattern))


def _tensor_files(folder: Path) -> list[Path]:
    return sorted((*folder.glob(_SAFETENSORS), *folder.glob(_GGUF), *_torch_files(folder)))


def _is_file(folder: Path, name: str) -> bool:
    """Also of names that no file can have."""
    try:
        return (folder / name).is_file()
    except OSError:
        return False


def _again(plan: LaunchPlan) -> str:
    return f"copy it again to {plan.weights.uri}"
