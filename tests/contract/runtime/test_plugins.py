"""What a pod tells of the corrections of vLLM that its engine loaded."""

import sys
from pathlib import Path

import msgspec
import pytest
from tests.support.engine import pod as pods

from kindling_runtime.contract import LaunchPlan, Phase, PluginState, PluginStatus
from kindling_runtime.plugins import record, registry

LOADS = (
    "import runpy, sys; from kindling_runtime.plugins import registry; registry.load(); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""Loads plugins as vLLM does, then is the stand-in."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


def loading(plan: LaunchPlan) -> LaunchPlan:
    argv = (sys.executable, "-c", LOADS, *plan.engine.argv[1:])
    return msgspec.structs.replace(plan, engine=msgspec.structs.replace(plan.engine, argv=argv))


async def test_an_engine_that_loaded_none_leaves_all_of_them_pending(
    model: Path, tmp_path: Path
) -> None:
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        status = await pod.reach(Phase.READY)

        assert [each.name for each in status.plugins] == list(registry.NAMES)
        assert {each.state for each in status.plugins} == {PluginState.PENDING}


async def test_one_that_stays_off_says_why(model: Path, tmp_path: Path) -> None:
    async with pods.running(loading(pods.plan_for(model)), tmp_path) as pod:
        status = await pod.reach(Phase.READY)

        (plugin,) = [each for each in status.plugins if each.name == "split-kv"]
        assert plugin.state is PluginState.OFF
        assert plugin.why == "it failed with ModuleNotFoundError: No module named 'vllm'"
        assert 'kindling_runtime_plugin_on{plugin="split-kv"} 0.0' in await pod.metrics()


async def test_nothing_is_told_of_an_engine_before_this_one(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    record.write(folder, [PluginStatus(name="split-kv", state=PluginState.ON, why="corrected")])
    plan = pods.plan_for(model, env={record.FOLDER_VARIABLE: str(folder)})
    async with pods.running(plan, tmp_path) as pod:
        status = await pod.reach(Phase.READY)

        assert {each.state for each in status.plugins} == {PluginState.PENDING}
