"""Nothing that depends on a clock, chance, the machine or the network gets into a pure package."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.lint.purity import ALLOWED, BUILT_IN, PURE, impurities
from tests.support.onenode import ROOT

RULE: Final = "plan, render and model are pure"
IMPURE: Final = (
    "os", "sys", "io", "pathlib", "tempfile", "shutil", "uuid", "secrets", "random", "time",
    "threading", "multiprocessing", "concurrent", "asyncio", "subprocess", "socket", "ssl", "http",
    "urllib", "logging", "kopf", "kubernetes", "aiohttp", "yaml",
)  # fmt: skip


def _found(text: str, path: str = "operator/kindling_operator/plan/x.py") -> list[str]:
    return list(impurities(Path(path), text))


@pytest.mark.parametrize("module", IMPURE)
def test_a_module_that_is_not_pure_is_named(module: str) -> None:
    for text in (f"import {module}", f"from {module} import x", f"import {module}.y as datetime"):
        [told] = _found(text)
        assert f":1: import {module}" in told
        assert "in a pure package" in told


@pytest.mark.parametrize(
    "late", ["def f():\n    {}", "try:\n    {}\nexcept ImportError:\n    pass"]
)
def test_so_is_one_that_is_imported_late(late: str) -> None:
    assert len(_found(late.format("import uuid"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "datetime.now()",
        "datetime.now(UTC)",
        "datetime.datetime.now(tz=UTC)",
        "datetime.utcnow()",
        "datetime.today()",
        "date.today()",
        "clock = datetime.now",
        "f(default_factory=date.today)",
        "type(moment).now(UTC)",
        "from datetime import datetime as moment",
        "moment.astimezone()",
        "datetime.fromtimestamp(1)",
        "contextlib.os.environ['HOME']",
        "from contextlib import os",
        "from functools import get_ident as x; from dataclasses import sys",
        "re.enum.sys",
        "dataclasses.inspect",
        *(f"{name}(x)" for name in sorted(BUILT_IN)),
    ],
)
def test_a_way_around_the_list_of_modules_is_named(text: str) -> None:
    assert len(_found(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import UTC, datetime, time, timedelta",
        "datetime.fromisoformat(text)",
        "datetime.min.replace(tzinfo=UTC)",
        "datetime.fromtimestamp(1, UTC)",
        "moment.astimezone(UTC)",
        "snapshot.now - standing.trying_since",
        "from collections.abc import Mapping; import msgspec; msgspec.json.encode(x)",
        "from msgspec import inspect",
        "from kindling_operator.model.plan import Plan",
        "revision.hash; each.id; def_open = 1",
    ],
)
def test_what_calculates_is_left_alone(text: str) -> None:
    assert _found(text) == []


def test_the_rule_holds_for_the_pure_packages_alone() -> None:
    text = "import os"

    assert [bool(_found(text, f"{part}x.py")) for part in PURE] == [True] * 5
    assert _found(text, "operator/kindling_operator/reconcile/x.py") == []


def test_import_linter_refuses_the_same_through_other_modules(tmp_path: Path) -> None:
    """A tree of empty modules under the project's contracts: the model imports what nobody may."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [forbidden] = [
        contract["forbidden_modules"]
        for contract in config["contracts"]
        if contract["name"] == RULE
    ]
    _empty_tree(tmp_path, config)
    model = tmp_path / "kindling_operator" / "model" / "__init__.py"
    model.write_text("".join(f"import {name}\n" for name in forbidden))
    plan = tmp_path / "kindling_operator" / "plan" / "__init__.py"
    plan.write_text("import kindling_operator.model\n")

    told = _lint_imports(tmp_path)

    for source in ("plan", "model"):
        for name in forbidden:
            assert f"kindling_operator.{source} is not allowed to import {name}:" in told
    assert set(forbidden) >= set(IMPURE)
    assert not set(forbidden) & ALLOWED


def _empty_tree(folder: Path, config: dict[str, Any]) -> None:
    for layers in (contract.get("layers", []) for contract in config["contracts"]):
        for name in (part.strip() for layer in layers for part in layer.split("|")):
            package = folder / name.replace(".", "/")
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
    (folder / "kindling_operator" / "__init__.py").touch()
    (folder / "kindling_runtime").mkdir()
    (folder / "kindling_runtime" / "__init__.py").touch()
    (folder / "kindling_runtime" / "contract.py").touch()
    uses = folder / "kindling_operator" / "render" / "__init__.py"
    uses.write_text("import kindling_runtime.contract\n")


def _lint_imports(folder: Path) -> str:
    """What import-linter says of a tree that breaks the contracts."""
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [program, "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout
