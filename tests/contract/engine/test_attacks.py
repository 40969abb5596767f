"""A real vLLM behind the front: no spelling of a route passes, and a crowd costs no stream."""

from pathlib import Path

import pytest
from tests.contract.engine.in_image import MODEL, make_tiny, told

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_no_spelling_of_a_route_passes_and_a_crowd_costs_no_stream(tmp_path: Path) -> None:
    make_tiny(tmp_path)
    seen = told("attack_engine", "attack", MODEL, models=tmp_path, seconds=1200)

    assert seen["passed"] == {}
    assert seen["plugins"]["idle-connections"] == "On"
    [[finish, tokens, done], seconds] = seen["served"]
    assert (finish, tokens, done, seen["unready"]) == ("length", 1, True, 0), seconds
    assert seen["stream"] == ["length", 1500, True]
    assert seen["ends"] == [["length", 300, True]] * 4
    assert (seen["exit"], " were cut" in seen["message"]) == (0, False), seen["message"]


def test_two_servers_are_counted_together(tmp_path: Path) -> None:
    make_tiny(tmp_path)
    seen = told("attack_engine", "counted", MODEL, models=tmp_path, seconds=1200)

    assert seen["active"] == 4
    assert seen["ends"] == [["length", 100, True]] * 4
    assert (seen["exit"], " were cut" in seen["message"]) == (0, False), seen["message"]
