"""What a correction of vLLM states of itself, and the checks that it must pass to be made."""

import dataclasses
from collections.abc import Callable, Mapping

_NO = frozenset({"0", "false", "no", "off"})


@dataclasses.dataclass(frozen=True, slots=True)
class Original:
    """A function of vLLM that a plugin was written against.

    `name` may be dotted (`Class.method`); `digest` is the SHA-256 of its source as
    `inspect.getsource` gives it, in hexadecimal.
    """

    module: str
    name: str
    digest: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A correction of vLLM.

    `versions` are the releases that it was written for and tried with, `reference` is what the
    project itself says of the fault, `spared` says why a host does not have it, or None if it has.
    `originals` is all of vLLM's code, and of what vLLM runs on, that it replaces or relies on;
    `engage` makes the correction in the running process and may raise anything. A process that has
    not imported the module `concerns` has nothing to correct, and nothing is told of it there.
    """

    name: str
    versions: tuple[str, ...]
    reference: str
    spared: "Callable[[Host], str | None]"
    originals: tuple[Original, ...]
    engage: Callable[[], None]
    concerns: str = ""

    @property
    def switch(self) -> str:
        """The environment variable that turns it off with `0`."""
        return f"KINDLING_PLUGIN_{self.name.upper().replace('-', '_')}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The process that loads plugins.

    `vllm` is the version, `capability` the GPU's compute capability as (major, minor), None without
    a GPU, `amx` whether the engine computes on a CPU that has AMX's tiles. `digest` gives that of a
    function as it is here, None where there is no such function; it is asked last, because it
    imports modules.
    """

    environment: Mapping[str, str]
    vllm: str
    capability: tuple[int, int] | None
    amx: bool = False
    digest: Callable[[Original], str | None]


def but_on(major: int) -> Callable[[Host], str | None]:
    """All hosts are spared but those with GPUs of this major compute capability."""

    def spared(host: Host) -> str | None:
        if host.capability is None:
            return f"no SM{major}0 GPU: vLLM sees none at all"
        found, minor = host.capability
        return None if found == major else f"no SM{major}0 GPU: this one is SM{found}{minor}"

    return spared


def why_off(plugin: Plugin, host: Host) -> str | None:
    """Why a plugin may not be engaged in this process; None if it may."""
    checks = (_switched_off, _other_hardware, _other_version, _other_code)
    said = (check(plugin, host) for check in checks)
    return next((why for why in said if why is not None), None)


def _switched_off(plugin: Plugin, host: Host) -> str | None:
    value = host.environment.get(plugin.switch, "")
    return f"{plugin.switch} is {value}" if value.strip().lower() in _NO else None


def _other_hardware(plugin: Plugin, host: Host) -> str | None:
    return plugin.spared(host)


def _other_version(plugin: Plugin, host: Host) -> str | None:
    if host.vllm.partition("+")[0] in plugin.versions:
        return None
    return f"it is for vLLM {' and '.join(plugin.versions)}, and this is {host.vllm}"


def _other_code(plugin: Plugin, host: Host) -> str | None:
    for original in plugin.originals:
        found = host.digest(original)
        if found is None:
            return f"this vLLM has no {original.name} in {original.module}"
        if found != original.digest:
            return f"{original.name} of this vLLM is not the function that it was written against"
    return None
