"""What the container itself must be: memory, shared memory, limits, packages, clock."""

import importlib.metadata
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kindling_runtime import gpus, starving
from kindling_runtime.contract import SHARED_MEMORY_PATH, LaunchPlan
from kindling_runtime.starving import gib

Check = Callable[[LaunchPlan], str | None]

_FEWEST_FILES: Final = 1024
_MOST_FILES: Final = 65_536
"""Sockets of some thousand streams, of ranks to each other, and shards of the weights."""
_FEWEST_THREADS: Final = 256
"""Low on purpose: a limit below it is a mistake of somebody's, not a budget."""
_PIDS: Final = Path("/sys/fs/cgroup/pids.max")
"""The container's own (Documentation/admin-guide/cgroup-v2.rst); the pod's cannot be seen."""
_FREE_SHARE: Final = 0.9
"""Of what the plan needs: a few pages of somebody else are no reason not to start."""
_BUILT: Final = 1_764_460_800
"""1 December 2025: no clock that is right shows less."""
_OUTLIVED: Final = _BUILT + 20 * 31_557_600
"""Twenty years later: no certificate of a store or an API server is valid then, and no engine of
this release serves."""
_GPU_SECONDS: Final = 20.0
"""An engine that has just ended gives its memory back within some seconds."""


def memory_limit_holds_the_plan(plan: LaunchPlan) -> str | None:
    """A limit below the plan's sum ends the engine in the middle of its load."""
    wanted, has = plan.requires.memory, starving.memory_limit()
    if not wanted or has is None or has >= wanted:
        return None
    return (
        f"the container's memory limit is {gib(has)} GiB and the plan needs {gib(wanted)}; see"
        " what changed the pod's resources, such as a LimitRange or a VerticalPodAutoscaler"
    )


def shared_memory_is_large_enough(plan: LaunchPlan) -> str | None:
    """The KV tier and the ranks' queues lie there; the runtime's default is 64 MiB."""
    wanted = plan.requires.shared_memory
    if not wanted:
        return None
    found = os.statvfs(SHARED_MEMORY_PATH)
    has, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    if has < wanted:
        return (
            f"{SHARED_MEMORY_PATH} has {gib(has)} GiB and the plan needs {gib(wanted)}; see what"
            " changed the pod's volume shm"
        )
    if free < _FREE_SHARE * wanted:
        return (
            f"{SHARED_MEMORY_PATH} has {gib(free)} GiB free of {gib(has)} and the plan needs"
            f" {gib(wanted)}; delete the pod, which empties it"
        )
    return None


def enough_files_may_be_open(_plan: LaunchPlan) -> str | None:
    """A limit is met at the busiest moment: the soft one is raised as far as the hard one lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if resource.RLIM_INFINITY != soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most >= _FEWEST_FILES:
        return None
    return (
        f"the container may open {hard} files and an engine needs {_FEWEST_FILES}; raise the limit"
        " in the container runtime's configuration (LimitNOFILE)"
    )


def enough_threads_may_run(_plan: LaunchPlan) -> str | None:
    """The kernel bounds them by user, except for root, and by cgroup."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    if os.getuid() != 0 and resource.RLIM_INFINITY != hard < _FEWEST_THREADS:
        return (
            f"the container's user may have {hard} threads and an engine needs {_FEWEST_THREADS};"
            " raise the limit in the container runtime's configuration (LimitNPROC)"
        )
    most = starving.number(_PIDS)
    if most is not None and most < _FEWEST_THREADS:
        return (
            f"the container may have {most} threads and an engine needs {_FEWEST_THREADS}; raise"
            " the limit of the kubelet (podPidsLimit)"
        )
    return None


def packages_are_as_planned(plan: LaunchPlan) -> str | None:
    """The plan's arguments are those of one release, and some plans need an extra."""
    for package in plan.requires.packages:
        has = _version(package.name)
        if has is None:
            return (
                f"the image has no {package.name}, which the plan needs; use the runtime image of"
                " the operator's own release, or describe yours under the chart's `runtimes`"
            )
        if package.version and has.partition("+")[0] != package.version:
            return (
                f"the image has {package.name} {has} and the plan is for {package.version}; use the"
                " runtime image of the operator's own release, or describe yours under the chart's"
                " `runtimes`"
            )
    return None


def clock_is_sane(_plan: LaunchPlan) -> str | None:
    """With a clock before the build, or far after it, no certificate is valid."""
    now = time.time()
    if _BUILT <= now < _OUTLIVED:
        return None
    where = "in the past" if now < _BUILT else "over 20 years after this release"
    shown = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    return f"the node's clock shows {shown}, which is {where}; set it, such as by NTP"


def gpus_are_as_planned(plan: LaunchPlan) -> str | None:
    """Count, product, memory, compute capability, driver; memory may be freed in this moment."""
    wanted = plan.requires.device
    if wanted is None:
        return None
    end = time.monotonic() + _GPU_SECONDS
    while True:
        try:
            found = gpus.look()
        except gpus.UnseenError as error:
            return (
                f"the pod's GPUs cannot be asked ({error}); see that the node's container runtime"
                " is NVIDIA's and that the image keeps NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            )
        said = gpus.problem(found, wanted)
        waits = said is not None and gpus.memory_is_taken(found, wanted) == said
        if not waits or time.monotonic() >= end:
            return said
        time.sleep(1)


POD_CHECKS: Final[tuple[Check, ...]] = (
    clock_is_sane,
    memory_limit_holds_the_plan,
    shared_memory_is_large_enough,
    enough_files_may_be_open,
    enough_threads_may_run,
    packages_are_as_planned,
)
GPU_CHECKS: Final[tuple[Check, ...]] = (gpus_are_as_planned,)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
