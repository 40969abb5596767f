"""Shared memory that a dead engine left behind.

/dev/shm outlives a container's restart in a pod, and vLLM leaves files in it when it is killed and,
with a tiered KV cache, even after a clean stop (vLLM 0.32: vllm_offload_*.mmap, 4 of 4 stops). What
stays there counts against the pod's memory.

Sources of the names: vLLM 0.33, v1/kv_offload/cpu/shared_offload_region.py, distributed/
ec_transfer/ec_connector/cpu/ec_shared_region.py, envs.py (_generate_shm_name; earlier releases:
VLLM_OBJECT_STORAGE_SHM_BUFFER_); CPython, multiprocessing/shared_memory.py and synchronize.py;
PyTorch, torch_PID_RANDOM_COUNT of ATen/MapAllocator.cpp (format `/torch_{}_{}_{}` in
libtorch_cpu.so 2.13); NCCL, `/dev/shm/nccl-` and six characters (libnccl.so 2.29).
"""

from pathlib import Path

_PATTERNS = (
    *("vllm_offload_*", "vllm_ec_*.mmap", "vllm_mm_*", "VLLM_OBJECT_STORAGE_SHM_BUFFER*"),
    *("psm_*", "sem.mp-*", "torch_[0-9]*_[0-9]*_[0-9]*", "nccl-??????"),
)


def remove(folder: Path) -> int:
    """Delete earlier engines' files in `folder` that no process uses; returns the bytes freed."""
    found = [file for pattern in _PATTERNS for file in folder.glob(pattern) if file.is_file()]
    if not found:
        return 0
    used = _mapped_files()
    freed = 0
    for file in found:
        if str(file) in used:
            continue
        try:
            # Allocated, not apparent: the files are sparse, and only blocks cost memory.
            size = file.stat().st_blocks * 512
            file.unlink()
        except OSError:
            # Another user's, or gone by itself. What stays costs memory but stops nobody.
            continue
        freed += size
    return freed


def _mapped_files() -> set[str]:
    """Paths that some visible process has mapped (proc_pid_maps(5), sixth column)."""
    used: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            # The process has ended, or is another user's and so did not map files of ours.
            continue
        used.update(fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6)
    return used
