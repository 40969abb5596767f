"""Streams through rollouts, many times: none is dropped, none is altered."""

from pathlib import Path

import pytest
from tests.soak.result import Result
from tests.support.engine.rollout import roll

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROLLOUTS = 100
REPLICAS = 3
STREAMS = 20


async def test_streams_through_rollouts(tmp_path: Path, result: Result) -> None:
    """The real runtime over stand-ins for vLLM, as processes of this machine."""
    whole = refused = 0
    for number in range(ROLLOUTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = await roll(folder, replicas=REPLICAS, streams=STREAMS, seed=number)
        assert outcome.clean, (number, outcome)
        whole += outcome.whole
        refused += outcome.refused
    result.tell(
        "Streams through rollouts",
        f"* {ROLLOUTS} rollouts of {REPLICAS} replicas at {STREAMS} streams: {whole} streams were "
        f"whole, none was dropped or altered; {refused} requests were refused with Retry-After "
        "and served elsewhere.",
    )
