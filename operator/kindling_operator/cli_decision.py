"""A decision as a person reads it: the plan, the byte budget, what was not taken and why."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kindling_operator.cli_budget import memory_lines, speed_lines
from kindling_operator.cli_terminal import Terminal, Tone
from kindling_operator.model.conditions import ConditionType
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Decision, EnginePlan, RolloutState, Verdict
from kindling_operator.model.quantities import format_bytes
from kindling_operator.model.status import MAX_REJECTED, RejectedOption
from kindling_operator.plan.argument import explained
from kindling_operator.plan.listing import few

_FACT = 13
OPTIONS = 8
"""Rejected options that are told of: the nearest are those that a person would ask about."""


def decision_text(
    decision: Decision,
    terminal: Terminal,
    *,
    nodes: Sequence[str] = (),
    later: EnginePlan | None = None,
    considered: Sequence[RejectedOption] = (),
    why: bool = False,
) -> str:
    """The whole text of one decision.

    `nodes` are the places that its pods are on, or would go to (`places_of`); `later` is what a
    model that waits would run once there is room, `considered` what was judged for a refused one.
    With `why` each argument of the command is explained.
    """
    lines = [*_head(decision, terminal), *_rejected(considered, len(considered), terminal)]
    if decision.current is not None:
        lines += _standing(decision, terminal)
        lines += _plan(decision.current.plan, terminal, nodes, why=why)
    elif later is not None:
        lines += _fact("then", later.summary, terminal)
        lines += _plan(later, terminal, (), why=why)
    return "\n".join(lines)


def obstacle(decision: Decision) -> Verdict | None:
    """Why a model would not get its pods now: refused, or waiting for something."""
    scheduled = decision.verdict(ConditionType.SCHEDULED)
    waiting = scheduled if scheduled is not None and not scheduled.holds else None
    return decision.refused or waiting


def headline(decision: Decision) -> tuple[str, Tone]:
    """The decision in one line, and its colour."""
    hindered = obstacle(decision)
    if hindered is None:
        return decision.verdicts[0].message, Tone.GOOD
    word = "refused" if decision.refused is not None else "waits"
    tone = Tone.BAD if decision.refused is not None else Tone.WARNING
    return f"{word}, {hindered.reason.value}", tone


def _head(decision: Decision, terminal: Terminal) -> Iterator[str]:
    head, tone = headline(decision)
    text = f"{decision.key}: {head}"
    yield from (terminal.paint(line, tone) for line in terminal.wrapped(text, after="  "))
    hindered = obstacle(decision)
    if hindered is not None:
        yield from terminal.wrapped(hindered.message, indent="  ")


def _plan(
    plan: EnginePlan, terminal: Terminal, nodes: Sequence[str], *, why: bool
) -> Iterator[str]:
    yield from _facts(plan, terminal, nodes)
    if plan.speed is not None:
        yield from speed_lines(plan.speed, terminal)
    yield from memory_lines(plan, terminal)
    yield from _command(plan, terminal)
    if why:
        yield from _arguments(plan, terminal)
    yield from _rejected(plan.rejected, plan.rejected_total, terminal)


def _standing(decision: Decision, terminal: Terminal) -> Iterator[str]:
    """What is already there and stays: only where something is stored in the cluster."""
    current = decision.current
    if current is None or current.created is None:
        return
    names = ", ".join(f"{target.revision.hash} ({target.replicas})" for target in decision.targets)
    step = "" if decision.state is RolloutState.STEADY else f", {decision.state.value}"
    yield from _fact("stored", f"revision (replicas): {names}{step}", terminal)
    if decision.better is not None:
        yield from _fact("better", decision.better.message, terminal)


def _facts(plan: EnginePlan, terminal: Terminal, nodes: Sequence[str]) -> Iterator[str]:
    kv = plan.kv
    facts = {
        "placement": _placement(plan, nodes),
        "weights": f"{plan.weights.uri} at {plan.weights.path}",
        "image": plan.image,
        "context": f"{plan.context_length} tokens, {kv.full_context_requests} requests at once",
        "KV cache": f"{kv.blocks} blocks, {kv.blocks_per_request} per request, {kv.tokens} tokens",
        "host tier": _host_tier(plan),
        "speculation": f"MTP, {plan.draft_tokens} tokens" if plan.draft_tokens else "",
        "attention": _listed(f"{b.group} {b.backend}" for b in plan.attention_backends),
        "media from": _listed(plan.media_domains),
        "start, drain": f"at most {plan.startup_seconds} s, {plan.drain_seconds} s",
    }
    for name, fact in facts.items():
        if fact:
            yield from _fact(name, fact, terminal)
    tier = (plan.host_tier.why,) if plan.host_tier is not None else ()
    for reason in (*plan.why, *tier):
        yield from _fact("because", reason, terminal)


def _fact(name: str, fact: str, terminal: Terminal) -> Iterator[str]:
    after = " " * (2 + _FACT)
    for number, line in enumerate(terminal.wrapped(fact, indent=after)):
        shown = terminal.paint(f"{name:<{_FACT}}", Tone.FAINT)
        yield f"  {shown}{line[len(after) :]}" if number == 0 else line


def _placement(plan: EnginePlan, nodes: Sequence[str]) -> str:
    """How many pods one replica has, what each asks for, and the nodes."""
    pods = plan.group.size if plan.group is not None else 1
    asks = f"{pods} pods of" if pods > 1 else "1 pod of"
    gpus = f"{plan.gpus_per_pod} GPU{'s' if plan.gpus_per_pod > 1 else ''}, " * bool(plan.gpu)
    text = (
        f"{asks} {gpus}{plan.pod.cpu_millis / 1000:g} CPU and {format_bytes(plan.pod.memory)}"
        " of memory per replica"
    )
    if plan.gpu is not None and plan.gpu.one_clique:
        text += ", in one NVLink domain"
    return f"{text}; on {few(nodes)}" if nodes else text


def places_of(pods: Iterable[PodView], kept: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Where replicas are or would go: a node, or the nodes of a group joined by "+".

    `pods` are those that exist, `kept` the nodes on which room is kept, one entry per replica.
    """
    bound = (pod.node for pod in pods if pod.node)
    count = Counter([*bound, *(" + ".join(nodes) for nodes in kept)])
    return tuple(
        f"{place} ({times} replicas)" if times > 1 else place
        for place, times in sorted(count.items())
    )


