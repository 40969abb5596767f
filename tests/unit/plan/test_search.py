"""Which of the ways that fit is taken: fewest GPUs, precision, speed, room, name; drafts; tiers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.builders import GIB, Cluster, catalog_spec, foreign_pod, gpu_node
from tests.support.candidates import candidate, subject, token_nanoseconds

from kindling_operator.model.architecture import CheckpointName
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import Layout
from kindling_operator.model.plan import EnginePlan
from kindling_operator.plan.better import layout_of
from kindling_operator.plan.fit import Misfit
from kindling_operator.plan.fleet import Fleet, fleet_of
from kindling_operator.plan.search import Option, search
from kindling_operator.plan.sizing import Sizing, gpu_sizing

NVFP4 = CheckpointName.NVFP4


def fleet(*nodes: Any) -> Fleet:
    return fleet_of(nodes)


def options(name: str, *nodes: Any, **spec: Any) -> tuple[Option, ...]:
    return search(subject(name, **spec), fleet(*nodes)).options


def planned(*nodes: Any, spec: Any, **cluster: Any) -> EnginePlan:
    decision = Cluster(nodes=nodes, **cluster).apply(spec).decide()
    assert decision.current is not None, decision.verdicts
    return decision.current.plan


B200, H200 = gpu_node("b200", "NVIDIA-B200"), gpu_node("h200")


def test_fewest_gpus_come_before_precision_and_speed() -> None:
    found = options("inkling", B200)

    assert [option.layout.gpus for option in found] == sorted(o.layout.gpus for o in found)
    assert (found[0].checkpoint.name, found[0].layout) == (NVFP4, Layout(tensor=4))
    assert found[1].layout == Layout(tensor=8)
    assert found[1].token_nanoseconds < found[0].token_nanoseconds


def test_precision_comes_before_speed() -> None:
    found = options("flint", B200, placement={"maxGpusPerReplica": 1})

    assert [option.checkpoint.name for option in found] == ["BF16", "NVFP4"]
    assert found[1].token_nanoseconds < found[0].token_nanoseconds


def test_the_faster_gpu_comes_first() -> None:
    best = options("flint", H200, B200)[0]

    assert best.gpu is not None
    assert best.gpu.product == "NVIDIA-B200"


def test_of_equals_the_one_that_leaves_least_is_taken() -> None:
    """Two sizes of memory make two kinds of the same GPU; one node has one GPU left."""
    mib = H200.gpu_memory >> 20
    older = gpu_node("a-full")
    newer = gpu_node("z-tight", gpu_memory=(mib - 2000) << 20)
    plan = planned(
        older,
        newer,
        spec=catalog_spec("flint"),
        pods=(foreign_pod("z-tight", gpus=7),),
    )

    taken = [each.option for each in plan.rejected]
    assert f"BF16 TP1 on 1 x NVIDIA-H200 (sm90, amd64, {mib} MiB)" in taken
    assert f"BF16 TP1 on 1 x NVIDIA-H200 (sm90, amd64, {mib - 2000} MiB)" not in taken


def test_stages_and_data_ranks_are_not_even_listed_where_one_node_is_enough() -> None:
    found = search(subject("flint"), fleet(H200, replace(H200, name="other")))

    names = [each.name for each in found.options] + [each.name for each in found.rejected]
    assert not [name for name in names if "PP" in name or "DP" in name]


def test_what_no_layout_changes_is_said_once() -> None:
    found = search(subject("flint"), fleet(gpu_node("lab", "NVIDIA-L40S")))

    assert [each.name for each in found.rejected] == [
        "BF16 on NVIDIA-L40S (sm89, amd64)",
        "NVFP4 on NVIDIA-L40S (sm89, amd64)",
    ]


def test_models_that_ask_for_the_same_share_one_search() -> None:
    nodes = fleet(H200)

    assert search(subject("flint"), nodes) is search(subject("flint"), nodes)
    other = subject("flint", serving={"concurrency": 2})
    assert search(other, nodes) is not search(subject("flint"), nodes)


def test_a_question_is_answered_once() -> None:
    nodes = fleet(H200)

    assert nodes.answer("first", object) is nodes.answer("first", object)
    assert nodes.answer("second", object) is not nodes.answer("first", object)
    assert len(nodes.answers) == 2


def test_the_fastest_depth_is_drafted() -> None:
    (best, *_) = options("inkling", B200)
    way = candidate(subject("inkling"), "NVIDIA-B200", Layout(tensor=4), checkpoint=NVFP4)

    times = {n: token_nanoseconds(replace(way, draft=n), 131_072) for n in range(9)}
    assert best.draft == min(times, key=lambda n: times[n]) == 7


def test_many_requests_at_once_draft_less() -> None:
    """Where operations count and not bytes, a drafted token that is wrong has cost as much."""

    def best(concurrency: int) -> int:
        inkling = subject("inkling", serving={"concurrency": concurrency})
        way = candidate(inkling, "NVIDIA-B200", Layout(tensor=8), checkpoint=NVFP4)
        return min(range(9), key=lambda n: token_nanoseconds(replace(way, draft=n), 8192))

    assert (best(1), best(256)) == (8, 3)


@pytest.mark.parametrize(
    ("speculation", "draft"),
    [({"mode": "Disabled"}, 0), ({"mode": "Fixed", "tokens": 2}, 2), ({"mode": "Auto"}, 7)],
)
def test_the_user_may_decide_on_drafts(speculation: dict[str, Any], draft: int) -> None:
    found = options("inkling", B200, serving={"speculation": speculation})

    assert found[0].draft == draft


def test_nothing_is_drafted_over_stages() -> None:
    """Trap T9."""
    pins = {"placement": {"parallelism": {"tensor": 8, "pipeline": 2}}}
    found = options("inkling", H200, replace(H200, name="other"), **pins)

    assert {(option.layout.pipeline, option.draft) for option in found} == {(2, 0)}


def test_fewer_tokens_are_batched_where_the_cache_is_tight() -> None:
    """Every token in flight keeps blocks of the windows and convolutions of each request."""
    inkling = subject("inkling", serving={"contextLength": 131_072, "concurrency": 2})
    tight = replace(candidate(inkling, "NVIDIA-B200", Layout(tensor=4), checkpoint=NVFP4), draft=0)
    wide = replace(tight, layout=Layout(tensor=8))

    few, many = gpu_sizing(tight), gpu_sizing(wide)
    assert isinstance(few, Sizing)
    assert isinstance(many, Sizing)
    assert (few.batched_tokens, many.batched_tokens) == (4096, 8192)
    assert few.why.startswith(
        "4096 tokens per step, as 8192 leave too little: a context of 131072 tokens at"
        " concurrency 2 needs "
    )
    assert many.why == ""


@pytest.mark.parametrize("tensor", [4, 8])
def test_more_gpu_memory_never_holds_fewer_blocks(tensor: int) -> None:
    inkling = subject("inkling", serving={"contextLength": 65_536})
    way = candidate(inkling, "NVIDIA-B200", Layout(tensor=tensor), checkpoint=NVFP4)
    found = [
        gpu_sizing(replace(way, gpu=replace(way.gpu, memory=gib * GIB)))
        for gib in range(100, 300, 10)
    ]

    blocks = [each.kv.blocks for each in found if isinstance(each, Sizing)]
    assert blocks == sorted(blocks)
    assert len(blocks) > 5
    assert [isinstance(each, Misfit) for each in found] == sorted(
        (isinstance(each, Misfit) for each in found), reverse=True
    )


def test_the_concurrency_is_divided_over_data_ranks() -> None:
    sixteen = Layout(tensor=8, data=2, expert=True, nodes=2)
    two = subject("inkling", serving={"contextLength": 131_072, "concurrency": 2})
    one = subject("inkling", serving={"contextLength": 131_072, "concurrency": 1})

    assert gpu_sizing(candidate(two, "NVIDIA-H200", sixteen)) == gpu_sizing(
        candidate(one, "NVIDIA-H200", sixteen)
    )


def test_a_tier_is_chosen_from_the_nodes_memory() -> None:
    """Half of what a GPU's share of the smallest node leaves."""
    (best, *_) = options("flint", H200, replace(H200, name="small", memory=512 * GIB))
    share = 512 * GIB // 8

    assert 0 < best.sizing.host_tier <= (share - 22 * GIB) // 2
    assert best.sizing.host_tier % GIB == 0


