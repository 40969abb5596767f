"""The status of one model told as a story: what it waits for, since when, what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from kindling_operator.cli_seen import Seen, Told
from kindling_operator.cli_terminal import Terminal, Tone
from kindling_operator.model.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    fit_message,
)
from kindling_operator.model.conditions_table import REASONS
from kindling_operator.model.names import revision_object_name
from kindling_operator.model.objects import PodView
from kindling_operator.model.status import stored_conditions
from kindling_operator.plan.standing import Standing, standings
from kindling_operator.report.failures import last_end, logs_of
from kindling_operator.report.replicas import PodState, state_of

EVENTS: Final = 8
"""The last ones; older ones are in `kubectl events`."""

_FINE: Final = frozenset({PodState.SERVING, PodState.READY})
_TROUBLE: Final = frozenset(
    {PodState.UNSCHEDULABLE, PodState.IMAGE, PodState.NOT_STARTED, PodState.FAILED}
)
_SAYS_NOTHING: Final = (
    Reason.COMPLETE,
    Reason.DISABLED,
    Reason.NOT_ACCEPTED,
    Reason.NO_READY_REPLICA,
)
"""Reasons of conditions that are false without adding anything to what Ready says."""
_DOING: Final = {
    PodState.LEAVING: "finishes its streams and leaves",
    PodState.OVER: "has ended for good; another was made in its place",
    PodState.SERVING: "generates tokens behind the endpoint",
    PodState.READY: "generates tokens, not yet behind the endpoint",
    PodState.PENDING: "waits for the scheduler's first answer",
    PodState.LOADING: "loads the model",
    PodState.STALLED: "runs and generates no token any more",
    PodState.CREATING: "waits for its volumes and its image",
}


_WORDS: Final = (
    (ConditionType.READY, ConditionStatus.TRUE, None, "serves"),
    (ConditionType.ACCEPTED, ConditionStatus.FALSE, None, "refused"),
    (ConditionType.AVAILABLE, ConditionStatus.TRUE, None, "serves, but a change has failed"),
    (ConditionType.SCHEDULED, ConditionStatus.FALSE, None, "waits"),
    (ConditionType.AVAILABLE, ConditionStatus.FALSE, Reason.SCALED_TO_ZERO, "has no replica"),
    (ConditionType.PROGRESSING, ConditionStatus.FALSE, None, "fails"),
    (ConditionType.AVAILABLE, ConditionStatus.FALSE, Reason.NO_READY_REPLICA, "starts"),
)
"""Where a model stands: the first that holds."""


def story(seen: Seen, terminal: Terminal) -> str:
    """The whole text."""
    conditions = {each.type: each for each in stored_conditions(dict(seen.model.status))}
    chapters = (
        _head(seen, conditions, terminal),
        _decision(seen, terminal),
        _rollout(seen, conditions, terminal),
        _pods(seen, terminal),
        _happened(seen, terminal),
        (terminal.paint(f"  {gap}", Tone.WARNING) for gap in seen.gaps),
    )
    texts = ("\n".join(chapter) for chapter in chapters)
    return "\n\n".join(text for text in texts if text)


def age(span: timedelta) -> str:
    """A time span in the one unit that fits: 45 s, 12 min, 3 h, 5 d."""
    seconds = max(0, int(span.total_seconds()))
    for unit, size, until in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < until:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86_400} d"


def _head(seen: Seen, conditions: dict[str, Condition], terminal: Terminal) -> Iterator[str]:
    """Where it stands, what it waits for and what to do."""
    ready = conditions.get(ConditionType.READY)
    if seen.model.metadata.deletion is not None:
        since = _since(seen, seen.model.metadata.deletion)
        yield terminal.paint(f"{seen.key}: is being deleted {since}", Tone.WARNING)
        return
    if ready is None:
        yield terminal.paint(f"{seen.key}: no operator has looked at it yet", Tone.BAD)
        yield from terminal.wrapped(
            "Its status is empty: install the operator, or see with `kindling doctor` why it does"
            " not work.",
            indent="  ",
        )
        return
    fine = ready.status is ConditionStatus.TRUE
    since = _since(seen, _moment(ready))
    yield terminal.paint(
        f"{seen.key}: {_word(conditions)} {since}, {ready.reason}", _tone(conditions)
    )
    yield from terminal.wrapped(ready.message, indent="  ")
    remedy = _remedy(ready.reason)
    if remedy and not fine:
        yield from terminal.wrapped(f"What to do: {remedy}", indent="  ")
    yield from _stale(seen, terminal)
    yield from _others(conditions, ready, seen, terminal)


def _word(conditions: dict[str, Condition]) -> str:
    for kind, status, reason, word in _WORDS:
        found = conditions.get(kind)
        if found is not None and found.status is status and reason in (None, found.reason):
            return word
    return "fails"


def _tone(conditions: dict[str, Condition]) -> Tone:
    word = _word(conditions)
    bad = word in ("refused", "fails")
    return Tone.GOOD if word == "serves" else Tone.BAD if bad else Tone.WARNING


def _stale(seen: Seen, terminal: Terminal) -> Iterator[str]:
    """A spec that is newer than the status."""
    observed = seen.model.status.get("observedGeneration", 0)
    generation = seen.model.metadata.generation
    if isinstance(observed, int) and observed < generation:
        text = (
            f"The spec was changed since: this tells of generation {observed}, the present one is"
            f" {generation}; if that stays, see with `kindling doctor` whether the operator works."
        )
        yield from (
            terminal.paint(line, Tone.WARNING) for line in terminal.wrapped(text, indent="  ")
        )


def _others(
    conditions: dict[str, Condition], ready: Condition, seen: Seen, terminal: Terminal
) -> Iterator[str]:
    """Conditions that are not good and say something that the head does not."""
    told = {ready.reason, *_SAYS_NOTHING}
    for each in conditions.values():
        if each.status is not ConditionStatus.FALSE or each.reason in told:
            continue
        told.add(each.reason)
        since = _since(seen, _moment(each))
        yield from terminal.wrapped(
            f"{each.type} is false {since}, {each.reason}: {each.message}",
            indent="  ",
            after="    ",
        )
        remedy = _remedy(each.reason)
        if remedy:
            yield from terminal.wrapped(f"What to do: {remedy}", indent="    ")


def _decision(seen: Seen, terminal: Terminal) -> Iterator[str]:
    """The plan that stands in status."""
    plan = seen.model.status.get("plan")
    if not isinstance(plan, dict):
        return
    yield terminal.paint("the plan", Tone.STRONG)
    rows = {
        "decided": plan.get("summary", ""),
        "revision": plan.get("revision", ""),
        "context": f"{plan.get('contextLength', 0)} tokens, {_requests(plan)} requests at once",
        "endpoint": seen.model.status.get("endpoint", ""),
        "better": (plan.get("better") or {}).get("message", ""),
        "not taken": f"{plan.get('rejectedTotal', 0)} options, see `kubectl get im"
        f" {seen.key.name} -n {seen.key.namespace} -o yaml`"
        if plan.get("rejectedTotal")
        else "",
    }
    for name, value in rows.items():
        if value:
            yield from terminal.wrapped(f"{name:<10} {value}", indent="  ", after=" " * 13)


def _requests(plan: dict[str, object]) -> str:
    kv = plan.get("kvCache")
    return str(kv.get("fullContextRequests", "?")) if isinstance(kv, dict) else "?"


def _rollout(seen: Seen, conditions: dict[str, Condition], terminal: Terminal) -> Iterator[str]:
    """Which revisions stand, and the step that is under way."""
    found = standings(seen.snapshot, seen.model)
    if not found:
        return
    yield terminal.paint("the rollout", Tone.STRONG)
    progressing, ready = (
        conditions.get(kind) for kind in (ConditionType.PROGRESSING, ConditionType.READY)
    )
    if progressing is not None and ready is not None and progressing.message != ready.message:
        yield from terminal.wrapped(progressing.message, indent="  ")
    rows: list[tuple[str, ...]] = [("REVISION", "AGE", "WANTED", "READY", "STATE")]
    rows += [_standing(seen, each) for each in found]
    yield from terminal.table(rows, tone=Tone.FAINT)


def _standing(seen: Seen, standing: Standing) -> tuple[str, ...]:
    revision = standing.revision
    if revision.failed:
        state = "failed, not tried again"
    elif revision.served:
        state = "serves" if standing.routed else "has served"
    else:
        state = "has not served yet"
    made = age(seen.snapshot.now - revision.created) if revision.created is not None else ""
    return (
        revision_object_name(seen.key.name, revision.hash),
        made,
        "-" if standing.replicas is None else str(standing.replicas),
        str(standing.available),
        f"{state}: {revision.plan.summary}",
    )


def _pods(seen: Seen, terminal: Terminal) -> Iterator[str]:
    """Each pod with its node, and why it does not serve."""
    behind = set(seen.snapshot.endpoints.get(seen.key, ()))
    if not seen.snapshot.pods:
        return
    yield terminal.paint("the pods", Tone.STRONG)
    rows = [("POD", "NODE", "AGE", "WHAT IT DOES")]
    for pod in seen.snapshot.pods:
        made = age(seen.snapshot.now - pod.created)
        doing = _doing(pod, state_of(pod, behind=pod.name in behind), seen.snapshot.now)
        rows.append((pod.name, pod.node or "-", made, fit_message(doing)))
    yield from terminal.table(rows, tone=Tone.FAINT)
    for pod in seen.snapshot.pods:
        if pod.restarts and not pod.ready:
            yield f"  its last log: {logs_of(pod)}"


def _doing(pod: PodView, state: PodState, now: datetime) -> str:
    again = f"restarts: {pod.restarts}, {last_end(pod)}"
    if state is PodState.FAILED:
        waits = f"{pod.waiting_reason}, " if pod.waiting_reason else ""
        return f"{waits}{again}"
    if state is PodState.UNSCHEDULABLE:
        return f"has no node: {pod.unschedulable}"
    if state in _TROUBLE:
        return f"{pod.waiting_reason}: {pod.waiting_message or 'the kubelet says no more'}"
    text = _DOING[state]
    if state is PodState.LOADING and pod.started is not None:
        text += f", for {age(now - pod.started)}"
    return f"{text}; {again}" if pod.restarts and state not in _FINE else text


def _happened(seen: Seen, terminal: Terminal) -> Iterator[str]:
    """The last events, of the model and of its pods."""
    if not seen.events:
        return
    yield terminal.paint("what happened last", Tone.STRONG)
    rows: list[tuple[str, ...]] = [("AGO", "EVENT", "")]
    rows += [_event(seen, told) for told in seen.events[-EVENTS:]]
    yield from terminal.table(rows, tone=Tone.FAINT)


def _event(seen: Seen, told: Told) -> tuple[str, ...]:
    times = f" ({told.times} times)" if told.times > 1 else ""
    about = f"{told.about}: " if told.about else ""
    return (
        age(seen.snapshot.now - told.when),
        f"{'! ' if told.warning else ''}{told.reason}",
        fit_message(f"{about}{told.note}{times}"),
    )


def _remedy(reason: str) -> str:
    """What to do about a reason; "" for one that this version does not know or needs nothing."""
    if reason not in set(Reason):
        return ""
    remedy = REASONS[Reason(reason)].remedy
    return "" if remedy == "Nothing." else remedy


def _moment(condition: Condition) -> datetime:
    return datetime.fromisoformat(condition.last_transition_time)


def _since(seen: Seen, when: datetime) -> str:
    at = when.astimezone(UTC)
    shown = at.strftime(
        "%H:%M" if seen.snapshot.now - when < timedelta(hours=20) else "%Y-%m-%d %H:%M"
    )
    return f"since {shown} UTC ({age(seen.snapshot.now - when)})"
