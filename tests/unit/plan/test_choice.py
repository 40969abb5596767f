"""What is chosen among what fits, what waits, and how both are said."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.support.builders import (
    GIB,
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    foreign_pod,
    gpu_node,
    tiny_architecture,
    tiny_spec,
)

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.objects import ClaimView
from kindling_operator.model.plan import EnginePlan
from kindling_operator.report.status import plan_status

H200, H100 = gpu_node("h200"), gpu_node("h100", "NVIDIA-H100-80GB-HBM3")
B200, L40S = gpu_node("b200", "NVIDIA-B200"), gpu_node("l40s", "NVIDIA-L40S")
RTX = gpu_node("rtx", "NVIDIA-RTX-PRO-6000")


def chosen(spec: Any, *nodes: Any, **cluster: Any) -> EnginePlan:
    decision = Cluster(nodes=nodes, **cluster).apply(spec).decide()
    assert decision.current is not None, decision.verdicts
    return decision.current.plan


SUMMARIES = {
    "Flint on an H200": (
        catalog_spec("flint"),
        [H200],
        "1x NVIDIA-H200 in one node, BF16, TP1, 262144 ctx",
    ),
    "Flint where 80 GB are too few for BF16": (
        catalog_spec("flint"),
        [H100],
        "1x NVIDIA-H100-80GB-HBM3 in one node, NVFP4, TP1, 262144 ctx",
    ),
    "the newer GPU first": (
        catalog_spec("flint"),
        [H200, B200],
        "1x NVIDIA-B200 in one node, BF16, TP1, 262144 ctx",
    ),
    "precision before newness": (
        catalog_spec("flint"),
        [H200, gpu_node("small-b200", "NVIDIA-B200", gpu_memory=60 * GIB)],
        "1x NVIDIA-H200 in one node, BF16, TP1, 262144 ctx",
    ),
    "a pinned product": (
        catalog_spec("flint", placement={"gpu": {"products": ["NVIDIA-H100-80GB-HBM3"]}}),
        [H200, H100],
        "1x NVIDIA-H100-80GB-HBM3 in one node, NVFP4, TP1, 262144 ctx",
    ),
    "a pinned context": (
        catalog_spec("flint", serving={"contextLength": 32_768}),
        [H200],
        "1x NVIDIA-H200 in one node, BF16, TP1, 32768 ctx",
    ),
    "the longest context at the wanted concurrency": (
        catalog_spec("flint", model={"checkpoint": "BF16"}, serving={"concurrency": 8}),
        [H200],
        "1x NVIDIA-H200 in one node, BF16, TP1, 195584 ctx",
    ),
    "a tiny model on a laptop": (tiny_spec(), [cpu_node()], "CPU, BF16, 4096 ctx"),
    "a GPU for a model of both kinds": (
        tiny_spec(tiny_architecture(devices=["CPU", "GPU"])),
        [cpu_node(), L40S],
        "1x NVIDIA-L40S in one node, BF16, TP1, 4096 ctx",
    ),
    "the CPU for a model of both kinds without a GPU": (
        tiny_spec(tiny_architecture(devices=["CPU", "GPU"])),
        [cpu_node()],
        "CPU, BF16, 4096 ctx",
    ),
}


@pytest.mark.parametrize(("spec", "nodes", "summary"), SUMMARIES.values(), ids=SUMMARIES.keys())
def test_chosen(spec: Any, nodes: list[Any], summary: str) -> None:
    assert chosen(spec, *nodes).summary == summary


def test_a_free_gpu_is_preferred_to_a_better_one_that_is_held() -> None:
    plan = chosen(catalog_spec("flint"), H200, B200, pods=(foreign_pod("b200", gpus=8),))

    assert plan.gpu is not None
    assert plan.gpu.product == "NVIDIA-H200"


def test_what_is_unverified_is_taken_only_if_it_is_pinned() -> None:
    refused = Cluster(nodes=(RTX,)).apply(catalog_spec("flint")).decide().refused
    assert refused is not None
    assert refused.reason is Reason.NO_SUPPORTED_GPU
    assert refused.message == (
        "Flint BF16 on NVIDIA-RTX-PRO-6000 (sm120) is unverified, vLLM selects FlashInfer here,"
        " but whether its sink kernels exist is untested: pin spec.placement.gpu.products"
        " NVIDIA-RTX-PRO-6000 to take it nevertheless."
    )

    pinned = catalog_spec("flint", placement={"gpu": {"products": ["NVIDIA-RTX-PRO-6000"]}})
    accepted = Cluster(nodes=(RTX,)).apply(pinned).decide().verdicts[0]
    assert accepted.reason is Reason.UNVERIFIED
    assert accepted.holds
    assert accepted.message == (
        "1x NVIDIA-RTX-PRO-6000 in one node, BF16, TP1, 262144 ctx: accepted, but"
        " unverified: vLLM selects FlashInfer here, but whether its sink kernels exist is"
        " untested."
    )


def test_an_unverified_checkpoint_is_pinned_by_the_checkpoint() -> None:
    """On a GPU that is large enough for it, only the pin is missing."""
    huge = gpu_node("huge", gpus=1, gpu_memory=800 * GIB)
    refused = Cluster(nodes=(huge,)).apply(catalog_spec("inkling")).decide().refused
    assert refused is not None
    assert refused.reason is Reason.WEIGHTS_DO_NOT_FIT

    pinned = Cluster(nodes=(huge,)).apply(catalog_spec("inkling", model={"checkpoint": "NVFP4"}))
    assert pinned.decide().verdicts[0].reason is Reason.UNVERIFIED


def test_what_is_broken_is_refused_even_if_it_is_pinned() -> None:
    pinned = catalog_spec("flint", placement={"gpu": {"products": ["NVIDIA-L40S"]}})
    refused = Cluster(nodes=(L40S,)).apply(pinned).decide().refused

    assert refused is not None
    assert (refused.reason, refused.message) == (
        Reason.BROKEN_COMBINATION,
        "Flint BF16 on NVIDIA-L40S (sm89) is known to fail, no attention backend for this GPU has"
        " both sinks and FlashInfer: use GPUs of sm90, sm100 or sm103.",
    )


def test_the_nearest_refusal_speaks() -> None:
    """NVFP4 lacks fewer bytes than BF16, and the larger GPU lacks fewer than the smaller."""
    small = gpu_node("b200", "NVIDIA-B200", gpus=2)
    refused = Cluster(nodes=(H200, small)).apply(catalog_spec("inkling")).decide().refused

    assert refused is not None
    assert refused.message == (
        "Inkling BF16 needs 225.9 GiB on each of 8 GPUs (TP8), 223.0 GiB of it weights, and"
        " NVIDIA-H200 has 129.2 GiB usable, short by 96.8 GiB: 2 nodes of 8 hold it, add 1 node or"
        " use GPUs with more memory."
    )


def claim(phase: str = "Bound", *, terminating: bool = False) -> tuple[ClaimView, ...]:
    return (ClaimView("ml", "weights", phase, terminating=terminating),)


WAITING = {
    "a claim that does not exist": (
        {"claims": ()},
        tiny_spec(),
        Reason.CLAIM_NOT_BOUND,
        "PersistentVolumeClaim ml/weights (pvc://weights/tiny) does not exist: create it, or"
        " correct spec.model.weights.uri.",
    ),
    "a claim of another namespace": (
        {"claims": (ClaimView("other", "weights", "Bound", terminating=False),)},
        tiny_spec(),
        Reason.CLAIM_NOT_BOUND,
        "PersistentVolumeClaim ml/weights (pvc://weights/tiny) does not exist: create it, or"
        " correct spec.model.weights.uri.",
    ),
    "a claim on its way out": (
        {"claims": claim(terminating=True)},
        tiny_spec(),
        Reason.CLAIM_NOT_BOUND,
        "PersistentVolumeClaim ml/weights (pvc://weights/tiny) is being deleted: name another"
        " claim in spec.model.weights.uri.",
    ),
    "a claim without its volume": (
        {"claims": claim("Lost")},
        tiny_spec(),
        Reason.CLAIM_NOT_BOUND,
        "PersistentVolumeClaim ml/weights (pvc://weights/tiny) has lost its volume: name another"
        " claim in spec.model.weights.uri.",
    ),
    "GPUs that others hold": (
        {"nodes": (H200,), "pods": (foreign_pod("h200", gpus=8),)},
        catalog_spec("flint"),
        Reason.INSUFFICIENT_GPU,
        "Needs 1 x NVIDIA-H200 in one node; best node h200 has 0 of 8 free, 8 held in other"
        " namespaces: free 1 or add a node.",
    ),
    "GPUs that others of the namespace hold": (
        {
            "nodes": (H200,),
            "pods": (
                foreign_pod("h200", gpus=6),
                foreign_pod("h200", gpus=2, name="job", namespace="ml"),
            ),
        },
        catalog_spec("flint"),
        Reason.INSUFFICIENT_GPU,
        "Needs 1 x NVIDIA-H200 in one node; best node h200 has 0 of 8 free, 2 held by ml/job, 6"
        " held in other namespaces: free 1 or add a node.",
    ),
    "foreign holders that may be named": (
        {
            "nodes": (H200,),
            "pods": (foreign_pod("h200", gpus=8),),
            "environment": environment(name_foreign_holders=True),
        },
        catalog_spec("flint"),
        Reason.INSUFFICIENT_GPU,
        "Needs 1 x NVIDIA-H200 in one node; best node h200 has 0 of 8 free, 8 held by"
        " other/training: free 1 or add a node.",
    ),
    "a node selector that matches nothing": (
        {},
        tiny_spec(placement={"nodeSelector": {"pool": "gpu-west"}}),
        Reason.NO_MATCHING_NODE,
        "No node matches spec.placement.nodeSelector pool=gpu-west and its tolerations: label a"
        " node or correct the selector.",
    ),
    "no node at all": (
        {"nodes": ()},
        tiny_spec(),
        Reason.NO_MATCHING_NODE,
        "No ready node admits the pods: add one, or add spec.placement.tolerations.",
    ),
    "a node that is too small": (
        {"nodes": (cpu_node(memory=3 * GIB),)},
        tiny_spec(),
        Reason.INSUFFICIENT_RESOURCES,
        "Needs 0.5 CPU and 4.5 GiB of memory on an amd64 node; the largest node, laptop (amd64),"
        " has 2 CPU and 3.0 GiB: add a larger node.",
    ),
    "a node that the image is not built for": (
        {"nodes": (cpu_node(architecture="arm64"),)},
        tiny_spec(),
        Reason.INSUFFICIENT_RESOURCES,
        "Needs 0.5 CPU and 4.5 GiB of memory on an amd64 node; the largest node, laptop (arm64),"
        " has 2 CPU and 24.0 GiB: add a larger node.",
    ),
}


@pytest.mark.parametrize(
    ("cluster", "spec", "reason", "message"), WAITING.values(), ids=WAITING.keys()
)
def test_accepted_but_waiting_and_nothing_is_created(
    cluster: dict[str, Any], spec: Any, reason: Reason, message: str
) -> None:
    found = Cluster(**cluster).apply(spec)
    decision = found.decide()
    scheduled = decision.verdict(ConditionType.SCHEDULED)

    assert decision.refused is None
    assert scheduled is not None
    assert (scheduled.reason, scheduled.message) == (reason, message)
    assert found.manifests() == ()
    assert {v.condition for v in decision.verdicts} == {
        ConditionType.ACCEPTED,
        ConditionType.SCHEDULED,
        ConditionType.PROGRESSING,
        ConditionType.AVAILABLE,
    }


def test_a_claim_that_the_first_pod_will_bind_is_enough() -> None:
    assert chosen(tiny_spec(), cpu_node(), claims=claim("Pending")).weights.claim == "weights"


def test_weights_in_the_image_need_no_claim() -> None:
    spec = tiny_spec()
    spec["model"] = {**spec["model"], "weights": {"uri": "file:///models/tiny"}}

    weights = chosen(spec, cpu_node(), claims=()).weights

    assert (weights.path, weights.claim) == ("/models/tiny", "")


def test_the_users_own_image_may_be_for_any_architecture() -> None:
    spec = tiny_spec(runtime={"image": "registry.test/own"})

    plan = chosen(spec, cpu_node(architecture="arm64"))

    assert (plan.image, plan.pod.node_selector) == ("registry.test/own", {})


def test_rejected_options_are_listed_with_their_reasons() -> None:
    plan = chosen(catalog_spec("flint"), H200, H100, L40S)

    told = {option.option: option for option in plan.rejected}
    reasons = {option.reason for option in plan.rejected}
    assert reasons == {"NotPreferred", "WeightsDoNotFit", "BrokenCombination"}
    assert [o.reason for o in plan.rejected] == sorted(
        (o.reason for o in plan.rejected),
        key=["NotPreferred", "WeightsDoNotFit", "BrokenCombination"].index,
    )
    assert told["NVFP4 TP1 on 1 x NVIDIA-H200 (sm90, amd64)"].message == (
        "Fits, but BF16 is more precise on as many GPUs."
    )
    assert told["BF16 TP2 on 2 x NVIDIA-H200 (sm90, amd64)"].message.startswith(
        "Fits, but takes 2 GPUs instead of 1 GPU, at "
    )
    assert "BF16 TP1 on 1 x NVIDIA-H100-80GB-HBM3 (sm90, amd64)" in told
    assert plan.rejected_total >= len(plan.rejected)


def test_options_of_one_product_with_two_memories_have_two_names() -> None:
    """Their names are keys of a list in status: one that stood twice would fail every write."""
    mib = H200.gpu_memory >> 20
    smaller = gpu_node("other", gpu_memory=(mib - 2000) << 20)
    tight = gpu_node("tight", gpu_memory=(mib - 100_000) << 20)
    found = Cluster(nodes=(H200, smaller, tight)).apply(catalog_spec("flint"))

    current = found.decide().current

    assert current is not None
    names = [rejected.option for rejected in current.plan.rejected]
    assert len(names) == len(set(names))
    assert f"BF16 TP1 on 1 x NVIDIA-H200 (sm90, amd64, {mib} MiB)" in names


def test_a_stored_plan_with_one_option_twice_is_shown_with_it_once() -> None:
    found = Cluster(nodes=(H200, gpu_node("b200", "NVIDIA-B200"))).apply(catalog_spec("flint"))
    decision = found.decide()
    assert decision.current is not None
    plan = decision.current.plan
    twice = structs.replace(plan, rejected=(*plan.rejected, *plan.rejected))

    shown = plan_status(replace(decision, current=replace(decision.current, plan=twice)))

    assert shown is not None
    assert shown.rejected == plan.rejected