def test_a_tier_that_nobody_asked_for_keeps_no_replica_waiting() -> None:
    """Somebody else has most of the node's memory."""
    hog = replace(foreign_pod("h200", gpus=1), memory=2000 * GIB)
    asked = catalog_spec("flint", cache={"hostMemory": "64Gi"})

    assert planned(H200, spec=catalog_spec("flint"), pods=(hog,)).host_tier is None
    waiting = Cluster(nodes=(H200,), pods=(hog,)).apply(asked).decide()
    assert waiting.current is None


@pytest.mark.parametrize("host", ["0", "64Gi", None])
def test_encoded_media_have_their_memory_with_and_without_a_tier(host: str | None) -> None:
    asked = {"encoderMemory": "8Gi", **({"hostMemory": host} if host is not None else {})}
    plan = planned(B200, spec=catalog_spec("inkling", cache=asked))
    items = {item.item: item.bytes for item in plan.pod.memory_items}
    files = ("Shared memory", "Host KV tier", "Encoder tier")

    assert items["Encoder tier"] == 8 * GIB
    assert plan.pod.memory == sum(items.values())
    assert plan.pod.shared_memory == sum(items.get(name, 0) for name in files)


def test_no_tier_spans_nodes() -> None:
    """Trap T13."""
    pins = {"parallelism": {"tensor": 8, "pipeline": 2}}
    plan = planned(H200, replace(H200, name="other"), spec=catalog_spec("inkling", placement=pins))

    assert plan.host_tier is None


def test_a_limit_is_named_with_what_it_would_have_to_be() -> None:
    spec = catalog_spec("inkling", placement={"maxGpusPerReplica": 2})
    refused = Cluster(nodes=(B200,)).apply(spec).decide().refused

    assert refused is not None
    assert refused.reason is Reason.WEIGHTS_DO_NOT_FIT
    assert refused.message.endswith("raise spec.placement.maxGpusPerReplica from 2 to 4.")


def test_two_trays_of_a_rack_are_one_tensor_group() -> None:
    trays = [
        gpu_node(f"tray-{n}", "NVIDIA-B200", gpus=4, clique=clique)
        for n, clique in enumerate(["one", "two", "two"])
    ]
    plan = planned(*trays, spec=catalog_spec("inkling", placement={"parallelism": {"tensor": 8}}))

    assert layout_of(plan) == Layout(tensor=8, nodes=2)
    assert plan.gpu is not None
    assert plan.gpu.one_clique


def test_the_plan_says_what_it_expects() -> None:
    plan = planned(B200, spec=catalog_spec("inkling"))

    assert plan.speed is not None
    assert plan.speed.context == 131_072
    assert plan.speed.step_nanoseconds == sum(t.nanoseconds for t in plan.speed.decode)
    assert plan.speed.tokens_per_step == "4.29"
    assert plan.speed.prefill_tokens_per_second > 10_000
    assert plan.why == (
        "7 drafted tokens per step: 2.69 ms a token instead of 7.42 ms a token without.",
    )
