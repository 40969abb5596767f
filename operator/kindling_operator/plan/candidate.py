"""What the option rules judge: one way to serve a model, before any memory is counted."""

from __future__ import annotations

from dataclasses import dataclass

from kindling_operator.model.architecture import Checkpoint
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.subject import Subject


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint, spread by `layout` over GPUs of one class; `draft` tokens drafted per step."""

    subject: Subject
    checkpoint: Checkpoint
    gpu: GpuClass
    layout: Layout = ONE_GPU
    draft: int = 0

    @property
    def title(self) -> str:
        """The model, its checkpoint and the GPU as messages name them."""
        model = f"{self.subject.entry.title} {self.checkpoint.name.value}"
        return f"{model} on {self.gpu.product} ({self.gpu.capability})"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a candidate or a node cannot be taken: one sentence with the number and the way out."""

    reason: Reason
    message: str
