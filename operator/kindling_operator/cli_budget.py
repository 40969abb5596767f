"""Bars of a plan: where the bytes of a GPU and of a pod go, and where the time of a token goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kindling_operator.cli_terminal import Terminal, Tone
from kindling_operator.model.plan import EnginePlan, SpeedPlan
from kindling_operator.model.quantities import format_bytes
from kindling_operator.model.status import Basis, MemoryItem

_NAME = 26
_FIXED = 4 + _NAME + 1 + 11 + 2 + 9 + 2
"""Characters of a line before its bar: indent, name, amount, basis."""

_TONES = {Basis.EXACT: Tone.GOOD, Basis.MEASURED: Tone.SURE, Basis.ESTIMATED: Tone.WARNING}


def memory_lines(plan: EnginePlan, terminal: Terminal) -> Iterator[str]:
    """The byte budget of each GPU and of each pod."""
    if plan.gpu is not None and plan.gpu.memory_items:
        yield from _budget(f"memory of each {plan.gpu.product}", plan.gpu.memory_items, terminal)
    yield from _budget("memory of each pod", plan.pod.memory_items, terminal)


def speed_lines(speed: SpeedPlan, terminal: Terminal) -> Iterator[str]:
    """The terms of the speed model for one request that is alone."""
    step = speed.step_nanoseconds
    if not step:
        return
    rate = float(speed.tokens_per_step) * 1e9 / step
    title = (
        f"time of one step at {speed.context} tokens: {step / 1e6:.2f} ms for"
        f" {speed.tokens_per_step} tokens, {rate:.0f} tokens/s"
    )
    yield f"  {terminal.paint(title, Tone.STRONG)}"
    for term in speed.decode:
        amount = f"{term.nanoseconds / 1e6:.2f} ms"
        yield _line(
            term.item, amount, Basis.ESTIMATED, part=term.nanoseconds, whole=step, terminal=terminal
        )
    if speed.prefill_tokens_per_second:
        yield f"    prompts: {speed.prefill_tokens_per_second} tokens/s of one replica"


def _budget(title: str, items: Sequence[MemoryItem], terminal: Terminal) -> Iterator[str]:
    whole = sum(item.bytes for item in items)
    yield f"  {terminal.paint(f'{title}: {format_bytes(whole)}', Tone.STRONG)}"
    for item in items:
        amount = format_bytes(item.bytes)
        yield _line(item.item, amount, item.basis, part=item.bytes, whole=whole, terminal=terminal)


def _line(
    name: str, amount: str, basis: Basis, *, part: int, whole: int, terminal: Terminal
) -> str:
    bar = terminal.bar(part, whole, width=terminal.width - _FIXED)
    tone = _TONES[basis]
    # Painted after it is padded: codes of colours take no room on the screen.
    text = f"    {name:<{_NAME}} {amount:>11}  {terminal.paint(f'{basis.value:<9}', tone)}"
    return f"{text}  {terminal.paint(bar, tone)}".rstrip() if bar else text.rstrip()
