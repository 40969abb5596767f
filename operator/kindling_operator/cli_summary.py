"""Several models at one glance, in the order in which they are placed: who waits for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kindling_operator.cli_decision import headline, obstacle
from kindling_operator.cli_terminal import Terminal, Tone
from kindling_operator.cli_what_if import ONE_BY_ONE, awaited, fits_without
from kindling_operator.model.names import Key
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.placement import models_in_order

_NAMED: Final = 3
"""Models that are named before the rest is only counted."""


def summary_lines(
    snapshot: Snapshot, decisions: Sequence[Decision], terminal: Terminal
) -> Iterator[str]:
    """One row per decision."""
    order = [model.key for model in models_in_order(snapshot)]
    place = {key: number for number, key in enumerate(order)}
    placed = {each.key for each in decisions if obstacle(each) is None}
    rows = [("MODEL", "GPUS", "DECISION")]
    for decision in sorted(decisions, key=lambda each: (place.get(each.key, len(place)), each.key)):
        head, _ = headline(decision)
        rows.append(
            (
                str(decision.key),
                _gpus(decision),
                head + _awaited(snapshot, decision, order, placed),
            )
        )
    title = f"{len(decisions)} models, in the order in which they are placed"
    yield terminal.paint(title, Tone.STRONG)
    yield from terminal.table(rows, tone=Tone.FAINT)


def _awaited(
    snapshot: Snapshot, decision: Decision, order: Sequence[Key], placed: Collection[Key]
) -> str:
    """Those that have what it waits for: a model that waits itself has nothing."""
    if decision.refused is not None or obstacle(decision) is None or decision.key not in order:
        return ""
    before = order[: order.index(decision.key)]
    earlier = [key for key in before if key in placed]
    found = awaited(snapshot, decision.key, earlier)
    if not found:
        return ": waits for the cluster" if before else ""
    if len(found) > ONE_BY_ONE:
        return f": waits for the {len(found)} models before it"
    word = "or" if fits_without(snapshot, decision.key, {found[0]}) else "and"
    shown = [str(key) for key in found[:_NAMED]]
    if len(found) > _NAMED:
        shown.append(f"{len(found) - _NAMED} more")
    return f": waits for {f' {word} '.join(shown)}"


def _gpus(decision: Decision) -> str:
    """GPUs of all replicas together: "16 NVIDIA-H200"."""
    current = decision.current
    if current is None or current.plan.gpu is None:
        return "-"
    gpu = current.plan.gpu
    return f"{gpu.count * gpu.nodes * max(1, decision.desired_replicas)} {gpu.product}"
