"""Inkling's full-attention layers on Hopper: the KV cache is split over the chip.

vLLM 0.33.0 returns one piece for compute capability 9 before its own heuristic is asked
(models/inkling/nvidia/ops/fa4_rel_attention.py:81-83), so one block of threads reads the whole
length of a KV head: 3.8 ms a layer at 100K tokens on one H200, whatever the tensor parallelism,
where 128 pieces take 0.06 ms. The kernel of the same wheel splits.

`dispatch` enumerates the kernels that are compiled before the first request, and asks the replaced
function for each, so what is used is what was compiled.
"""

from kindling_runtime.plugins.plugin import Original, Plugin, but_on
from kindling_runtime.plugins.replacing import replace
from kindling_runtime.plugins.split_policy import split_count

_MODULE = "vllm.models.inkling.nvidia.ops.fa4_rel_attention"
_COUNT = Original(
    _MODULE,
    "inkling_fa4_num_splits",
    "25e235b4e6540244590e99e3bca402f8d4eb60459c07fe5b044d239cb8e59ad2",
)
_DISPATCH = Original(
    _MODULE,
    "InklingFA4RelAttentionKernel.dispatch",
    "6099496b91886692ae5283f3a63905115072b83cea4018874a29bb32a0ef5e0b",
)
_KERNEL = Original(
    _MODULE,
    "InklingFA4RelAttentionKernel.kernel",
    "82154ffcba1796b982657fd68c78b0a0ea400239afe2f6776c1e261f1fd0ce0a",
)


def inkling_num_splits(
    *,
    is_local: bool,
    batch_size: int,
    max_query_len: int,
    num_heads: int,
    num_kv_heads: int,
    max_kv_len: int,
) -> int:
    """In the place of vLLM's function; layers with a window are short and stay whole."""
    if is_local:
        return 1
    return split_count(
        batch=batch_size,
        query=max_query_len,
        heads=num_heads,
        kv_heads=num_kv_heads,
        keys=max_kv_len,
    )


def _engage() -> None:
    replace(_COUNT, inkling_num_splits)


SPLIT_KV = Plugin(
    name="split-kv",
    versions=("0.33.0",),
    reference="vllm-project/vllm pull request 53317",
    spared=but_on(9),
    originals=(_COUNT, _DISPATCH, _KERNEL),
    engage=_engage,
)
