"""A control plane without nodes: etcd, kube-apiserver and kube-controller-manager on loopback.

For tests of the operator that need the real API (server-side apply, preconditions, garbage
collection, watches) but no running pod: nothing plays kubelet unless the test does.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import create_default_context
from typing import Final

import yaml
from tests.support.onenode import COMMAND, ROOT, CommandError, run
from tests.support.ports import free_port
from tests.support.waiting import until

ADMIN: Final = "admin"
START_SECONDS: Final = 60
BUILD_SECONDS: Final = 40 * 60
PROGRAMS_VARIABLE: Final = "KINDLING_CLUSTER_BIN"
"""Folder with the Kubernetes programs; by default they are built and cached by `cluster build`."""

_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def programs() -> Path:
    """The folder with etcd, kube-apiserver and kube-controller-manager; built if need be."""
    given = os.environ.get(PROGRAMS_VARIABLE)
    if given:
        return Path(given)
    return Path(run(COMMAND, "build", "core", seconds=BUILD_SECONDS).split()[-1])


@dataclass(slots=True)
class ControlPlane:
    """The three processes, and what a test does to them. `folder` holds state and logs."""

    folder: Path
    users: tuple[str, ...] = (ADMIN,)
    admins: frozenset[str] = frozenset({ADMIN})
    api_port: int = field(default_factory=free_port)
    _etcd_ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    _tokens: dict[str, str] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _bin: Path = field(default_factory=programs)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    def start(self) -> None:
        """Start everything and wait until the API server is ready and has the CRD."""
        self._write_files()
        self.start_part("etcd")
        self.start_part("kube-apiserver")
        self.wait_ready()
        # A running controller manager would take up to 30 s to see that the kind has owners.
        self._kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        until(
            "the API server to serve the CRD's kind",
            lambda: self._kubectl("get", "inferencemodels", "-A") or True,
            seconds=START_SECONDS,
            every=0.1,
            forgive=(CommandError,),
        )
        self.start_part("kube-controller-manager")

    def stop(self) -> None:
        """End everything; etcd's files stay in the folder."""
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            self.kill_part(name)

    def start_part(self, name: str) -> None:
        """Start one of the three processes; its log is NAME.log in the folder."""
        log = (self.folder / f"{name}.log").open("ab")
        arguments = {
            "etcd": self._etcd_arguments,
            "kube-apiserver": self._apiserver_arguments,
            "kube-controller-manager": self._controller_arguments,
        }[name]()
        self._running[name] = subprocess.Popen(
            [str(self._bin / name), *arguments], stdout=log, stderr=log, cwd=self.folder
        )
        log.close()

    def kill_part(self, name: str) -> None:
        """SIGKILL one of the three processes; no error if it is not running."""
        process = self._running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait(timeout=30)

    def restart(self, *names: str) -> None:
        """Kill these and start them again, in this order, each when the API server is ready."""
        for name in names:
            self.kill_part(name)
            self.start_part(name)
            self.wait_ready()

    def freeze_part(self, name: str, *, frozen: bool) -> None:
        """SIGSTOP or SIGCONT: the process keeps its connections and answers nothing."""
        self._running[name].send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def wait_ready(self) -> None:
        """Wait until the API server answers that it is ready."""
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self._tokens[ADMIN]}"}
        )

        def ready() -> bool:
            running = self._running["kube-apiserver"]
            assert running.poll() is None, self._tail("kube-apiserver")
            # The API server makes its own certificate when it starts for the first time.
            trust = create_default_context(cafile=str(self.folder / "pki" / "apiserver.crt"))
            with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
                return bool(answer.status == 200)

        until(
            "the API server to be ready",
            ready,
            seconds=START_SECONDS,
            every=0.1,
            forgive=(OSError,),
            show=lambda: self._tail("kube-apiserver"),
        )

    def kubeconfig(self, user: str = ADMIN, *, server: str | None = None) -> Path:
        """A kubeconfig file for one of `users`; `server` for a way through a proxy."""
        way = f"-{server.rpartition(':')[2]}" if server else ""
        path = self.folder / f"{user}{way}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": server or self.url,
                        "certificate-authority": str(self.folder / "pki" / "apiserver.crt"),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(content))
        return path

    @property
    def audit_log(self) -> Path:
        """For `tests.support.audit`."""
        return self.folder / "audit.log"

    @property
    def environment(self) -> dict[str, str]:
        """For `tests.support.kube.Kube`: admin's kubeconfig, and kubectl on the PATH."""
        path = f"{self._bin}:{os.environ['PATH']}"
        return {"KUBECONFIG": str(self.kubeconfig()), "PATH": path, "HOME": str(self.folder)}

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._tokens:
            self._tokens.update({user: secrets.token_hex(16) for user in self.users})
        lines = [
            f"{token},{user},{user},{'system:masters' if user in self.admins else 'operators'}\n"
            for user, token in self._tokens.items()
        ]
        (self.folder / "tokens.csv").write_text("".join(lines))
        (self.folder / "audit.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        key = self.folder / "sa.key"
        if not key.exists():
            _openssl("genrsa", "-out", str(key), "2048")
            _openssl("rsa", "-in", str(key), "-pubout", "-out", str(self.folder / "sa.pub"))

    def _etcd_arguments(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._etcd_ports)
        return [
            "--name=test",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
        ]

    def _apiserver_arguments(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_ports[0]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.api_port}",
            f"--cert-dir={self.folder / 'pki'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'sa.pub'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # Nodes are on paper here: nobody would take the taint of a new one away.
            "--disable-admission-plugins=TaintNodesByCondition",
            "--profiling=false",
            f"--audit-policy-file={self.folder / 'audit.yaml'}",
            f"--audit-log-path={self.audit_log}",
        ]

    def _controller_arguments(self) -> list[str]:
        kubeconfig = str(self.kubeconfig())
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--leader-elect=false",
            "--profiling=false",
            "--controllers=*,-node-lifecycle-controller",
        ]

    def _kubectl(self, *command: str) -> str:
        return run("kubectl", *command, seconds=START_SECONDS, env=self.environment)

    def _tail(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-1500:]


@contextmanager
def control_plane(folder: Path, *users: str, admins: bool = True) -> Iterator[ControlPlane]:
    """A control plane for the duration of a with block, with a token user per name of `users`.

    `admins` puts the users into system:masters; without it they have no rights until bound.
    """
    everyone = (ADMIN, *users)
    plane = ControlPlane(folder, users=everyone, admins=frozenset(everyone if admins else (ADMIN,)))
    started = time.monotonic()
    try:
        plane.start()
        print(f"control plane ready in {time.monotonic() - started:.1f} s", file=sys.stderr)
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder / "etcd", ignore_errors=True)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
