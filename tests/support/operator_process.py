"""The operator as a process of this machine: started, killed and frozen by a test."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.apiserver import ControlPlane
from tests.support.kube import AWAY, Kube
from tests.support.onenode import ROOT
from tests.support.ports import free_port
from tests.support.waiting import until

from kindling_operator.kube.kinds import LEASE

NAMESPACE: Final = "kindling-system"
LEASE_NAME: Final = "kindling-operator"
ENTRY: Final = "kindling_operator"
FAULTY_ENTRY: Final = "tests.support.faulty_operator"

QUICK: Final[Mapping[str, str]] = {
    "KINDLING_CUDA_IMAGE": "registry.example.com/kindling/runtime@sha256:" + "1" * 64,
    "KINDLING_CPU_IMAGE": "registry.example.com/kindling/runtime-cpu@sha256:" + "2" * 64,
    "KINDLING_POD_NAMESPACE": NAMESPACE,
    "KINDLING_LEASE_NAME": LEASE_NAME,
    "KINDLING_LEASE_DURATION": "4s",
    "KINDLING_RENEW_DEADLINE": "3s",
    "KINDLING_RETRY_PERIOD": "250ms",
    "KINDLING_AUDIT_INTERVAL": "1s",
    "KINDLING_AUDIT_GRACE": "4s",
    "KINDLING_PROVE_ENDPOINT": "false",
}
"""Settings with windows that a test can wait for; production's are four times as long. Pods exist
on paper only and cannot be asked."""

LEAD_SECONDS: Final = 90
STOP_SECONDS: Final = 60


@dataclass(slots=True)
class OperatorProcess:
    """One operator. `user` is a user of the control plane; it is also the pod's name.

    `server` is another way to the API server, through a proxy; `settings` are laid over QUICK;
    `entry` is the module that is run.
    """

    plane: ControlPlane
    user: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    server: str | None = None
    entry: str = ENTRY
    health_port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    _running: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.user}.log"

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    @property
    def ended(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        assert self._running is not None
        return self._running.poll()

    def start(self) -> None:
        """Start it; nothing is awaited."""
        environment = {
            **os.environ,
            **QUICK,
            "KUBECONFIG": str(self.plane.kubeconfig(self.user, server=self.server)),
            "KINDLING_POD_NAME": self.user,
            "KINDLING_HEALTH_PORT": str(self.health_port),
            "KINDLING_METRICS_PORT": str(self.metrics_port),
            **self.settings,
        }
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                [sys.executable, "-m", self.entry],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._running is not None and self.ended is None:
            self._running.kill()
            self._running.wait(timeout=STOP_SECONDS)

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._running is not None
        self._running.send_signal(signal.SIGTERM)
        return self.wait(seconds=STOP_SECONDS)

    def wait(self, *, seconds: float) -> int:
        """Wait until it ends; its exit code."""
        assert self._running is not None
        return self._running.wait(timeout=seconds)

    def freeze(self, *, frozen: bool) -> None:
        """SIGSTOP or SIGCONT."""
        os.kill(self.pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    @property
    def frozen(self) -> bool:
        """Whether it is stopped, by whatever signal."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def leads(self, kube: Kube) -> bool:
        """Whether the Lease names it."""
        lease = kube.get(LEASE, LEASE_NAME, NAMESPACE)
        holder = str((lease or {}).get("spec", {}).get("holderIdentity") or "")
        return holder.startswith(f"{self.user}_")

    def wait_leading(self, kube: Kube) -> None:
        """Wait until the Lease names it."""

        def look() -> bool:
            assert self.ended is None, self.tail()
            return self.leads(kube)

        until(
            f"{self.user} to lead",
            look,
            seconds=LEAD_SECONDS,
            every=0.1,
            show=self.tail,
            forgive=AWAY,
        )

    def health(self) -> tuple[int, str]:
        """Status and body of /healthz; 0 while it does not listen."""
        url = f"http://127.0.0.1:{self.health_port}/healthz"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str) -> float:
        """The sum of all series of a metric."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def lines(self) -> list[dict[str, Any]]:
        """The log's JSON lines."""
        text = self.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in text if line.startswith("{")]

    def tail(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-3000:]
