"""A real vLLM finds our entry point in the image's metadata and calls it where it loads plugins."""

import json
from pathlib import Path

import pytest
from tests.images.built import build, container, inside

from kindling_runtime.contract import PluginState
from kindling_runtime.plugins import record, registry

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SCRIPT = f"""
import os
os.environ["{record.FOLDER_VARIABLE}"] = "/tmp/plugins"
import vllm.entrypoints.launchers.launcher  # as in a process that serves HTTP
from vllm.engine.arg_utils import EngineArgs
EngineArgs(model="none")  # loads plugins, as each process of an engine does
print(open(f"/tmp/plugins/{{os.getpid()}}.json").read())
"""


def test_vllm_loads_them_and_each_is_on_where_the_machine_has_its_fault() -> None:
    with container(build("runtime-cpu")) as name:
        output = inside(name, "python", "-", given=SCRIPT)

    told = {each["name"]: each for each in json.loads(output.splitlines()[-1])}
    assert tuple(told) == registry.NAMES
    assert told["split-kv"]["state"] == PluginState.OFF
    assert told["split-kv"]["why"] == "no SM90 GPU: vLLM sees none at all"
    tiles = " amx_tile " in Path("/proc/cpuinfo").read_text()
    assert told["amx-permission"]["state"] == (PluginState.ON if tiles else PluginState.OFF)
    assert told["idle-connections"]["state"] == PluginState.ON, told
