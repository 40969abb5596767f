"""The status of one model as it should stand now. Pure."""

from msgspec import structs

from kindling_operator.model.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    new_condition,
    set_condition,
)
from kindling_operator.model.names import (
    LABEL_FOLLOWER,
    LABEL_MODEL,
    LABEL_ROLE,
    ROLE_LEADER,
    endpoint_url,
    revision_object_name,
)
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Decision, GpuPlan, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.model.status import (
    MAX_REJECTED,
    BetterPlan,
    GpuStatus,
    InferenceModelStatus,
    KVCacheStatus,
    PlanStatus,
    stored_conditions,
)
from kindling_operator.report.conditions import Facts, facts, verdicts
from kindling_operator.report.measured import measured_items
from kindling_operator.report.replicas import PodState


def status(snapshot: Snapshot, decision: Decision, outcome: Outcome) -> InferenceModelStatus:
    """What the user should read, from what was seen, decided and done."""
    known = facts(snapshot, decision, outcome)
    model = snapshot.models[decision.key]
    endpoint = _endpoint(model, decision) if known.running else ""
    current, living = decision.current, known.replicas.living
    return InferenceModelStatus(
        observed_generation=model.metadata.generation,
        endpoint=endpoint,
        replicas=len(living),
        ready_replicas=len(known.replicas.ready),
        updated_replicas=sum(1 for pod in living if current and pod.revision == current.hash),
        draining_replicas=len(known.replicas.of(PodState.LEAVING)),
        selector=selector(decision),
        plan=_with_measured(plan_status(decision), known) if known.running else None,
        conditions=_conditions(known, model, endpoint),
    )


def selector(decision: Decision) -> str:
    """Label selector of the pods that count as replicas: one of each, so that an autoscaler, which
    counts what it matches, counts replicas."""
    leaders = f"{LABEL_MODEL}={decision.key.name},{LABEL_ROLE}={ROLE_LEADER}"
    groups = (target.revision.plan.group for target in decision.targets)
    if any(any(group.serving[1:]) for group in groups if group is not None):
        return f"{leaders},!{LABEL_FOLLOWER}"
    return leaders


def _endpoint(model: ParsedModel | Invalid, decision: Decision) -> str:
    """The endpoint, once something was accepted; a spec refused later does not take it away."""
    if isinstance(model, ParsedModel) and decision.refused is None:
        return endpoint_url(decision.key, model.spec.endpoint.port)
    stored = model.status.get("endpoint", "")
    return stored if isinstance(stored, str) else ""


def _conditions(known: Facts, model: ParsedModel | Invalid, endpoint: str) -> tuple[Condition, ...]:
    conditions = stored_conditions(dict(model.status))
    for verdict in verdicts(known, endpoint):
        new = new_condition(
            verdict.condition,
            _status_of(verdict),
            reason=verdict.reason,
            message=verdict.message,
            generation=model.metadata.generation,
            now=known.snapshot.now,
        )
        conditions = set_condition(conditions, new)
    return conditions


def _status_of(verdict: Verdict) -> ConditionStatus:
    """Ready is plainly False while it waits: scripts and people ask for a yes or a no."""
    if verdict.condition is ConditionType.READY and verdict.status is not ConditionStatus.TRUE:
        return ConditionStatus.FALSE
    return verdict.status


def plan_status(decision: Decision) -> PlanStatus | None:
    """The current plan as status shows it; None without one. `kindling plan -o json` prints it."""
    revision, better = decision.current, decision.better
    if revision is None:
        return None
    plan = revision.plan
    return PlanStatus(
        digest=revision.inputs[:63],
        revision=revision_object_name(decision.key.name, revision.hash),
        replan=revision.replan,
        summary=plan.summary,
        checkpoint=plan.checkpoint,
        gpu=_gpu(plan.gpu) if plan.gpu is not None else None,
        parallelism=plan.parallelism,
        context_length=plan.context_length,
        kv_cache=KVCacheStatus(
            blocks=plan.kv.blocks,
            blocks_per_request=plan.kv.blocks_per_request,
            tokens=plan.kv.tokens,
            full_context_requests=plan.kv.full_context_requests,
        ),
        memory_per_gpu=plan.gpu.memory_items if plan.gpu is not None else (),
        memory_per_pod=plan.pod.memory_items,
        # List maps: one key that stood twice would make the API server refuse the whole status.
        attention_backends=tuple({each.group: each for each in plan.attention_backends}.values()),
        rejected=tuple({each.option: each for each in plan.rejected}.values())[:MAX_REJECTED],
        rejected_total=plan.rejected_total,
        better=BetterPlan(reason=better.reason.value, message=better.message)
        if better is not None
        else None,
    )


def _with_measured(plan: PlanStatus | None, known: Facts) -> PlanStatus | None:
    """The plan with what its replicas measured; the stored one stays as it was made."""
    revision = known.decision.current
    if plan is None or revision is None:
        return plan
    items = measured_items(plan.memory_per_gpu, known.snapshot, revision, known.replicas)
    return structs.replace(plan, memory_per_gpu=items)


def _gpu(gpu: GpuPlan) -> GpuStatus:
    return GpuStatus(
        product=gpu.product,
        architecture=gpu.architecture,
        per_replica=gpu.count * gpu.nodes,
        nodes_per_replica=gpu.nodes,
    )
