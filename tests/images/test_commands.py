"""Every command that the planner renders is read by vLLM's own argument parser, as it is meant."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.images.built import build, container, inside
from tests.support.builders import Cluster, catalog_spec, gpu_node
from tests.support.onenode import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SCRIPT: Final = Path(__file__).with_name("parse_commands.py")
LEADER: Final = "10.0.0.1"


def parsed(commands: list[list[str]]) -> list[dict[str, Any]]:
    """What vLLM reads of each command."""
    with container(build("runtime-cpu")) as name:
        out = inside(name, "python", "-c", SCRIPT.read_text(), given=json.dumps(commands))
    found: list[dict[str, Any]] = json.loads(out.splitlines()[-1])
    return found


def commands_of(plan: dict[str, Any]) -> list[list[str]]:
    """The command of each pod of a stored plan, without ``vllm serve``."""
    argv = plan["argv"]
    assert argv[:2] == ["vllm", "serve"]
    ranks = (plan.get("group") or {}).get("rankArguments") or [[]]
    return [
        [*argv[2:], *(argument.replace("{leader}", LEADER) for argument in rank)] for rank in ranks
    ]


def golden() -> dict[str, dict[str, Any]]:
    """The stored plan of every golden manifest."""
    found = {}
    for path in sorted((ROOT / "tests" / "golden" / "manifests").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document["kind"] == "ControllerRevision":
                found[path.stem] = document["data"]["plan"]
    return found


def test_every_golden_command_is_read() -> None:
    plans = golden()
    commands = [command for plan in plans.values() for command in commands_of(plan)]

    answers = parsed(commands)

    assert len(plans) >= 8
    assert [a["error"] for a in answers if "error" in a] == []
    assert {a["model_tag"] for a in answers} == {command[0] for command in commands}


def planned(spec: Any, product: str = "NVIDIA-B200") -> list[str]:
    """The command of a spec on one node."""
    current = Cluster(nodes=(gpu_node("gpu-0", product),)).apply(spec).decide().current
    assert current is not None
    return list(current.plan.argv[2:])


def test_every_option_means_what_the_plan_says() -> None:
    """A tier, media, adapters, an encoder cache and kernels are read with their values."""
    flint = catalog_spec("flint", cache={"hostMemory": "64Gi"})
    domains = {"mediaDomains": ["b.example.com", "a.example.com"]}
    adapters = [{"name": n, "uri": f"pvc://weights/{n}"} for n in ("one", "two")]
    inkling = catalog_spec(
        "inkling",
        serving={**domains, "adapters": adapters},
        cache={"hostMemory": 0, "encoderMemory": "8Gi"},
    )

    tier, media, broken = parsed([planned(flint), planned(inkling), ["/m", "--no-such-option=1"]])

    assert "unrecognized arguments: --no-such-option=1" in broken["error"]
    assert tier["backend_per_kind"] == {
        "full_attention": "FLASHINFER",
        "sliding_window": "FLASHINFER",
    }
    assert "'blocks_per_chunk': 24" in tier["kv_transfer_config"]
    assert f"'cpu_bytes_to_use': {64 << 30}" in tier["kv_transfer_config"]
    assert tier["prefix_cache_retention_interval"] == 4608
    assert media["allowed_media_domains"] == ["a.example.com", "b.example.com"]
    assert media["limit_mm_per_prompt"] == {"audio": 2, "image": 8}
    assert media["lora_modules"] == [["one", "/mnt/weights/one"], ["two", "/mnt/weights/two"]]
    assert f"'ec_cpu_bytes': {8 << 30}" in media["ec_transfer_config"]
    assert media["kv_transfer_config"] is None