def _host_tier(plan: EnginePlan) -> str:
    tier = plan.host_tier
    if tier is None:
        return ""
    kept = f"{tier.retention_tokens} tokens apart" if tier.retention_tokens else "ends of prompts"
    return f"{format_bytes(tier.bytes)} per pod, chunks of {tier.chunk_blocks} blocks, {kept}"


def _listed(items: Iterable[str]) -> str:
    return ", ".join(items)


def _command(plan: EnginePlan, terminal: Terminal) -> Iterator[str]:
    """The command, to be copied; what differs between the pods of a group below it."""
    yield f"  {terminal.paint('command', Tone.STRONG)}"
    yield from terminal.words(map(shlex.quote, plan.argv), indent="    ", after="      ", end=" \\")
    if plan.group is None:
        return
    for rank, arguments in enumerate(plan.group.rank_arguments):
        role = "serves" if plan.group.serving[rank] else "headless"
        words = [f"pod {rank} ({role}):", *map(shlex.quote, arguments)]
        yield from terminal.words(words, indent="    ", after="      ", end="")


def _arguments(plan: EnginePlan, terminal: Terminal) -> Iterator[str]:
    """Each option of the command by name, and why it is given."""
    found = explained(plan)
    yield f"  {terminal.paint('arguments', Tone.STRONG)}"
    if not found:
        yield "    this plan was stored by a release that kept no reasons"
        return
    yield from terminal.table([("ARGUMENT", "WHY"), *found.items()], indent="    ", tone=Tone.FAINT)


def _rejected(rejected: Sequence[RejectedOption], total: int, terminal: Terminal) -> Iterator[str]:
    """The nearest options that were not taken; `total` counts those that are not told of."""
    if not rejected:
        return
    order = ", the nearest first" if total > 1 else ""
    yield f"  {terminal.paint(f'not taken ({total}{order})', Tone.STRONG)}"
    rows = [("OPTION", "WHY NOT")]
    last = ""
    for each in rejected[:OPTIONS]:
        why = f"{each.reason}: {each.message}"
        rows.append((each.option, why if why != last else "as above"))
        last = why
    yield from terminal.table(rows, indent="    ", tone=Tone.FAINT)
    if total > OPTIONS:
        nearest = min(len(rejected), MAX_REJECTED)
        yield f"    and {total - OPTIONS} more; -o json has the nearest {nearest}"
