"""Ways in which vLLM 0.33 fails with a KV cache tier, by number, each through `kindling plan`.

docs/traps.md says what catches each; `make mutation` takes that away and expects a failure here.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.planning import Said
from tests.support.trap_planner import Planner, b200s, fixed

from kindling_operator.render.quantities import memory_quantity

GIB: Final = 1 << 30


@pytest.fixture
def plan(tmp_path: Path) -> Planner:
    return Planner(tmp_path)


def test_t13_a_tier_does_not_span_nodes(plan: Planner) -> None:
    stages = {"parallelism": {"tensor": 8, "pipeline": 2}}

    said = plan.model("inkling", *b200s(2), placement=stages, cache={"hostMemory": "200Gi"})

    assert (said.code, said.reason) == (1, "UnsupportedParallelism")
    assert "spec.cache.hostMemory 200Gi lies in the memory of one node" in said.message


def test_t13_none_is_chosen_where_the_engine_spans_nodes(plan: Planner) -> None:
    stages = {"parallelism": {"tensor": 8, "pipeline": 2}}

    assert plan.model("inkling", *b200s(2), placement=stages).option("--kv-transfer-config") == ""
    assert plan.model("inkling", *b200s()).option("--kv-transfer-config") != ""


def connector(said: Said) -> Mapping[str, Any]:
    """What the offloading connector is told."""
    found: Mapping[str, Any] = json.loads(said.option("--kv-transfer-config"))
    return found


def shared_memory(said: Said) -> int:
    """Bytes of /dev/shm."""
    [shm] = [v["emptyDir"]["sizeLimit"] for v in said.pod["volumes"] if v["name"] == "shm"]
    units = {"Gi": GIB, "Mi": 1 << 20}
    return int(shm[:-2]) * units[shm[-2:]]


def test_t14_the_tier_fits_shared_memory_and_the_pods_limit(plan: Planner) -> None:
    with_tier = plan.model("flint", cache={"hostMemory": "200Gi"})
    without = plan.model("flint", cache={"hostMemory": 0})
    size = connector(with_tier)["kv_connector_extra_config"]["cpu_bytes_to_use"]

    assert size == 200 * GIB
    assert shared_memory(with_tier) - shared_memory(without) == size
    assert with_tier.plan["pod"]["memory"] - without.plan["pod"]["memory"] == size
    limit = with_tier.pod["containers"][0]["resources"]["limits"]["memory"]
    assert limit == memory_quantity(with_tier.plan["pod"]["memory"])


def test_t14_the_size_is_for_a_pod_and_divided_among_its_engines(plan: Planner) -> None:
    said = plan.model(
        "inkling",
        *b200s(),
        placement={"parallelism": {"tensor": 4, "data": 2, "expert": True}},
        cache={"hostMemory": "200Gi"},
    )

    assert connector(said)["kv_connector_extra_config"]["cpu_bytes_to_use"] == 100 * GIB
    assert said.plan["hostTier"]["bytes"] == 200 * GIB


@pytest.mark.parametrize(("name", "draft"), [("flint", None), ("inkling", 4)])
def test_t15_chunks_are_counted_in_blocks(plan: Planner, name: str, draft: int | None) -> None:
    said = plan.model(name, *b200s(), serving=fixed(draft) if draft else {})
    extra = connector(said)["kv_connector_extra_config"]
    longest = {"flint": 16, "inkling": 32}[name]

    assert set(extra) == {"spec_name", "cpu_bytes_to_use", "blocks_per_chunk", "eviction_policy"}
    interval = int(said.option("--prefix-cache-retention-interval"))
    assert interval % (longest * extra["blocks_per_chunk"]) == 0


def test_t15_a_tier_that_holds_no_prompt_is_refused(plan: Planner) -> None:
    said = plan.model("inkling", *b200s(), cache={"hostMemory": "100Mi"})

    assert (said.code, said.reason) == (1, "InvalidSpec")
    assert "spec.cache.hostMemory 100Mi is less than" in said.message


def test_t16_the_connector_keeps_hybrid_memory(plan: Planner) -> None:
    assert connector(plan.model("flint"))["kv_connector"] == "OffloadingConnector"


STORE: Final = {
    "objectStore": {
        "uri": "s3://kv/flint",
        "identity": {"aws": {"roleArn": "arn:aws:iam::123456789012:role/kv"}},
    }
}


def test_t17_and_t26_a_shared_tier_is_not_half_built(plan: Planner) -> None:
    said = plan.model("flint", cache=STORE)

    assert (said.code, said.reason) == (1, "NotYetSupported")
    assert said.message.startswith("spec.cache.objectStore ")
    assert "secondary_tiers" not in json.dumps(plan.model("flint").plan)


def test_t29_flint_gets_chunks_that_are_found_again(plan: Planner) -> None:
    extra = connector(plan.model("flint"))["kv_connector_extra_config"]

    assert extra["blocks_per_chunk"] == 24
    assert "never found again behind a window of 513" in plan.model("flint").plan["hostTier"]["why"]


def test_t30_with_drafts_ends_are_kept_along_the_way(plan: Planner) -> None:
    said = plan.model("inkling", *b200s(), serving=fixed(4))

    assert said.option("--prefix-cache-retention-interval") == "8064"
    assert "drafting finds no other" in said.plan["hostTier"]["why"]


@pytest.mark.parametrize(("name", "interval"), [("flint", "4608"), ("inkling", "16000")])
def test_t31_prompts_with_one_beginning_find_its_end(
    plan: Planner, name: str, interval: str
) -> None:
    said = plan.model(name, *b200s(), serving={"speculation": {"mode": "Disabled"}})

    assert said.option("--prefix-cache-retention-interval") == interval
