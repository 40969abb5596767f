"""What is known of a GPU product: the numbers of the speed model, with their sources."""

from __future__ import annotations

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
