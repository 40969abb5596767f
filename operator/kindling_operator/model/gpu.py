"""What is known of GPU products and of engines on them: the numbers of the speed model."""

from __future__ import annotations

from kindling_operator.model.architecture import CheckpointName
from kindling_operator.model.fields import Spec


class GpuFacts(Spec, frozen=True, kw_only=True):
    """One product; `products` are the values of nvidia.com/gpu.product that mean it.

    Bandwidths in bytes per second: `memory_bandwidth` of one GPU's memory as read by a kernel,
    `link_bandwidth` of one GPU to the others of its NVLink domain in one direction (PCIe where
    there is no NVLink). `link_latency_us` is one small all-reduce inside a node, in microseconds.
    `bf16_flops` is dense BF16 throughput in operations per second. `sources` names where each
    number is from, by field.
    """

    name: str
    products: tuple[str, ...]
    capability: str
    memory_bandwidth: int
    link_bandwidth: int
    link_latency_us: float
    bf16_flops: int
    nvlink: bool
    sources: dict[str, str]


class EngineSpeed(Spec, frozen=True, kw_only=True):
    """What vLLM needs beyond the bytes: measured, for one model on one family of GPUs.

    An entry matches a layout of `architecture` (None: any) on `gpu_architectures` (empty: any) with
    `checkpoint` (None: any); `whole` True is a model on one GPU, False one that is divided, None
    either; `split_kv` True is a runtime that splits long contexts over the chip (trap T33), False
    one that does not, None either. The first entry that matches counts.

    `layer_us` is what a decoder layer takes beside reading its weights and KV cache, in
    microseconds: launches, routing, small kernels. `kv_factor` is the time of reading the KV cache
    of full layers in multiples of what the memory allows. `serial_token_ns` is the time that one
    full layer takes for each token of the context where one KV head is read by one part of the
    chip, in nanoseconds: no other GPU shortens it.
    """

    architecture: str | None = None
    gpu_architectures: tuple[str, ...] = ()
    checkpoint: CheckpointName | None = None
    whole: bool | None = None
    split_kv: bool | None = None
    layer_us: float
    kv_factor: float = 1.0
    serial_token_ns: float = 0.0
    source: str


class DraftSpeed(Spec, frozen=True, kw_only=True):
    """How well a model's prediction layers guess.

    `acceptance` is the share of drafted tokens that are accepted where the ones before them are:
    of N drafts, acceptance + acceptance^2 + ... + acceptance^N are used.
    """

    architecture: str
    acceptance: float
    source: str


class SpeedFacts(Spec, frozen=True, kw_only=True):
    """What the speed model knows of engines; in both lists the first entry that matches counts."""

    engines: tuple[EngineSpeed, ...] = ()
    drafts: tuple[DraftSpeed, ...] = ()
