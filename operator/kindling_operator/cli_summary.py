"""Several models at one glance, in the order in which they are placed: who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kindling_operator.cli_decision import headline, obstacle
from kindling_operator.cli_terminal import Terminal, Tone
from kindling_operator.cli_what_if import ONE_BY_ONE, awaited, fits_without
from kindling_operator.model.names import Key
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.placement import models_in_order


def summary_lines(
    snapshot: Snapshot, decisions: Sequence[Decision], terminal: Terminal
) -> Iterator[str]:
    """One row per decision."""
    order = [model.key for model in models_in_order(snapshot)]
    place = {key: number for number, key in enumerate(order)}
    rows = [("MODEL", "GPUS", "DECISION")]
    for decision in sorted(decisions, key=lambda each: (place.get(each.key, len(place)), each.key)):
        head, _ = headline(decision)
        rows.append(
            (str(decision.key), _gpus(decision), head + _awaited(snapshot, decision, order))
        )
    title = f"{len(decisions)} models, in the order in which they are placed"
    yield terminal.paint(title, Tone.STRONG)
    yield from terminal.table(rows, tone=Tone.FAINT)


def _awaited(snapshot: Snapshot, decision: Decision, order: Sequence[Key]) -> str:
    if decision.refused is not None or obstacle(decision) is None or decision.key not in order:
        return ""
    earlier = order[: order.index(decision.key)]
    found = awaited(snapshot, decision.key, earlier)
    if not found:
        return ": waits for the cluster" if earlier else ""
    if len(found) > ONE_BY_ONE:
        return f": waits for the {len(found)} models before it"
    word = "or" if fits_without(snapshot, decision.key, {found[0]}) else "and"
    return f": waits for {f' {word} '.join(map(str, found))}"


def _gpus(decision: Decision) -> str:
    """GPUs of all replicas together: "16 NVIDIA-H200"."""
    current = decision.current
    if current is None or current.plan.gpu is None:
        return "-"
    gpu = current.plan.gpu
    return f"{gpu.count * gpu.nodes * max(1, decision.desired_replicas)} {gpu.product}"
