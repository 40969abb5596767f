"""Candidates of the planner without a cluster: a model, a class of GPU, a layout."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs
from tests.support.builders import catalog_spec, environment, parsed

from kindling_operator import catalog
from kindling_operator.model.architecture import Architecture, CheckpointName
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import SpeedPlan
from kindling_operator.model.snapshot import Environment
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.fit import Wanted
from kindling_operator.plan.speed import Pace, Pass, pass_of, speed_plan
from kindling_operator.plan.subject import Subject, subject_of

GPUS: Final = {
    "NVIDIA-H100-80GB-HBM3": ("sm90", 81_559),
    "NVIDIA-H200": ("sm90", 143_771),
    "NVIDIA-B200": ("sm100", 183_359),
    "NVIDIA-GB200": ("sm100", 189_471),
    "NVIDIA-L40S": ("sm89", 46_068),
}
"""Compute capability, and MiB as nvidia-smi has them."""


_DRAFT_BYTES: Final = 2 * (6144 * 64 * 272 + 6144 * 8 * 256 + 3 * 6144 * 24576 + 2 * 6144**2)
"""One prediction layer: attention, dense MLP, and the projection of twice the hidden size."""


def gpu(product: str, *, architecture: str = "amd64") -> GpuClass:
    """A class of GPU as its nodes would describe it."""
    capability, mib = GPUS[product]
    return GpuClass(product, capability, mib << 20, architecture)


def subject(name: str, *, installed: Environment | None = None, **fields: Any) -> Subject:
    """A model of the catalog with a spec of these fields."""
    read = parsed(catalog_spec(name, **fields))
    assert isinstance(read, ParsedModel), read
    found = subject_of(read, installed or environment())
    assert found is not None
    return found


def step(of: Candidate, context: int) -> Pass:
    """A forward pass with as many requests of `context` tokens as the spec wants at once."""
    return pass_of(Pace(of), Wanted(context, of.subject.spec.serving.concurrency))


def speed_of(of: Candidate, context: int) -> SpeedPlan:
    """What one of these requests is expected to get."""
    return speed_plan(step(of, context), of.draft)


def token_nanoseconds(of: Candidate, context: int) -> int:
    """Time between two tokens of one of these requests."""
    return step(of, context).token_nanoseconds(of.draft)


def candidate(
    of: Subject,
    product: str,
    layout: Layout = ONE_GPU,
    *,
    checkpoint: CheckpointName = CheckpointName.BF16,
    draft: int = 0,
) -> Candidate:
    """One way to serve a model."""
    found = of.architecture.checkpoint(checkpoint)
    assert found is not None
    return Candidate(of, found, gpu(product), layout, draft)


def with_architecture(of: Subject, architecture: Architecture) -> Subject:
    """The same model in another shape."""
    entry = structs.replace(of.entry, architecture=architecture)
    return Subject(of.model, entry, of.environment)


def inkling_cut() -> Architecture:
    """The 12 layers and 8 experts that were run on one H200: 2 full and 10 sliding layers.

    All of its prediction layers are full attention; its 19.75 GiB are without them.
    """
    whole = catalog.load("inkling").architecture
    layers = {"full_attention": 2, "sliding_window": 10, "short_conv": 12}
    groups = tuple(
        structs.replace(group, layers=layers[group.name], positions=None)
        for group in whole.attention
    )
    assert whole.experts is not None
    assert whole.draft is not None
    drafts = whole.draft.depths * _DRAFT_BYTES
    weights = structs.replace(
        whole.checkpoints[0],
        bytes=int(19.75 * (1 << 30)) + drafts,
        expert_bytes=12 * 8 * 3 * 6144 * 3072 * 2,
    )
    return structs.replace(
        whole,
        layers=12,
        attention=groups,
        experts=structs.replace(whole.experts, count=8, layers=12),
        checkpoints=(weights,),
        draft=structs.replace(
            whole.draft, attention_group="full_attention", attention_groups=None, bytes=drafts
        ),
        towers=(),
    )
