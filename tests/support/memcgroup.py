"""A cgroup whose memory is limited, for the commands of a test: of version 2 or 1."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.support.waiting import until

ROOT: Final = Path("/sys/fs/cgroup")
UNIFIED: Final = ROOT / "cgroup.controllers"
OWN_NAMESPACE: Final = ("unshare", "--mount", "bash", "-ec")


@contextmanager
def limited(size: int) -> Iterator[tuple[str, ...]]:
    """A prefix for commands, which then have `size` bytes and see their cgroup as a container
    does; nothing of the cgroup is left at the end."""
    if os.getuid() != 0:
        pytest.skip("a cgroup needs root")
    at = ROOT if UNIFIED.exists() else ROOT / "memory"
    own = at / f"kindling-test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    if UNIFIED.exists():
        (at / "cgroup.subtree_control").write_text("+memory")
    own.mkdir()
    limit = "memory.max" if UNIFIED.exists() else "memory.limit_in_bytes"
    (own / limit).write_text(str(size))
    script = f'echo $$ > {own}/cgroup.procs; mount --bind {own} {at}; exec "$@"'
    try:
        yield (*OWN_NAMESPACE, script, "limited")
    finally:
        until("the cgroup to be empty", lambda: _removed(own), seconds=30)


def prepared(script: str) -> tuple[str, ...]:
    """A prefix for commands, which run after `script` in a mount namespace of their own."""
    return (*OWN_NAMESPACE, f'{script}; exec "$@"', "prepared")


def _removed(own: Path) -> bool:
    for pid in (own / "cgroup.procs").read_text().split():
        subprocess.run(["kill", "-KILL", pid], check=False, capture_output=True)
    try:
        own.rmdir()
    except OSError:  # a process that is still dying holds it
        return False
    return True
