"""A decision as a person reads it: the plan, the byte budget, what was not taken and why."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from kindling_operator.model.plan import Decision, EnginePlan, Verdict
from kindling_operator.model.quantities import format_bytes
from kindling_operator.model.status import MemoryItem

_WIDTH = 100
_BAR = 30


def decision_table(decision: Decision, obstacle: Verdict | None) -> str:
    """The whole text of one decision; `obstacle` is why there would be no pods now."""
    return "\n".join(_lines(decision, obstacle))


def _lines(decision: Decision, obstacle: Verdict | None) -> Iterator[str]:
    if obstacle is None:
        yield from _wrapped(f"{decision.key}: {decision.verdicts[0].message}", after="  ")
    else:
        word = "refused" if decision.refused is not None else "waits"
        yield f"{decision.key}: {word}, {obstacle.reason.value}"
        yield from _wrapped(obstacle.message, indent="  ")
    if decision.current is None:
        return
    plan = decision.current.plan
    yield from _facts(plan)
    if plan.gpu is not None:
        yield from _budget(f"memory of each {plan.gpu.product}", plan.gpu.memory_items)
    yield from _budget("memory of each pod", plan.pod.memory_items)
    yield "  command"
    yield from _wrapped(shlex.join(plan.argv), indent="    ")
    yield from _rejected(plan)


def _facts(plan: EnginePlan) -> Iterator[str]:
    kv = plan.kv
    facts = {
        "weights": f"{plan.weights.uri} at {plan.weights.path}",
        "image": plan.image,
        "context": f"{plan.context_length} tokens, {kv.full_context_requests} requests at once",
        "KV cache": f"{kv.blocks} blocks, {kv.blocks_per_request} per request, {kv.tokens} tokens",
        "start, drain": f"at most {plan.startup_seconds} s, {plan.drain_seconds} s",
    }
    for name, fact in facts.items():
        yield f"  {name:<13}{fact}"


def _budget(title: str, items: Sequence[MemoryItem]) -> Iterator[str]:
    whole = sum(item.bytes for item in items)
    yield f"  {title}: {format_bytes(whole)}"
    for item in items:
        bar = "█" * round(_BAR * item.bytes / whole) if whole else ""
        size = format_bytes(item.bytes)
        yield f"    {item.item:<22} {size:>10}  {item.basis.value:<9}  {bar}".rstrip()


def _rejected(plan: EnginePlan) -> Iterator[str]:
    if not plan.rejected:
        return
    yield f"  not taken ({plan.rejected_total})"
    for option in plan.rejected:
        yield f"    {option.option}: {option.reason}"
        yield from _wrapped(option.message, indent="      ")


def _wrapped(text: str, *, indent: str = "", after: str | None = None) -> list[str]:
    """Lines of at most _WIDTH; those after the first have their own indent if one is given."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if after is None else after,
        break_long_words=False,
        break_on_hyphens=False,
    )
