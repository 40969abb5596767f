"""Rules on the KV cache's pages."""

from __future__ import annotations

from kindling_operator.model.architecture import AttentionKind
from kindling_operator.model.conditions import Reason
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.offload import kv_layout_of


def convolutions_would_be_stretched(candidate: Candidate) -> Refusal | None:
    """Convolution kernels read blocks of a fixed length, and vLLM makes all pages equal (trap T1).

    Where another group's page is larger, the convolutions' blocks grow and their kernels read wrong
    memory without an error. Source: vLLM 0.33.0, models/inkling/nvidia/ops/sconv.py:56,121 against
    v1/core/kv_cache_planning.py:391-394.
    """
    fixed = {
        (group.window, group.block_tokens)
        for group in candidate.subject.architecture.attention
        if group.kind is AttentionKind.CONV and group.block_tokens is not None
    }
    for table in kv_layout_of(candidate).groups if fixed else ():
        if table.kind is AttentionKind.CONV and (table.window, table.block_tokens) not in fixed:
            return Refusal(
                Reason.BROKEN_COMBINATION,
                f"{candidate.subject.entry.title} with {candidate.layout.name} would have blocks of"
                f" {table.block_tokens} tokens for its convolutions, whose kernels read wrong"
                " memory then: use another tensor-parallel size, or correct the groups of"
                " spec.model.custom.attention.",
            )
    return None
