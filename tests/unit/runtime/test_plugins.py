"""Corrections of vLLM: when one is made, what it exchanges, what is told of it."""

import dataclasses
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kindling_runtime.contract import PluginState, PluginStatus
from kindling_runtime.plugins import record, registry, replacing
from kindling_runtime.plugins.amx import AMX
from kindling_runtime.plugins.plugin import Host, Original, Plugin, but_on, why_off
from kindling_runtime.plugins.registry import PLUGINS, engaged

COUNT = Original("vllm.some.module", "count", "d1")
PLUGIN = Plugin(
    name="some-fault",
    versions=("0.33.0", "0.33.1"),
    reference="pull request 1",
    spared=but_on(9),
    originals=(COUNT, Original("vllm.some.module", "Kernel.dispatch", "d2")),
    engage=lambda: None,
)
HOPPER = Host(
    environment={},
    vllm="0.33.0",
    capability=(9, 0),
    digest={each: each.digest for each in PLUGIN.originals}.get,
)


def without(original: Original) -> Callable[[Original], str | None]:
    return {each: each.digest for each in PLUGIN.originals if each is not original}.get


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (HOPPER, None),
        (dataclasses.replace(HOPPER, environment={"KINDLING_PLUGIN_SOME_FAULT": "1"}), None),
        (dataclasses.replace(HOPPER, vllm="0.33.1+cu130"), None),
        (
            dataclasses.replace(HOPPER, environment={"KINDLING_PLUGIN_SOME_FAULT": "0"}),
            "KINDLING_PLUGIN_SOME_FAULT is 0",
        ),
        (
            dataclasses.replace(HOPPER, environment={"KINDLING_PLUGIN_SOME_FAULT": "False"}),
            "KINDLING_PLUGIN_SOME_FAULT is False",
        ),
        (
            dataclasses.replace(HOPPER, capability=None),
            "no SM90 GPU: vLLM sees none at all",
        ),
        (dataclasses.replace(HOPPER, capability=(10, 3)), "no SM90 GPU: this one is SM103"),
        (
            dataclasses.replace(HOPPER, vllm="0.34.0"),
            "it is for vLLM 0.33.0 and 0.33.1, and this is 0.34.0",
        ),
        (
            dataclasses.replace(HOPPER, digest=without(COUNT)),
            "this vLLM has no count in vllm.some.module",
        ),
        (
            dataclasses.replace(HOPPER, digest=lambda _: "d1"),
            "Kernel.dispatch of this vLLM is not the function that it was written against",
        ),
    ],
)
def test_a_plugin_is_made_only_where_everything_is_as_it_was_written_for(
    host: Host, why: str | None
) -> None:
    assert why_off(PLUGIN, host) == why
    assert engaged(PLUGIN, host).state is (PluginState.OFF if why else PluginState.ON)


def test_nothing_is_told_of_a_plugin_in_a_process_that_it_does_not_concern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(record.FOLDER_VARIABLE, str(tmp_path))
    served = {each.name for each in PLUGINS if each.concerns}
    assert served == {"idle-connections"}
    for module, told in ((types.ModuleType("uvicorn.server"), served), (None, set())):
        if module is None:
            monkeypatch.delitem(sys.modules, "uvicorn.server")
        else:
            monkeypatch.setitem(sys.modules, "uvicorn.server", module)
        registry.load.__wrapped__()
        states = record.read(tmp_path, registry.NAMES)
        loaded = {each.name for each in states if each.state is not PluginState.PENDING}
        assert loaded == {each.name for each in PLUGINS if not each.concerns} | told


def test_the_code_of_vllm_is_looked_at_last() -> None:
    def imports(_: Original) -> str | None:
        raise AssertionError("a pod without the fault must not pay for the import")

    host = dataclasses.replace(HOPPER, vllm="0.32.0", digest=imports)
    assert why_off(PLUGIN, host) is not None


def test_a_plugin_that_fails_stays_off_and_says_how() -> None:
    def fails() -> None:
        raise KeyError("gone")

    status = engaged(dataclasses.replace(PLUGIN, engage=fails), HOPPER)

    assert status.state is PluginState.OFF
    assert status.why == "it failed with KeyError: 'gone'"


ON_CPU = Host(
    environment={},
    vllm="0.32.0",
    capability=None,
    amx=True,
    digest={each: each.digest for each in AMX.originals}.get,
)


