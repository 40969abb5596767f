"""Process 1 of a pod: what it starts, inherits, refuses and leaves behind."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_runtime import contract
from kindling_runtime.contract import BIND_HOST, ExitCode, Phase, Reason

REFUSED_WITHIN = 5 + pods.ROOM
"""A process that starts, looks and ends."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_an_orphan_of_the_engine_is_reaped(model: Path, tmp_path: Path) -> None:
    plan = pods.plan_for(model, switches=["--orphan"])
    async with pods.running(plan, tmp_path, as_process_1=True) as pod:
        await pod.reach(Phase.READY)
        (orphan,) = [pid for pid, line in pod.descendants().items() if "print('orphan'" in line]
        os.kill(orphan, signal.SIGKILL)
        await pods.until(lambda: not pods.is_running(orphan))

        assert "kindling_runtime_orphans_reaped_total 1.0" in await pod.metrics()
        assert await pod.ready()

        pod.terminate()
        assert await pod.exit_status() == ExitCode.CLEAN
        assert pod.message.startswith("the engine ended cleanly ")


async def test_the_engines_status_is_told_though_its_orphans_hold_the_log(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        "dies and its children outlive it",
        "they are killed and reaped, the exit status is the engine's",
    )
    plan = pods.plan_for(model, switches=["--orphan"])
    async with pods.running(plan, tmp_path, as_process_1=True) as pod:
        await pod.reach(Phase.READY)
        family = pod.descendants()
        fault.begins()
        await pod.fault(exit=4, says="ValueError: four")

        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(1 + pods.ROOM, "exit 70")
        assert pod.message == "the engine exited with status 4: ValueError: four"
        assert not any(pods.is_running(pid) for pid in family)


async def test_the_engine_gets_the_plan_and_the_containers_environment(
    model: Path, tmp_path: Path
) -> None:
    plan = pods.plan_for(model, env={"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"})
    given = {"HF_TOKEN": "secret", "HF_HUB_OFFLINE": "0", "VLLM_SERVER_DEV_MODE": "1"}
    async with pods.running(plan, tmp_path, env=given) as pod:
        await pod.reach(Phase.READY)
        seen = await pod.seen()

        assert tuple(seen["argv"]) == plan.engine.argv[1:]
        assert seen["environment"]["VLLM_CPU_KVCACHE_SPACE"] == "1"
        assert seen["environment"]["HF_TOKEN"] == "secret"
        assert seen["environment"]["HF_HUB_OFFLINE"] == "1"
        assert seen["environment"]["PYTHONUNBUFFERED"] == "1"
        assert seen["environment"]["VLLM_SERVER_DEV_MODE"] == "0"
        assert not any("secret" in line for line in pod.descendants().values())


async def test_what_the_engine_prints_is_passed_on(model: Path, tmp_path: Path) -> None:
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        status = await pod.reach(Phase.READY)

        assert f"standin: process {status.engine.pid}\n" in pod.log


async def test_shared_memory_of_an_earlier_engine_is_removed(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.POD,
        "shared memory left by a killed engine",
        "removed before the engine starts, counted",
    )
    shared_memory = tmp_path / "shm"
    shared_memory.mkdir()
    (shared_memory / "psm_1").write_bytes(b"x" * 8192)
    (shared_memory / "other").write_bytes(b"x")
    fault.begins()
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        await pods.until(lambda: not (shared_memory / "psm_1").exists())
        fault.within(2 + pods.ROOM, "removed")
        await pod.reach(Phase.READY)

        assert [entry.name for entry in shared_memory.iterdir()] == ["other"]
        assert "kindling_runtime_leftover_bytes_removed_total 8192.0" in await pod.metrics()


async def test_an_unknown_contract_version_is_refused(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.POD, "a plan of another contract version", "exit 64, one sentence")
    fault.begins()
    data = contract.encode(pods.plan_for(model)).replace(b'"version":3', b'"version":9')

    assert await pods.run_to_end(data, tmp_path) == (
        ExitCode.CONTRACT,
        "ContractRefused: the launch plan has contract version 9, this runtime speaks version 3; "
        "use the runtime image of the operator's own release",
    )
    fault.within(REFUSED_WITHIN, "exit 64")


@pytest.mark.parametrize("owner", ["engine", "runtime"])
async def test_a_taken_port_is_refused(
    model: Path, tmp_path: Path, owner: str, fault: Fault
) -> None:
    fault.row(Kind.POD, f"the port of the {owner} is taken", "exit 78, one sentence")
    plan = pods.plan_for(model)
    port = plan.engine.port if owner == "engine" else plan.runtime_port
    with socket.socket() as taken:
        taken.bind((BIND_HOST, port))
        taken.listen()

        fault.begins()
        status, words = await pods.run_to_end(contract.encode(plan), tmp_path)
        assert (status, *contract.read_last_words(words)) == (
            ExitCode.PREFLIGHT,
            Reason.PREFLIGHT_FAILED,
            f"port {port} of the {owner} cannot be bound "
            "(Address already in use); free it in the pod, or plan another",
        )
        fault.within(REFUSED_WITHIN, "exit 78")


async def test_a_command_that_the_kernel_cannot_run_is_refused(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.POD, "an engine that the kernel cannot run", "exit 78, one sentence")
    script = tmp_path / "engine"
    script.write_bytes(b"\x00\x01")
    script.chmod(0o755)
    plan = pods.plan_for(model)
    plan = msgspec.structs.replace(
        plan, engine=msgspec.structs.replace(plan.engine, argv=(str(script),))
    )
    fault.begins()

    status, words = await pods.run_to_end(contract.encode(plan), tmp_path)
    assert (status, *contract.read_last_words(words)) == (
        ExitCode.PREFLIGHT,
        Reason.PREFLIGHT_FAILED,
        f"the engine's command {script} cannot be run (Exec format error); "
        "use the runtime image of the operator's own release",
    )
    fault.within(REFUSED_WITHIN, "exit 78")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["version"], ExitCode.CLEAN, "kindling-runtime 0.1.0 (contract version 3)\n"),
        (["serve"], ExitCode.CONTRACT, "the following arguments are required: --plan"),
        (["run"], ExitCode.CONTRACT, "invalid choice: 'run'"),
        (
            ["serve", "--plan", "/nowhere/plan.json"],
            ExitCode.CONTRACT,
            "the launch plan /nowhere/plan.json cannot be read: No such file or directory; "
            "mount the ConfigMap of the revision there",
        ),
    ],
)
def test_the_command_line(arguments: list[str], status: ExitCode, text: str) -> None:
    done = subprocess.run(
        [pods.RUNTIME, *arguments], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == status
    assert text in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
