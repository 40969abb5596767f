"""Builders of what the operator observes and decides: a name, and what a test cares about.

And what the owner of the model reads then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from kindling_operator.model import names
from kindling_operator.model.conditions import Condition, ConditionType, Reason
from kindling_operator.model.names import DEPLOYMENT, Key, Kind, revision_object_name
from kindling_operator.model.objects import ChildView, ObjectRef, PodView
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.parse import Invalid, ParsedModel, parse
from kindling_operator.model.plan import (
    Decision,
    EnginePlan,
    Revision,
    RevisionTarget,
    RolloutState,
    Verdict,
)
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.report.status import status

NOW: Final = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
KEY: Final = Key("ml", "flint")
UID: Final = "uid-of-flint"

ENVIRONMENT: Final = Environment(
    cuda_image="cuda@sha256:1", cpu_image="cpu@sha256:2", catalog={}, runtimes={}
)

PLAN: Final = msgspec.convert(
    {
        "summary": "CPU, BF16, 2048 ctx",
        "model": "custom",
        "checkpoint": "BF16",
        "image": "cpu@sha256:2",
        "servedName": "flint",
        "weights": {"uri": "pvc://weights/tiny", "path": "/weights", "claim": "weights"},
        "contextLength": 2048,
        "maxNumBatchedTokens": 2048,
        "maxNumSeqs": 1,
        "argv": ["vllm"],
        "env": {},
        "startupSeconds": 1800,
        "drainSeconds": 600,
        "kv": {
            "bytes": 1 << 30,
            "blocks": 128,
            "blocksPerRequest": 16,
            "tokens": 2048,
            "fullContextRequests": "8.0",
        },
        "pod": {
            "cpuMillis": 1000,
            "memory": 6 << 30,
            "sharedMemory": 1 << 30,
            "serviceAccount": "flint",
            "imagePullPolicy": "IfNotPresent",
        },
    },
    EnginePlan,
)


def model(
    key: Key = KEY,
    *,
    uid: str = UID,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> ParsedModel | Invalid:
    """An InferenceModel as the watch delivers it, parsed."""
    return parse(
        {
            "metadata": {
                "namespace": key.namespace,
                "name": key.name,
                "uid": uid,
                "resourceVersion": "100",
                "generation": 1,
                "creationTimestamp": "2026-11-30T09:00:00Z",
                **metadata,
            },
            "spec": spec or {"model": {"name": "flint"}},
            "status": status or {},
        }
    )


def revision(digest: str = "1111111111", **changes: Any) -> Revision:
    """A stored revision of `PLAN`."""
    base = Revision(hash=digest, inputs="inputs", replan="", plan=PLAN, created=NOW)
    return replace(base, **changes)


def decision(*targets: tuple[Revision, int], key: Key = KEY, **changes: Any) -> Decision:
    """A decision for these revisions, the newest first; accepted unless `verdicts` says else."""
    made = tuple(RevisionTarget(each, count) for each, count in targets)
    base = Decision(
        key,
        (Verdict(ConditionType.ACCEPTED, Reason.SPEC_ACCEPTED, "CPU, BF16, 2048 ctx"),),
        targets=made,
        current=made[0].revision if made else None,
        state=RolloutState.STEADY if len(made) < 2 else RolloutState.ROLLING,
        desired_replicas=made[0].replicas if made else 0,
    )
    return replace(base, **changes)


def pod(name: str, *, digest: str = "1111111111", key: Key = KEY, **changes: Any) -> PodView:
    """A serving pod that runs on a node and has not generated a token yet."""
    base = PodView(
        namespace=key.namespace,
        name=name,
        uid=f"uid-of-{name}",
        created=NOW,
        node="one",
        phase="Running",
        gpus=0,
        model=key,
        revision=digest,
        ready=False,
        terminating=False,
    )
    return replace(base, **changes)


def child(
    kind: Kind, name: str, *, key: Key = KEY, owner_uid: str = UID, **changes: Any
) -> ChildView:
    """A child as the watch shows it."""
    base = ChildView(
        ref=ObjectRef(kind, key.namespace, name, f"uid-of-{name}", "7"),
        owner=key,
        owner_uid=owner_uid,
        created=NOW,
        generation=1,
        terminating=False,
        manifest={"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}},
    )
    return replace(base, **changes)


def deployment(digest: str = "1111111111", *, replicas: int = 1, **changes: Any) -> ChildView:
    """The Deployment of a revision, with as many pods as it wants."""
    name = revision_object_name(KEY.name, digest)
    manifest = {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": name, "labels": {names.LABEL_REVISION: digest}},
        "spec": {"replicas": replicas},
    }
    base = child(DEPLOYMENT, name)
    return replace(base, manifest=manifest, status={"replicas": replicas}, **changes)


def snapshot(
    *models: ParsedModel | Invalid,
    pods: Sequence[PodView] = (),
    children: Sequence[ChildView] = (),
    endpoints: Sequence[str] = (),
    **changes: Any,
) -> Snapshot:
    """A synced snapshot; children and endpoints are those of KEY."""
    found = models or (model(),)
    base = Snapshot(
        now=NOW,
        synced=True,
        environment=ENVIRONMENT,
        models={each.key: each for each in found},
        pods=tuple(pods),
        children={KEY: tuple(children)},
        endpoints={KEY: tuple(endpoints)},
    )
    return replace(base, **changes)


def told(
    snapshot: Snapshot, made: Decision, outcome: Outcome | None = None
) -> dict[str, Condition]:
    """The conditions of the status that follows, by type."""
    found = status(snapshot, made, outcome or Outcome())
    return {condition.type: condition for condition in found.conditions}


def short(condition: Condition) -> str:
    """Status and reason of a condition."""
    return f"{condition.status}/{condition.reason}"
