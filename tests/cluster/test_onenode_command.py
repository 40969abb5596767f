"""The cluster's command line: safe to repeat, to interrupt and to kill; faults; one sentence.

Everything here happens to a cluster of its own, beside the one that the other tests share.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.support.kube import Kube, KubectlError
from tests.support.onenode import COMMAND, Cluster, CommandError, run
from tests.support.waiting import Say, until

pytestmark = pytest.mark.cluster

NAME: Final = "claims"
BARE: Final = {"KINDLING_CLUSTER_PROVIDER": "bare"}


@pytest.fixture(scope="module")
def cluster(say: Say) -> Iterator[Cluster]:
    """The cluster `claims`, from nothing; nothing of it stays."""
    found = Cluster(NAME, say=say)
    _command("down", "--purge")
    found.up()
    yield found
    _command("down", "--purge")


@pytest.fixture
def up(cluster: Cluster) -> Cluster:
    """It is up, whatever the test before did to it."""
    cluster.up()
    return cluster


@pytest.fixture
def kube(up: Cluster, say: Say) -> Iterator[Kube]:
    """Its API, as its admin."""
    found = Kube(up.environment, say=say)
    yield found
    found.close()


def _command(
    *words: str,
    under: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    seconds: float = 120,
) -> str:
    """What the cluster's command prints; `under` is a command that runs it."""
    env = {**os.environ, **(environment or {})}
    return run(*under, COMMAND, "--name", NAME, *words, seconds=seconds, env=env)


def _refusal(
    *words: str, under: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> str:
    """The one sentence with which it refuses, without the name in front."""
    with pytest.raises(CommandError) as caught:
        _command(*words, under=under, environment=environment)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("cluster: ")]
    return lines[-1].removeprefix("cluster: ")


def _state(cluster: Cluster) -> Path:
    return Path(cluster.environment["KUBECONFIG"]).parent


def _launcher(cluster: Cluster) -> int:
    return int((_state(cluster) / "pid").read_text().split()[0])


def _interrupt(*words: str, after: float, environment: Mapping[str, str] | None = None) -> None:
    """Ctrl-C: SIGINT to the command and everything that it runs in the foreground."""
    process = subprocess.Popen(
        [str(COMMAND), "--name", NAME, *words],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )
    time.sleep(after)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=30)


def test_up_again_changes_nothing(up: Cluster) -> None:
    launcher = _launcher(up)
    up.up()

    assert _launcher(up) == launcher
    assert "registry localhost:" in _command("status")


@pytest.mark.parametrize("after", [0.3, 1.0, 3.0])
def test_an_interrupted_up_is_finished_by_the_next(cluster: Cluster, after: float) -> None:
    _command("down")
    _interrupt("up", after=after)
    cluster.up()

    assert "Ready" in run(*cluster.inside("kubectl", "get", "nodes"), seconds=30)


def test_after_kill_9_of_everything_up_starts_anew(up: Cluster) -> None:
    launcher = _launcher(up)
    os.kill(launcher, signal.SIGKILL)
    with pytest.raises(CommandError, match="not up"):
        _command("status")
    up.up()

    assert _launcher(up) != launcher
    assert "Ready" in run(*up.inside("kubectl", "get", "nodes"), seconds=30)


def test_images_and_ports_outlive_down_and_up(up: Cluster) -> None:
    archive = Path(_command("build", "echo", seconds=600).strip()) / "images" / "echo.tar"
    image = f"{up.registry}/claims/echo:1"
    run("buildah", "pull", "--quiet", f"docker-archive:{archive}", seconds=60)
    run("buildah", "push", "--quiet", "--tls-verify=false", "localhost/echo:1", image, seconds=60)
    up.node("crictl", "pull", image)

    _command("down")
    up.up()
    assert f"export KINDLING_REGISTRY={up.registry}" in _command("env")
    assert "claims/echo" in run("curl", "-fsS", f"http://{up.registry}/v2/_catalog", seconds=10)
    assert "claims/echo" in up.node("crictl", "images")


@pytest.mark.parametrize(
    "component",
    [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "containerd",
        "relay",
        "registry",
    ],
)
def test_a_killed_component_comes_back(up: Cluster, kube: Kube, component: str) -> None:
    pid_file = _state(up) / "run" / "onenode" / f"{component}.pid"
    before = pid_file.read_text()
    up.kill(component)

    def another() -> bool:
        return pid_file.exists() and pid_file.read_text() not in {"", before}

    until(f"{component} to come back", another, seconds=30, say=kube.say)
    until(
        "the API server to answer",
        lambda: kube.kubectl("get", "--raw", "/readyz") == "ok",
        seconds=60,
        say=kube.say,
        forgive=(KubectlError,),
    )