class Tiles:
    """torch.cpu on a CPU with AMX whose kernel grants the tiles, or does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, granted: bool) -> None:
        self.asked = 0
        self._granted = granted
        self.module: Any = types.ModuleType("torch.cpu")
        self.module.__dict__["_init_amx"] = self._init_amx
        self.module.__dict__["_is_amx_tile_supported"] = lambda: True
        monkeypatch.setitem(sys.modules, "torch.cpu", self.module)

    def _init_amx(self) -> bool:
        self.asked += 1
        return self._granted


@pytest.mark.parametrize("granted", [True, False])
def test_the_tiles_of_amx_are_asked_for_and_not_used_where_they_are_refused(
    granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiles = Tiles(monkeypatch, granted=granted)

    assert engaged(AMX, ON_CPU).state is PluginState.ON
    assert tiles.asked == 1
    assert tiles.module._is_amx_tile_supported() is granted


def test_a_process_without_amx_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = Tiles(monkeypatch, granted=True)
    status = engaged(AMX, dataclasses.replace(ON_CPU, amx=False))

    assert (status.state, tiles.asked) == (PluginState.OFF, 0)
    assert status.why == "vLLM does not compute on a CPU with AMX"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> dict[str, types.ModuleType]:
    """A package of three modules: one has the function, one imported it by name, one has another
    function of that name."""
    modules = {
        name: types.ModuleType(name) for name in ("kinvllm.own", "kinvllm.user", "kinvllm.x")
    }
    modules["kinvllm.own"].__dict__["dumps"] = modules["kinvllm.user"].__dict__["dumps"] = dumps
    modules["kinvllm.x"].__dict__["dumps"] = len
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules


def dumps() -> int:
    return 1


def test_a_function_is_exchanged_wherever_it_was_imported(
    loaded: dict[str, types.ModuleType],
) -> None:
    replacing.replace(Original("kinvllm.own", "dumps", ""), max)

    found = {name: module.__dict__["dumps"] for name, module in loaded.items()}
    assert found == {"kinvllm.own": max, "kinvllm.user": max, "kinvllm.x": len}


def test_the_digest_is_of_the_source(loaded: dict[str, types.ModuleType]) -> None:
    own = Original("kinvllm.own", "dumps", "")

    assert replacing.digest(own) == replacing.digest(Original(__name__, "dumps", ""))
    assert replacing.digest(own) != replacing.digest(Original(__name__, "without", ""))


@pytest.mark.parametrize(
    ("module", "name"), [("kinvllm.nowhere", "dumps"), ("kinvllm.own", "load"), ("json", "JSON.a")]
)
def test_what_is_not_there_has_no_digest(
    loaded: dict[str, types.ModuleType], module: str, name: str
) -> None:
    assert replacing.digest(Original(module, name, "")) is None


def test_loading_without_vllm_ends_in_a_report_not_in_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(record.FOLDER_VARIABLE, str(tmp_path / "new" / "folder"))
    monkeypatch.setitem(sys.modules, "vllm", None)

    registry.load.__wrapped__()

    (status, *_) = record.read(tmp_path / "new" / "folder", registry.NAMES)
    assert status.state is PluginState.OFF
    assert status.why.startswith("it failed with ModuleNotFoundError: ")


def test_a_folder_that_cannot_be_written_does_not_end_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(record.FOLDER_VARIABLE, str(tmp_path / "file"))

    registry.load.__wrapped__()

    assert "is not reported" in caplog.text


def test_the_names_and_switches_of_the_plugins() -> None:
    assert {plugin.name: plugin.switch for plugin in PLUGINS} == {
        "split-kv": "KINDLING_PLUGIN_SPLIT_KV",
        "amx-permission": "KINDLING_PLUGIN_AMX_PERMISSION",
        "idle-connections": "KINDLING_PLUGIN_IDLE_CONNECTIONS",
    }


ON = PluginStatus(name="a", state=PluginState.ON, why="corrected")
OFF = PluginStatus(name="a", state=PluginState.OFF, why="no SM90 GPU")


def processes(folder: Path, *states: PluginStatus) -> None:
    for number, state in enumerate(states):
        record.write(folder, [state])
        (folder / f"{os.getpid()}.json").rename(folder / f"p{number}.json")


def test_it_is_on_where_it_is_on_in_every_process(tmp_path: Path) -> None:
    processes(tmp_path, ON, ON)
    assert record.read(tmp_path, ["a"]) == (ON,)


def test_it_is_off_where_it_is_off_in_every_process(tmp_path: Path) -> None:
    processes(tmp_path, OFF, OFF)
    assert record.read(tmp_path, ["a"]) == (OFF,)


def test_one_rank_without_it_is_enough_to_call_it_off(tmp_path: Path) -> None:
    processes(tmp_path, ON, OFF, ON)
    (status,) = record.read(tmp_path, ["a"])
    assert (status.state, status.why) == (PluginState.OFF, "no SM90 GPU (in 1 of 3 processes)")


def test_before_anything_was_loaded_it_is_pending(tmp_path: Path) -> None:
    (status,) = record.read(tmp_path / "nowhere", ["a"])
    assert status.state is PluginState.PENDING


def test_a_file_that_is_not_ours_is_passed_over(tmp_path: Path) -> None:
    processes(tmp_path, ON)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('[{"name": 1}]')
    assert record.read(tmp_path, ["a"]) == (ON,)


def test_what_an_earlier_engine_wrote_is_forgotten(tmp_path: Path) -> None:
    processes(tmp_path, ON)
    record.forget(tmp_path)
    record.forget(tmp_path / "nowhere")
    assert record.read(tmp_path, ["a"])[0].state is PluginState.PENDING
