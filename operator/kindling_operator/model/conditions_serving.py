"""Reasons that come from what runs: IdentityReady, CacheReady, Progressing, Available."""

from collections.abc import Mapping
from typing import Final

from kindling_operator.model.conditions import ConditionType as C
from kindling_operator.model.conditions import Reason, ReasonRow, false_for, true_for, unknown_for

ROWS: Final[Mapping[Reason, ReasonRow]] = {
    Reason.NOT_CONFIGURED: ReasonRow(
        on=true_for(C.IDENTITY_READY, C.CACHE_READY),
        example="No object store is configured.",
        remedy="Nothing.",
    ),
    Reason.IDENTITY_PROVEN: ReasonRow(
        on=true_for(C.IDENTITY_READY),
        example=(
            "arn:aws:sts::123456789012:assumed-role/kv/flint wrote and read s3://kv-cache/flint."
        ),
        remedy="Nothing.",
    ),
    Reason.IDENTITY_UNPROVEN: ReasonRow(
        on=unknown_for(C.IDENTITY_READY),
        example="No replica has tried s3://kv-cache/flint yet.",
        remedy="Wait for the first replica.",
    ),
    Reason.TOKEN_REFUSED: ReasonRow(
        on=false_for(C.IDENTITY_READY),
        example=(
            "AWS refused the pod's token for arn:aws:iam::123456789012:role/kv "
            "(InvalidIdentityToken): register the cluster's OIDC issuer in that account."
        ),
        remedy="Register the cluster's issuer with the cloud account.",
    ),
    Reason.ACCESS_DENIED: ReasonRow(
        on=false_for(C.IDENTITY_READY),
        example=(
            "arn:aws:iam::123456789012:role/kv may not s3:PutObject on s3://kv-cache/flint: allow"
            " it in the role's policy."
        ),
        remedy="Grant the permission that the message names.",
    ),
    Reason.WRONG_AUDIENCE: ReasonRow(
        on=false_for(C.IDENTITY_READY),
        example=(
            "The token's audience is sts.amazonaws.com and the trust policy of role kv wants "
            "https://sts.example.com: make them equal."
        ),
        remedy="Make the audience in the trust policy equal to the token's.",
    ),
    Reason.STATIC_CREDENTIALS_REFUSED: ReasonRow(
        on=false_for(C.IDENTITY_READY),
        example=(
            "spec.cache.objectStore.identity.development is switched off in this installation: "
            "use a workload identity, or install the chart with developmentStore=true."
        ),
        remedy="Use a workload identity.",
    ),
    Reason.TIERS_IN_USE: ReasonRow(
        on=true_for(C.CACHE_READY),
        example="Host memory (200.0 GiB per pod) and s3://kv-cache/flint are in use.",
        remedy="Nothing.",
    ),
    Reason.STORE_UNREACHABLE: ReasonRow(
        on=false_for(C.CACHE_READY, C.IDENTITY_READY),
        example=(
            "s3://kv-cache/flint does not answer from 2 of 2 replicas (connection timed out): "
            "check endpoint, network policy and DNS."
        ),
        remedy="Check endpoint, network policy and DNS; requests are served without the store.",
    ),
    Reason.BREAKER_OPEN: ReasonRow(
        on=false_for(C.CACHE_READY),
        example=(
            "s3://kv-cache/flint is left out since 10:42 UTC after 20 failures in 60 s; it is "
            "tried again every 30 s."
        ),
        remedy="Look at the store; it is taken back by itself.",
    ),
    Reason.DOES_NOT_PAY: ReasonRow(
        on=false_for(C.CACHE_READY),
        example=(
            "Loading from s3://kv-cache/flint takes 2.1 times as long as computing again, so "
            "loads are switched off."
        ),
        remedy="Use a store nearer to the pods, or remove spec.cache.objectStore.",
    ),
    Reason.CREATING: ReasonRow(
        on=true_for(C.PROGRESSING),
        example="2 replicas of revision flint-9c41d2a07b are being created.",
        remedy="Wait.",
    ),
    Reason.DOWNLOADING: ReasonRow(
        on=true_for(C.PROGRESSING),
        example=(
            "0 of 1 replicas of flint-9c41d2a07b generate tokens; pod flint-9c41d2a07b-x7k2p "
            "downloads the weights (31.0 of 74.1 GiB, 820.0 MiB/s, 54 s left)."
        ),
        remedy="Wait; a rate far below the network's speed is worth a look.",
    ),
    Reason.LOADING: ReasonRow(
        on=true_for(C.PROGRESSING),
        example=(
            "1 of 2 replicas loads the model for 3 min and has 42 min left to generate a token."
        ),
        remedy="Wait.",
    ),
    Reason.DRAINING: ReasonRow(
        on=true_for(C.PROGRESSING),
        example="1 replica finishes 4 streams and leaves by 10:42 UTC at the latest.",
        remedy="Wait.",
    ),
    Reason.ROLLING_OUT: ReasonRow(
        on=true_for(C.PROGRESSING),
        example="1 of 2 replicas runs revision flint-9c41d2a07b.",
        remedy="Wait.",
    ),
    Reason.COMPLETE: ReasonRow(
        on=false_for(C.PROGRESSING),
        example="All 2 replicas run revision flint-9c41d2a07b.",
        remedy="Nothing.",
    ),
    Reason.DEADLINE_EXCEEDED: ReasonRow(
        on=false_for(C.PROGRESSING),
        example=(
            "Revision flint-0f218ff7d1 generated no token within 45m: see the reason of "
            "Available, then correct the spec or raise spec.rollout.progressDeadline."
        ),
        remedy="Read the message of Available; correct the spec.",
    ),
    Reason.FAILED: ReasonRow(
        on=false_for(C.PROGRESSING),
        example=(
            "Revision flint-9c41d2a07b has failed, as pod flint-9c41d2a07b-x7k2p (restarts: 5, the"
            " last ended with exit code 70: CUDA error) does not stay up: correct what that names,"
            " or the spec; it is tried on with pauses of 5 minutes."
        ),
        remedy="Read the message of Available; correct the spec, the image or the node.",
    ),
    Reason.ROLLED_BACK: ReasonRow(
        on=false_for(C.PROGRESSING, C.PLAN_CURRENT),
        example=(
            "Revision flint-9c41d2a07b failed (EngineFailed), flint-1b7e44d0c2 serves again: "
            "correct the spec to try once more."
        ),
        remedy="Correct the spec; the failed revision is not tried again.",
    ),
    Reason.HELD: ReasonRow(
        on=false_for(C.PROGRESSING, C.PLAN_CURRENT),
        example=(
            "Revision flint-9c41d2a07b failed and is held as spec.rollout.onFailure asks: correct"
            " the spec, or set onFailure to Rollback."
        ),
        remedy="Correct the spec, or set onFailure to Rollback.",
    ),
    Reason.APPLY_REFUSED: ReasonRow(
        on=false_for(C.PROGRESSING),
        example=(
            "The cluster refuses a part of this InferenceModel (apply Service ml/flint: exceeded "
            "quota: services, limited: 5): do what the message asks for, it is tried again by "
            "itself."
        ),
        remedy="Raise the quota or correct the admission policy that the message names.",
    ),
    Reason.SERVING: ReasonRow(
        on=true_for(C.AVAILABLE, C.READY),
        example="2 of 2 replicas generate tokens at http://flint.ml.svc:8000/v1.",
        remedy="Nothing.",
    ),
    Reason.NO_READY_REPLICA: ReasonRow(
        on=false_for(C.AVAILABLE),
        example="0 of 2 replicas have generated a token yet.",
        remedy="Wait, or read the other conditions.",
    ),
    Reason.SCALED_TO_ZERO: ReasonRow(
        on=false_for(C.AVAILABLE),
        example="There is no replica because spec.replicas is 0: raise it to serve.",
        remedy="Raise spec.replicas.",
    ),
    Reason.WEIGHTS_INCOMPLETE: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            "The weights folder pvc://weights/flint has no config.json: copy the complete model "
            "there."
        ),
        remedy="Complete the weights folder; the replica tries again by itself.",
    ),
    Reason.PREFLIGHT_FAILED: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            "The GPU has 79.6 GiB and the plan needs 139.0 GiB: correct the node's "
            "nvidia.com/gpu.product label."
        ),
        remedy="Correct what the message names.",
    ),
    Reason.CONTRACT_MISMATCH: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            "The runtime image reads launch plans of version 1 and this operator writes version "
            "2: use the runtime image of this operator's version."
        ),
        remedy="Use operator and runtime of the same version.",
    ),
    Reason.CONTAINER_NOT_STARTED: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            'The engine container of flint-9c41d2a07b-x7k2p cannot be started (secret "hf" not '
            "found): create the Secret."
        ),
        remedy="Create or correct what the message names.",
    ),
    Reason.ENGINE_FAILED: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            "The engine of flint-9c41d2a07b-x7k2p ended with exit code 70 (CUDA error: an illegal"
            " memory access), 3 times: see `kubectl logs --previous`."
        ),
        remedy="Read the pod's log; correct the spec or the image.",
    ),
    Reason.OUT_OF_MEMORY: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            "The kernel killed flint-9c41d2a07b-x7k2p at its memory limit of 6.0 GiB: raise "
            "spec.runtime.resources.memory."
        ),
        remedy="Raise spec.runtime.resources.memory.",
    ),
    Reason.START_DEADLINE_EXCEEDED: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            "flint-9c41d2a07b-x7k2p generated no token within 45m of its start: raise "
            "spec.rollout.progressDeadline or see its log."
        ),
        remedy="Raise the deadline if the load is merely slow; see the log otherwise.",
    ),
    Reason.ENGINE_STALLED: ReasonRow(
        on=false_for(C.AVAILABLE),
        example=(
            "flint-9c41d2a07b-x7k2p: the engine showed no token in 2 looks in a row: it did not"
            " answer a one-token request within 10 s; it is started again unless one comes."
        ),
        remedy="Nothing; if it repeats, read the pod's log.",
    ),
}
