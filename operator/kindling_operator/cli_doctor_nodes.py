"""The checks of `kindling doctor` that look at nodes: GPUs, their labels, their drivers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kindling_operator.catalog import runtimes
from kindling_operator.cli_doctor_facts import Cluster
from kindling_operator.cli_doctor_finding import Finding, fail, ok, unread, warn
from kindling_operator.model import names
from kindling_operator.model.objects import GpuShare, NodeView
from kindling_operator.observe.nodes import node
from kindling_operator.plan.devices import gpu_class
from kindling_operator.plan.listing import few
from kindling_operator.plan.silent import gpus_by_label, offers_nothing
from kindling_operator.plan.versions import branch_of, is_too_old

_GFD: Final = (
    names.LABEL_GPU_PRODUCT,
    names.LABEL_GPU_MEMORY,
    names.LABEL_GPU_MAJOR,
    names.LABEL_GPU_MINOR,
)


def gpus_can_be_requested(cluster: Cluster) -> Iterator[Finding]:
    """Nodes that have a device must advertise it: NVIDIA's device plugin does."""
    check = "GPUs"
    if cluster.nodes is None:
        yield unread(check, "nodes")
        return
    found = _views(cluster)
    silent = [node.name for node in found if offers_nothing(node)]
    if silent:
        yield fail(
            check,
            f"{_of(silent, found)} have an NVIDIA device and advertise no {names.GPU_RESOURCE}"
            f" ({few(silent)}): install NVIDIA's device plugin, or map the DRA DeviceClass to"
            f" {names.GPU_RESOURCE}.",
        )
    gpus = [node for node in found if node.gpus]
    fewer = [node.name for node in gpus if node.gpus < gpus_by_label(node)]
    if fewer:
        yield warn(
            check,
            f"{_of(fewer, gpus)} advertise fewer GPUs than they have ({few(fewer)}): look for"
            " unhealthy devices in the log of NVIDIA's device plugin.",
        )
    if gpus and not silent and not fewer:
        yield ok(check, f"{sum(node.gpus for node in gpus)} on {len(gpus)} nodes can be requested.")
    if not gpus and not silent:
        yield warn(
            check,
            f"None of {len(found)} nodes has a GPU: only models that run on CPU have a plan.",
        )


def gpu_labels_are_complete(cluster: Cluster) -> Iterator[Finding]:
    """A plan needs product, memory and capability: GPU feature discovery writes them."""
    check = "GPU labels"
    gpus = [node for node in _views(cluster) if node.gpus]
    if not gpus:
        return
    # A cloud's own labels or a ResourceSlice may say the same.
    unknown = [node for node in gpus if gpu_class(node) is None]
    if unknown:
        bad = [node.name for node in unknown]
        missing = [label for label in _GFD if any(not node.labels.get(label) for node in unknown)]
        yield fail(
            check,
            f"{_of(bad, gpus)} with GPUs lack {', '.join(missing)} ({few(bad)}): install"
            " NVIDIA's GPU feature discovery, without it a plan does not know them.",
        )
    else:
        yield ok(check, f"{len(gpus)} of {len(gpus)} nodes with GPUs say product and memory.")


def gpus_are_whole(cluster: Cluster) -> Iterator[Finding]:
    """A slice of a GPU has neither its memory nor its bandwidth."""
    gpus = [node for node in _views(cluster) if node.gpus]
    sliced = [node.name for node in gpus if node.share is GpuShare.SLICE]
    if sliced:
        yield warn(
            "GPU sharing",
            f"{_of(sliced, gpus)} share their GPUs out in slices ({few(sliced)}): a replica"
            " gets one slice there and never several, switch MIG off for larger models.",
        )
    timed = [node.name for node in gpus if node.share is GpuShare.TIME]
    if timed:
        yield warn(
            "GPU sharing",
            f"{_of(timed, gpus)} share their GPUs out in time ({few(timed)}): no replica goes"
            " there, as it would have no memory of its own, switch time-slicing and MPS off.",
        )


def drivers_are_new_enough(cluster: Cluster) -> Iterator[Finding]:
    """The runtime image's CUDA needs a driver of its branch or a later one."""
    check, floor = "GPU driver", runtimes.load("cuda").driver
    gpus = [node for node in _views(cluster) if node.gpus]
    branches = {node.name: branch_of(node.driver) for node in gpus}
    old = [name for name, branch in branches.items() if is_too_old(branch, floor)]
    silent = [name for name, branch in branches.items() if not branch]
    known = [node.driver for node in gpus if branches[node.name]]
    lowest = min(known, key=_version, default="")
    if old:
        yield fail(
            check,
            f"{_of(old, gpus)} with GPUs have a driver before branch {branch_of(floor)}, the oldest"
            f" is {lowest} ({few(old)}): upgrade it, the runtime image does not start on them.",
        )
    if silent:
        yield warn(
            check,
            f"{_of(silent, gpus)} with GPUs do not say their driver ({few(silent)}): check that it"
            f" is of branch {branch_of(floor)} or newer, or upgrade GPU feature discovery.",
        )
    if gpus and not old and not silent:
        yield ok(
            check,
            f"{lowest} is the oldest of {len(gpus)} nodes, branch {branch_of(floor)} is needed.",
        )


def _views(cluster: Cluster) -> tuple[NodeView, ...]:
    return tuple(node(body) for body in cluster.nodes or ())


def _version(word: str) -> tuple[int, ...]:
    return tuple(int(part) for part in word.split(".") if part.isdecimal())


def _of(some: Sequence[object], all_of: Sequence[object]) -> str:
    return f"{len(some)} of {len(all_of)} nodes"
