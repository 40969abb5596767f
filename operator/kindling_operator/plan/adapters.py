"""LoRA adapters: what makes vLLM serve them and what makes them right (trap T12)."""

from __future__ import annotations

from typing import Final

from kindling_operator.model.architecture import AttentionKind, CheckpointName
from kindling_operator.plan.argument import Argument
from kindling_operator.plan.media import listed
from kindling_operator.plan.mounts import weights_mount
from kindling_operator.plan.subject import Subject

_FUSED_COLLECTIVES_OFF: Final = {
    # The first is asked for by vLLM's check (config/lora.py:162-170) and switches nothing off; the
    # second does (models/inkling/nvidia/ops/lamport.py:775). Without it adapters are left out.
    "INKLING_MULTIMEM_AR": "0",
    "LAMPORT_RS_SCONV": "0",
}


def adapter_arguments(subject: Subject, checkpoint: CheckpointName) -> tuple[Argument, ...]:
    """The adapters by name and folder; all of them fit in the GPU at once."""
    adapters = sorted(subject.spec.serving.adapters, key=lambda adapter: adapter.name)
    if not adapters:
        return ()
    modules = tuple(f"{a.name}={weights_mount(a.uri).path}" for a in adapters)
    why = "spec.serving.adapters"
    # Of the 4-bit expert kernels only Marlin's take adapters (vLLM 0.33.0,
    # model_executor/layers/fused_moe/experts/marlin_moe.py:681).
    marlin = Argument("--moe-backend=marlin", "no other 4-bit expert kernels take adapters")
    return (
        Argument("--enable-lora", why),
        Argument(f"--max-loras={len(adapters)}", "all of spec.serving.adapters at once"),
        *listed("--lora-modules", modules, why),
        *((marlin,) if checkpoint is CheckpointName.NVFP4 else ()),
    )


def adapter_environment(subject: Subject) -> dict[str, str]:
    """The variables that go with adapters on a model with short convolutions."""
    fused = any(g.kind is AttentionKind.CONV for g in subject.architecture.attention)
    return dict(_FUSED_COLLECTIVES_OFF) if subject.spec.serving.adapters and fused else {}
