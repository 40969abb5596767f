"""Reasons that come from deciding and placing: Accepted, Scheduled, ScalingActive, PlanCurrent."""

from collections.abc import Mapping
from typing import Final

from kindling_operator.model.conditions import ConditionType as C
from kindling_operator.model.conditions import Reason, ReasonRow, false_for, true_for, unknown_for

ROWS: Final[Mapping[Reason, ReasonRow]] = {
    Reason.SPEC_ACCEPTED: ReasonRow(
        on=true_for(C.ACCEPTED),
        example="1x NVIDIA-H200 in one node, BF16, TP1, 262144 ctx.",
        remedy="Nothing.",
    ),
    Reason.UNVERIFIED: ReasonRow(
        on=true_for(C.ACCEPTED),
        example=(
            "1x NVIDIA-RTX-PRO-6000 in one node, BF16, TP1, 262144 ctx: accepted, but "
            "unverified: vLLM selects FlashInfer here, but whether its sink kernels exist is "
            "untested."
        ),
        remedy=(
            "Compare the answers with those of a verified combination or of Transformers, or "
            "remove what is pinned."
        ),
    ),
    Reason.INVALID_SPEC: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.cache.maxAge '7d': write a duration in hours, minutes and seconds, such as 168h."
        ),
        remedy="Correct the field that the message names; upgrade the CRD if it let it pass.",
    ),
    Reason.UNKNOWN_MODEL: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.model.name 'inkling' is not in this operator's catalog, which has flint, "
            "custom: upgrade the operator or choose one of these."
        ),
        remedy="Choose a model of `kindling catalog`, or `custom` with an architecture.",
    ),
    Reason.INVALID_ARCHITECTURE: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.model.custom: checkpoint BF16 has 6 B and the shapes need at least 2.8 "
            "MiB: give `bytes` in bytes and check the shapes against config.json."
        ),
        remedy="Copy the numbers from the model's config.json.",
    ),
    Reason.NOT_YET_SUPPORTED: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.scaling is not supported by this version: remove it and set spec.replicas, by "
            "hand or with a HorizontalPodAutoscaler."
        ),
        remedy="Remove the field, or upgrade to a version that supports it.",
    ),
    Reason.FORBIDDEN_ARGUMENT: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.serving.extraArgs: --max-model-len is refused: use "
            "spec.serving.contextLength instead."
        ),
        remedy="Correct or remove the argument; use the field that the message names.",
    ),
    Reason.NAME_CONFLICT: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "Service ml/flint exists and does not belong to this InferenceModel: delete it or "
            "give the InferenceModel another name."
        ),
        remedy="Rename one of the two; nothing foreign is changed.",
    ),
    Reason.UNSUPPORTED_CHECKPOINT: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.model.checkpoint NVFP4 does not exist for custom, which has BF16: use BF16 or "
            "Auto."
        ),
        remedy="Pin a checkpoint that the model has, or use Auto.",
    ),
    Reason.UNSUPPORTED_PARALLELISM: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.placement.parallelism.tensor 3 does not divide 32 attention heads: use 1, 2, 4 "
            "or 8, or leave it out."
        ),
        remedy="Remove the pin, or use one of the sizes in the message.",
    ),
    Reason.BROKEN_COMBINATION: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "Flint BF16 on NVIDIA-L40S (sm89) is known to fail, no attention backend for "
            "this GPU has both sinks and FlashInfer: use GPUs of sm90, sm100 or sm103."
        ),
        remedy="Follow the message; the combination cannot work with this runtime.",
    ),
    Reason.NO_SUPPORTED_GPU: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "No GPU for Flint (it needs sm90, sm100 or sm103, such as one GPU of 32 GiB for "
            "NVFP4): 8 x NVIDIA-H200 (sm90) on nodes tainted team:NoSchedule (add a toleration to "
            "spec.placement.tolerations); add a node or correct what keeps them out."
        ),
        remedy="Add nodes with one of the GPUs, or relax spec.placement.",
    ),
    Reason.WEIGHTS_DO_NOT_FIT: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "Flint BF16 needs 75.7 GiB on one GPU, 74.3 GiB of it weights, and "
            "NVIDIA-H100-80GB-HBM3 has 73.3 GiB usable, short by 2.5 GiB: 2 nodes of 1 hold it, "
            "add 1 node or use GPUs with more memory."
        ),
        remedy="Allow more GPUs per replica, larger GPUs or a smaller checkpoint.",
    ),
    Reason.CONTEXT_DOES_NOT_FIT: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "A context of 262144 tokens at concurrency 8 needs 59.0 GiB of KV cache on one GPU "
            "and 53.4 GiB are left on NVIDIA-H200, short by 5.5 GiB: lower contextLength to "
            "236272 or concurrency to 7, or raise spec.placement.maxGpusPerReplica from 1 to 2."
        ),
        remedy="Lower contextLength or concurrency, or allow more GPUs.",
    ),
    Reason.CONTEXT_TOO_LONG: ReasonRow(
        on=false_for(C.ACCEPTED),
        example=(
            "spec.serving.contextLength 524288 exceeds the 262144 tokens that flint was made for:"
            " lower it to 262144."
        ),
        remedy="Lower contextLength to the model's maximum.",
    ),
    Reason.PODS_SCHEDULED: ReasonRow(
        on=true_for(C.SCHEDULED),
        example="2 of 2 replicas have a node.",
        remedy="Nothing.",
    ),
    Reason.PODS_PENDING: ReasonRow(
        on=unknown_for(C.SCHEDULED),
        example="1 of 2 replicas waits for the scheduler's first answer.",
        remedy="Wait; the reason follows within seconds, here or in Progressing.",
    ),
    Reason.PODS_REFUSED: ReasonRow(
        on=false_for(C.SCHEDULED, C.AVAILABLE),
        example=(
            "The cluster refuses the pods of Deployment flint-9c41d2a07b (exceeded quota: "
            "requests.memory=96Gi, limited: 64Gi): raise the quota or lower"
            " spec.runtime.resources or spec.replicas."
        ),
        remedy="Do what the message of the refusing controller asks for.",
    ),
    Reason.INSUFFICIENT_GPU: ReasonRow(
        on=false_for(C.SCHEDULED),
        example=(
            "Needs 1 x NVIDIA-H200 in one node; best node gpu-7 has 0 of 8 free, 8 held by "
            "ml/training: free 1 or add a node."
        ),
        remedy="Free GPUs, add nodes, or lower spec.replicas.",
    ),
    Reason.INSUFFICIENT_RESOURCES: ReasonRow(
        on=false_for(C.SCHEDULED),
        example=(
            "Needs 0.5 CPU and 4.5 GiB of memory on an amd64 node; the largest node, one "
            "(amd64), has 2 CPU and 3.0 GiB: add a larger node."
        ),
        remedy="Free CPU or memory, add nodes, or lower spec.runtime.resources.",
    ),
    Reason.NO_MATCHING_NODE: ReasonRow(
        on=false_for(C.SCHEDULED),
        example=(
            "No node matches spec.placement.nodeSelector pool=gpu-west and its tolerations: label"
            " a node or correct the selector."
        ),
        remedy="Correct nodeSelector or tolerations, or label a node.",
    ),
    Reason.WAITING_FOR_CAPACITY: ReasonRow(
        on=false_for(C.SCHEDULED),
        example=(
            "The new revision waits and flint-0f218ff7d1 keeps its replicas: needs 1 x "
            "NVIDIA-H200 in one node; best node gpu-7 has 0 of 1 free, 1 held by ml/flint: "
            "free 1 or add a node, or accept a downtime by setting spec.replicas to 0 and back to "
            "1."
        ),
        remedy="Add nodes, or set spec.replicas to 0 and back if the model may be away.",
    ),
    Reason.IMAGE_NOT_PULLABLE: ReasonRow(
        on=false_for(C.SCHEDULED, C.AVAILABLE),
        example=(
            "The node cannot pull registry.example.com/kindling/runtime:1.0 (not found): correct "
            "spec.runtime.image or imagePullSecrets."
        ),
        remedy="Correct the image or the pull secret.",
    ),
    Reason.CLAIM_NOT_BOUND: ReasonRow(
        on=false_for(C.SCHEDULED),
        example=(
            "PersistentVolumeClaim ml/weights (pvc://weights/flint) does not exist: create "
            "it, or correct spec.model.weights.uri."
        ),
        remedy="Create or bind the claim, or name another one.",
    ),
    Reason.LEADER_WORKER_SET_MISSING: ReasonRow(
        on=false_for(C.SCHEDULED),
        example=(
            "One replica spans 2 nodes, which needs the LeaderWorkerSet API, and the cluster does"
            " not have it: install LeaderWorkerSet v0.8 or later."
        ),
        remedy="Install LeaderWorkerSet.",
    ),
    Reason.SCALING: ReasonRow(
        on=true_for(C.SCALING_ACTIVE),
        example=(
            "2 replicas are wanted, between 1 and 8, for 18400 uncached prompt tokens per second."
        ),
        remedy="Nothing.",
    ),
    Reason.REPLICAS_IGNORED: ReasonRow(
        on=true_for(C.SCALING_ACTIVE),
        example="spec.replicas 5 is ignored because spec.scaling is set: remove one of the two.",
        remedy="Remove spec.scaling to set the number yourself.",
    ),
    Reason.DISABLED: ReasonRow(
        on=false_for(C.SCALING_ACTIVE),
        example="spec.scaling is not set, so spec.replicas is kept.",
        remedy="Nothing; a HorizontalPodAutoscaler may set spec.replicas.",
    ),
    Reason.METRICS_BLIND: ReasonRow(
        on=false_for(C.SCALING_ACTIVE),
        example=(
            "No sample from 2 of 2 replicas for 60s, so the number of replicas is kept: check "
            "that the operator reaches port 9400."
        ),
        remedy="Check the network policy between operator and pods.",
    ),
    Reason.ROLLOUT_FROZEN: ReasonRow(
        on=false_for(C.SCALING_ACTIVE),
        example="The number of replicas is kept until the rollout of flint-9c41d2a07b ends.",
        remedy="Wait for the rollout.",
    ),
    Reason.CURRENT: ReasonRow(
        on=true_for(C.PLAN_CURRENT),
        example="All replicas run the plan 9c41d2a07b, and no better one is known.",
        remedy="Nothing.",
    ),
    Reason.NOT_MEASURED: ReasonRow(
        on=unknown_for(C.PLAN_CURRENT),
        example="No replica has reported its numbers yet.",
        remedy="Wait for the first replica.",
    ),
    Reason.PLAN_MISMATCH: ReasonRow(
        on=false_for(C.PLAN_CURRENT),
        example=(
            "vLLM has 46102 KV blocks and the plan says 46811: report the difference together "
            "with `kubectl get im -o yaml`."
        ),
        remedy="Report it; the measured numbers count.",
    ),
    Reason.BETTER_PLAN_AVAILABLE: ReasonRow(
        on=false_for(C.PLAN_CURRENT),
        example=(
            "A plan made now would have GPU NVIDIA-B200 instead of NVIDIA-H200: run "
            "`kindling replan im/flint -n ml` to take it, which replaces the replicas."
        ),
        remedy="Run `kindling replan` when a restart is convenient.",
    ),
    Reason.NOT_ACCEPTED: ReasonRow(
        on={
            **unknown_for(C.SCHEDULED, C.IDENTITY_READY, C.CACHE_READY, C.PLAN_CURRENT),
            **false_for(C.PROGRESSING, C.AVAILABLE, C.SCALING_ACTIVE),
        },
        example="Nothing is created before the spec is accepted: see the condition Accepted.",
        remedy="Correct what Accepted names.",
    ),
}