def test_a_held_component_stays_down_until_released(up: Cluster, kube: Kube) -> None:
    up.hold("kube-apiserver")
    with pytest.raises(KubectlError):
        kube.kubectl("get", "--raw", "/readyz")
    assert "kube-apiserver: held down" in _command("status")
    up.release("kube-apiserver")

    assert kube.kubectl("get", "--raw", "/readyz") == "ok"


def test_up_releases_what_a_dead_test_left_held(up: Cluster, kube: Kube) -> None:
    up.hold("etcd")
    up.hold("kube-apiserver")
    up.up()

    assert kube.kubectl("get", "--raw", "/readyz") == "ok"


def test_relay_cut_ends_a_watch_and_nothing_else(up: Cluster, kube: Kube) -> None:
    command = ("kubectl", "get", "namespaces", "--watch", "-o", "name")
    with subprocess.Popen(command, env=kube.environment, stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().startswith(b"namespace/")
        _command("relay", "cut")
        watch.wait(timeout=30)

    assert kube.kubectl("get", "--raw", "/readyz") == "ok"


def test_logs_never_fail_and_hold_what_there_is(up: Cluster, kube: Kube, tmp_path: Path) -> None:
    up.logs(tmp_path / "running")
    up.hold("kube-apiserver")
    up.logs(tmp_path / "broken")
    up.release("kube-apiserver")

    for folder in (tmp_path / "running", tmp_path / "broken"):
        assert (folder / "components" / "kube-apiserver.log").stat().st_size > 0
        assert list(folder.glob("pods/kube-system_coredns-*/coredns/*.log"))
    assert "kind: Deployment" in (tmp_path / "running" / "objects.yaml").read_text()
    assert "held down" in (tmp_path / "broken" / "status.txt").read_text()


def test_two_builds_at_once_build_once(tmp_path: Path) -> None:
    env = {**os.environ, "KINDLING_CACHE": str(tmp_path)}
    command = [str(COMMAND), "build", "echo"]
    both = [
        subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    told = [process.communicate(timeout=900) for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert told[0][0] == told[1][0]
    assert sum("built echo" in err for _, err in told) == 1
    assert "built" not in run(*command, seconds=60, env=env)


def test_an_interrupted_build_leaves_nothing_that_looks_built(tmp_path: Path) -> None:
    cache = {"KINDLING_CACHE": str(tmp_path)}
    _interrupt("build", "echo", after=0.4, environment=cache)
    for built in tmp_path.glob("bin/echo-*"):  # a fast machine was done before the interrupt
        assert (built / "images" / "echo.tar").exists()
    folder = Path(_command("build", "echo", seconds=900, environment=cache).strip())

    assert (folder / "images" / "echo.tar").stat().st_size > 1_000_000


def test_who_is_not_root_is_told_so() -> None:
    said = _refusal("prerequisites", under=("unshare", "--user"), environment=BARE)

    assert re.fullmatch(r"the bare provider must be root .* use sudo, .*", said)


def test_a_full_disk_is_named_with_its_number() -> None:
    small = (
        "unshare",
        "--mount",
        "bash",
        "-c",
        'mount -t tmpfs -o size=64m none /mnt && "$@"',
        "-",
    )
    said = _refusal("prerequisites", under=small, environment={**BARE, "KINDLING_CACHE": "/mnt"})

    assert said.startswith("/mnt has 0 GiB free and 3 GiB are needed: free some")


def test_a_kernel_that_may_not_is_named() -> None:
    unable = ("setpriv", "--bounding-set=-sys_admin,-sys_module", "--inh-caps=-all")
    said = _refusal("prerequisites", under=unable, environment=BARE)

    assert said.startswith("this kernel cannot do 'network namespaces':")


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        (("frobnicate",), {}, "there is no command 'frobnicate'"),
        (("build", "nothing"), {}, "there is no group 'nothing': it must be one of core"),
        (("addon", "nothing"), {}, "there is no addon 'nothing': it must be echo"),
        (("volume", "x", "/nowhere"), {}, "there is no folder '/nowhere'"),
        (
            ("prerequisites",),
            {"KINDLING_CACHE": "/" + "x" * 70},
            "characters too long for unix sockets",
        ),
        (("prerequisites",), {"KINDLING_CACHE": "/var/lib/x"}, "may not be under /run, /var/lib"),
        (("status",), {"KINDLING_CACHE": "x"}, "must be an absolute path"),
        (("env",), {"KINDLING_CACHE": "/tmp/none"}, "cluster claims is not up: run "),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    words: tuple[str, ...], environment: dict[str, str], sentence: str
) -> None:
    assert sentence in _refusal(*words, environment={**BARE, **environment})


def test_an_unknown_component_is_told_the_known_ones(up: Cluster) -> None:
    said = _refusal("kill", "nothing")

    assert said.startswith("there is no component 'nothing': it must be one of containerd etcd")
