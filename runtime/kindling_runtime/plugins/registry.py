"""The plugins of this image, and `load`, the entry point `vllm.general_plugins`.

vLLM calls `load` in each of its processes, before it builds a model (plugins/__init__.py of vLLM
0.33.0). An exception there would end the engine, so whatever fails stays off and says why.
"""

import functools
import importlib
import logging
import os
import sys
from typing import Any, Final

from kindling_runtime.contract import PluginState, PluginStatus
from kindling_runtime.plugins import record, replacing, telling
from kindling_runtime.plugins.amx import AMX
from kindling_runtime.plugins.idle_connections import IDLE_CONNECTIONS
from kindling_runtime.plugins.plugin import Host, Plugin, why_off
from kindling_runtime.plugins.split_kv import SPLIT_KV

PLUGINS: Final = (SPLIT_KV, AMX, IDLE_CONNECTIONS)
NAMES: Final = tuple(plugin.name for plugin in PLUGINS)

_log = logging.getLogger("vllm.kindling")  # below vLLM's own logger, or nobody would hear it


@functools.cache
def load() -> None:
    """Engage what applies, once in a process, and record what became of each plugin."""
    folder = record.folder_of(os.environ)
    try:
        telling.engage(folder)
    except Exception:
        _log.exception("what the engine runs with will not be reported")
    try:
        states = _states()
        for each in states:
            _log.info("plugin %s is %s: %s", each.name, each.state, each.why)
        record.write(folder, states)
    except Exception:
        _log.exception("what became of the plugins of kindling-runtime is not reported")


def _states() -> list[PluginStatus]:
    here = [each for each in PLUGINS if not each.concerns or each.concerns in sys.modules]
    try:
        host = _this_process()
    except Exception as error:
        return [_off(plugin, _failure(error)) for plugin in here]
    return [engaged(plugin, host) for plugin in here]


def engaged(plugin: Plugin, host: Host) -> PluginStatus:
    """Engage a plugin if it applies; what became of it."""
    try:
        why = why_off(plugin, host)
        if why is not None:
            return _off(plugin, why)
        plugin.engage()
    except Exception as error:
        return _off(plugin, _failure(error))
    why = f"vLLM {host.vllm} is corrected ({plugin.reference})"
    return PluginStatus(name=plugin.name, state=PluginState.ON, why=why)


def _off(plugin: Plugin, why: str) -> PluginStatus:
    return PluginStatus(name=plugin.name, state=PluginState.OFF, why=why)


def _failure(error: Exception) -> str:
    return f"it failed with {type(error).__name__}: {error}"


def _this_process() -> Host:
    vllm: Any = importlib.import_module("vllm")
    platforms: Any = importlib.import_module("vllm.platforms")
    platform = platforms.current_platform
    capability = platform.get_device_capability()
    return Host(
        environment=os.environ,
        vllm=vllm.__version__,
        capability=None if capability is None else (capability.major, capability.minor),
        amx=platform.is_cpu() and _has_tiles(),
        digest=replacing.digest,
    )


def _has_tiles() -> bool:
    cpu: Any = importlib.import_module("torch.cpu")
    return bool(cpu._is_amx_tile_supported())
