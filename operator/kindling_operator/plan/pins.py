"""What the user fixes of a layout: the sizes to insist on, and the most GPUs of a replica."""

from __future__ import annotations

from kindling_operator.model.api_placement import Parallelism, Placement
from kindling_operator.plan.subject import Subject


def most_gpus(subject: Subject) -> int | None:
    """The user's limit for one replica."""
    placement = subject.spec.placement
    return placement.max_gpus_per_replica if placement is not None else None


def pins_of(subject: Subject) -> Parallelism:
    """The sizes that the user insists on."""
    return (subject.spec.placement or Placement()).parallelism or Parallelism()


def wants_several(subject: Subject) -> bool:
    """Whether the pins ask for more than one GPU."""
    pins = pins_of(subject)
    return bool(pins.expert) or max(pins.tensor or 1, pins.pipeline or 1, pins.data or 1) > 1


def pins_text(subject: Subject) -> str:
    """The pins as the user wrote them, or ""."""
    pins = pins_of(subject)
    given = {
        "tensor": pins.tensor,
        "pipeline": pins.pipeline,
        "data": pins.data,
        "expert": None if pins.expert is None else str(pins.expert).lower(),
    }
    shown = [f"{name}: {value}" for name, value in given.items() if value is not None]
    return f"spec.placement.parallelism {{{', '.join(shown)}}}" if shown else ""
