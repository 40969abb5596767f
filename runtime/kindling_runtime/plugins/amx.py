"""CPUs with AMX: the process asks the kernel for the tiles before vLLM uses them.

Linux gives AMX's tile registers only to a process that has asked (arch_prctl with
ARCH_REQ_XCOMP_PERM, Documentation/arch/x86/xstate.rst): the first instruction of one that has not
is SIGILL. vLLM 0.32.0 for CPU asks torch whether the CPU has them, and its attention for bfloat16
then uses them (v1/attention/backends/cpu_attn.py:533). Nobody asks the kernel unless oneDNN happens
to have computed with them before, so whether a worker dies at its first token depends on the model
and on the CPU: seen on a Xeon of model 207 with Linux 6.18.
"""

import importlib
from typing import Any

from kindling_runtime.plugins.plugin import Host, Original, Plugin

_ISA = Original(
    "vllm.v1.attention.backends.cpu_attn",
    "_get_attn_isa",
    "dad1605de0f814137dc279e6732614e07a2cee3156ed46cd3e183715483a44d9",
)


def _spared(host: Host) -> str | None:
    return None if host.amx else "vLLM does not compute on a CPU with AMX"


def _engage() -> None:
    cpu: Any = importlib.import_module("torch.cpu")
    if not cpu._init_amx():
        # Refused, as some sandboxes do: vLLM takes its kernels for AVX-512 then.
        cpu._is_amx_tile_supported = lambda: False


AMX = Plugin(
    name="amx-permission",
    versions=("0.32.0",),
    reference="Linux Documentation/arch/x86/xstate.rst",
    spared=_spared,
    originals=(_ISA,),
    engage=_engage,
)
