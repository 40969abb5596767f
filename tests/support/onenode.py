"""The one-node Kubernetes of this machine, through its own command line (`cluster/cluster`)."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Final

from tests.support.kube import Object
from tests.support.waiting import Say

ROOT: Final = Path(__file__).resolve().parents[2]
COMMAND: Final = ROOT / "tests" / "support" / "cluster" / "cluster"

TEST_CLUSTER: Final = os.environ.get("KINDLING_TEST_CLUSTER", "test")
"""The cluster of tests, bench and soak; another name lets two suites run at once."""

UP_SECONDS: Final = 40 * 60
"""A cold `up` builds Kubernetes from source: 634 s on two idle cores, more on busy ones."""


class CommandError(AssertionError):
    """A program of the repository ended with an error; the text holds the end of its output."""


def run(
    *command: str | Path,
    seconds: float,
    say: Say | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a program; returns its stdout, tells `say` each line of its stderr as it comes.

    Raises CommandError if it fails, subprocess.TimeoutExpired if it takes longer than `seconds`.
    """
    told: list[str] = []
    with subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=None if env is None else dict(env),
    ) as process:
        assert process.stderr is not None
        reader = threading.Thread(target=_tell, args=(process.stderr, told, say), daemon=True)
        reader.start()
        deadline = threading.Timer(seconds, process.terminate)
        deadline.start()
        try:
            out = process.stdout.read() if process.stdout else ""
            code = process.wait()
        finally:
            expired = not deadline.is_alive()
            deadline.cancel()
            reader.join(timeout=5)
    if expired:
        raise subprocess.TimeoutExpired(str(command[0]), seconds, out, "\n".join(told))
    if code != 0:
        tail = "\n".join([*told[-20:], *out.splitlines()[-5:]])
        raise CommandError(f"{' '.join(map(str, command))} ended with {code}:\n{tail}")
    return out


@contextmanager
def heard(
    command: Sequence[str], hear: Callable[[str], None], *, seconds: float, ends: bool = False
) -> Iterator[None]:
    """Run a program while the block runs and hear each line as it comes. Then it is told to end,
    unless it `ends` by itself, and is heard for at most `seconds` more."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=_hear, args=(process.stdout, hear), daemon=True)
        reader.start()
        try:
            yield
        finally:
            if not ends:
                process.terminate()
            reader.join(timeout=seconds)


def _hear(lines: IO[str], hear: Callable[[str], None]) -> None:
    for line in lines:
        hear(line)


def _tell(stream: IO[str], told: list[str], say: Say | None) -> None:
    for line in stream:
        told.append(line.rstrip())
        if say is not None:
            say(f"  {told[-1]}")


class Cluster:
    """One named cluster of this machine."""

    def __init__(self, name: str = TEST_CLUSTER, *, say: Say = print) -> None:
        self.name = name
        self.say = say

    def up(self) -> None:
        """Start it, and build what it needs; does nothing if it is up."""
        self._call("up", seconds=UP_SECONDS, say=self.say)

    def build(self, *groups: str) -> None:
        """Build groups of programs, for example helm3, that `up` does not need."""
        self._call("build", *groups, seconds=UP_SECONDS, say=self.say)

    @cached_property
    def environment(self) -> dict[str, str]:
        """Environment in which kubectl, helm and the registry of this cluster are found."""
        script = 'eval "$("$0" --name "$1" env)" && exec env -0'
        out = run("bash", "-c", script, COMMAND, self.name, seconds=30)
        pairs = (entry.partition("=") for entry in out.split("\0") if entry)
        return {name: value for name, _, value in pairs}

    @property
    def registry(self) -> str:
        """HOST:PORT of the cluster's registry, the same inside and outside."""
        return self.environment["KINDLING_REGISTRY"]

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, a line of JSON per request."""
        return Path(self.environment["KUBECONFIG"]).parent / "var/log/onenode/audit.log"

    def inside(self, *command: str) -> list[str]:
        """The command line that runs `command` in the cluster's network."""
        return [str(COMMAND), "--name", self.name, "exec", "--", *command]

    def python(self, module: str, *arguments: str) -> list[str]:
        """The command line of one of our modules in the cluster's network."""
        return self.inside(sys.executable, "-m", module, *arguments)

    def node(self, *command: str, seconds: float = 60) -> str:
        """Output of a command run inside the node: its processes, mounts and files."""
        return self._call("node", "--", *command, seconds=seconds)

    def addon(self, name: str) -> None:
        """Add a part that `up` leaves out, for example netpol; built when first asked for."""
        self._call("addon", name, seconds=UP_SECONDS, say=self.say)

    def hold(self, component: str) -> None:
        """Stop a component and keep it down."""
        self._call("hold", component)

    def release(self, component: str) -> None:
        """Let a held component run again."""
        self._call("release", component)

    def kill(self, component: str) -> None:
        """kill -9; it comes back by itself."""
        self._call("kill", component)

    def volume(self, name: str, folder: Path) -> None:
        """Copy a folder into the node and make a PersistentVolume of it."""
        self._call("volume", name, str(folder), seconds=180)

    def logs(self, folder: Path) -> None:
        """Collect every log and the cluster's objects in a folder, as far as there are any."""
        self._call("logs", str(folder), seconds=180)

    def processes(self, pod: Object) -> dict[int, str]:
        """Pids (of the node) of a pod's `engine` container and their names, parents first."""
        uid = pod["metadata"]["uid"]
        script = (
            'for p in /proc/[0-9]*; do grep -qs "$0" "$p/cgroup" || continue;'
            ' read -r n < "$p/comm" 2>/dev/null && echo "${p#/proc/} $n"; done | sort -n'
        )
        out = self.node("bash", "-c", script, uid)
        found = (line.partition(" ") for line in out.splitlines())
        return {int(pid): name for pid, _, name in found if name != "pause"}

    def resident_mib(self, pid: int) -> float:
        """Resident memory of a process of the node, in MiB."""
        status = self.node("cat", f"/proc/{pid}/status")
        kibibytes = next(line.split()[1] for line in status.splitlines() if "VmRSS" in line)
        return int(kibibytes) / 1024

    def _call(self, *command: str, seconds: float = 60, say: Say | None = None) -> str:
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return run(COMMAND, "--name", self.name, *command, seconds=seconds, say=say, env=env)
