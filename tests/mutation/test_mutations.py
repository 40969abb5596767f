"""Each thing that catches a trap is needed: without it, a test of that trap fails.

Also `make mutation`.
"""

import re
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from tests.mutation.mutations import MUTATIONS, Mutation
from tests.support.builders import catalog_spec
from tests.support.onenode import ROOT
from tests.support.planning import kindling_plan
from tests.support.trap_planner import Planner
from tests.unit.plan import test_traps as traps
from tests.unit.plan import test_traps_of_tiers as tiers

EACH = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"T{m.trap}-{m.name}")
AT_RUN_TIME: Final = {28}
"""Caught by the object tier, which comes with a later part."""


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """What the planner computed once it would take for true with a part of it gone, and after."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("kindling_operator.plan."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@EACH
def test_a_trap_opens_without_it(
    mutation: Mutation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.take(monkeypatch)

    # What is left still plans: it fails because of what lacks, not because it is broken.
    assert kindling_plan(tmp_path, catalog_spec("flint")).code == 0
    assert any(fails(case, tmp_path) for case in cases(mutation.trap))


def fails(case: Callable[[Planner], None], folder: Path) -> bool:
    """Whether a test of a trap notices."""
    try:
        case(Planner(folder))
    except (AssertionError, ValueError, KeyError):
        # No manifest, no such option, another sentence.
        return True
    return False


def cases(trap: int) -> Iterator[Callable[[Planner], None]]:
    """The tests of a trap, each with one set of its parameters."""
    number = re.compile(rf"(^|_)t{trap:02}_")
    for name, function in {**vars(traps), **vars(tiers)}.items():
        if name.startswith("test_") and number.search(name):
            yield from _each(function)
    for title, (model, argument) in traps.ARGUMENTS.items():
        if title.startswith(f"T{trap}:"):
            yield lambda plan, m=model, a=argument: traps.test_argument(plan, m, a)  # type: ignore[misc]


def _each(function: Callable[..., None]) -> Iterator[Callable[[Planner], None]]:
    sets = [_values(mark) for mark in getattr(function, "pytestmark", ()) if _is_set(mark)]
    for chosen in product(*sets):
        given = {key: value for values in chosen for key, value in values.items()}
        yield lambda plan, f=function, g=given: f(plan, **g)  # type: ignore[misc]


def _is_set(mark: Any) -> bool:
    return bool(mark.name == "parametrize")


def _values(mark: Any) -> list[dict[str, Any]]:
    """One dictionary of arguments for each row of a parametrize mark."""
    names, rows = mark.args
    if isinstance(names, str):
        return [{names: row} for row in rows]
    return [dict(zip(names, row, strict=True)) for row in rows]


def rows() -> dict[int, str]:
    """The rows of the table in docs/traps.md."""
    text = (ROOT / "docs" / "traps.md").read_text()
    found = re.findall(r"^\| T(\d+) \|(.*)$", text, re.MULTILINE)
    return {int(number): row for number, row in found}


def test_the_table_has_every_trap() -> None:
    assert list(rows()) == list(range(1, 34))


def test_every_trap_is_taken_away_once() -> None:
    assert {mutation.trap for mutation in MUTATIONS} | AT_RUN_TIME == set(rows())


@pytest.mark.parametrize("trap", sorted(set(range(1, 34)) - AT_RUN_TIME))
def test_the_table_tells_what_catches_a_trap_and_which_test(trap: int) -> None:
    row = rows()[trap]
    named = {mutation.name for mutation in MUTATIONS if mutation.trap == trap}

    assert {name for name in named if f"`{name}`" not in row} == set()
    assert list(cases(trap))
    assert f"`-k t{trap:02}`" in row or f"`-k T{trap}:`" in row


@pytest.mark.parametrize("trap", sorted(AT_RUN_TIME))
def test_what_happens_at_run_time_points_to_its_part(trap: int) -> None:
    assert re.search(r"part [345]", rows()[trap])
