"""The container's memory: its limit, the most it used, and the processes that the kernel ended.

Where the kernel ends one process alone, the container lives on and no exit status tells of it. The
files are those of the container's own cgroup (Documentation/admin-guide/cgroup-v2.rst,
cgroup-v1/memory.rst); what is killed because the whole node has no memory counts there too.
"""

from pathlib import Path
from typing import Final

_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_PEAKS: Final = (
    Path("/sys/fs/cgroup/memory.peak"),
    Path("/sys/fs/cgroup/memory/memory.max_usage_in_bytes"),
)
_EVENTS: Final = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
)
_UNLIMITED: Final = 1 << 62
_AT_LIMIT: Final = 0.95
"""Of the limit: whoever never had as much was not ended for it."""


def number(*files: Path) -> int | None:
    """Of the first of a cgroup's files that is there; None without a limit, and without a file."""
    text = _first(files).strip()
    return int(text) if text.isdecimal() else None


def memory_limit(files: tuple[Path, ...] = _LIMITS) -> int | None:
    """The cgroup's limit in bytes, of version 2 or 1; None without one."""
    limit = number(*files)
    # Without a limit version 1 shows the largest number of whole pages.
    return limit if limit is not None and limit < _UNLIMITED else None


def memory_peak(files: tuple[Path, ...] = _PEAKS) -> int | None:
    """The most that the container had, in bytes; None where the kernel does not say."""
    return number(*files)


def kills(files: tuple[Path, ...] = _EVENTS) -> int:
    """How many processes the kernel has ended for memory; 0 where it does not say."""
    for line in _first(files).splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.isdecimal():
            return int(count)
    return 0


def are_counted(files: tuple[Path, ...] = _EVENTS) -> bool:
    """Whether the kernel says how many it has ended."""
    return "oom_kill " in _first(files)


def sentence() -> str:
    """What happened, with the numbers and the fix."""
    limit, peak = memory_limit(), memory_peak()
    if peak is not None and (limit is None or peak < _AT_LIMIT * limit):
        return (
            "the kernel ended one of its processes because the node had no memory left; the"
            f" container had {gib(peak)} GiB at most, so see what else takes the node's"
        )
    told = "" if limit is None else f" of {gib(limit)} GiB"
    return (
        f"the kernel ended one of its processes at the container's memory limit{told}; raise"
        " spec.runtime.resources.memory"
    )


def gib(size: int) -> str:
    """Bytes in GiB, as sentences have them."""
    return f"{size / (1 << 30):.1f}"


def _first(files: tuple[Path, ...]) -> str:
    """The text of the first that can be read."""
    for file in files:
        try:
            return file.read_text()
        except OSError:
            continue
    return ""
