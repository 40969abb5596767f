"""Streams through rollouts, many times: none is dropped, none is altered."""

import dataclasses
import json
from pathlib import Path

import pytest
from tests.contract.engine.in_image import MODEL, make_tiny, told
from tests.soak.result import Result
from tests.support.engine.rollout import FRONT, roll
from tests.support.waiting import Say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECTION = "Streams through rollouts"
REAL_SECTION = "Streams through rollouts, with vLLM"
REPLICAS = 3
STREAMS = 20
ROLLOUTS = 100
AT_A_TIME = 10
"""Rollouts over the same clients, one after the other."""
ENGINE_ROLLOUTS = 5
ENGINE_TOKENS = 40
ENGINE_SECONDS = 6000


async def test_streams_through_rollouts(tmp_path: Path, result: Result, say: Say) -> None:
    """The real runtime over stand-ins for vLLM, as processes of this machine."""
    whole = refused = 0
    lag = 0.0
    for seed in range(ROLLOUTS // AT_A_TIME):
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome = await roll(
            folder, replicas=REPLICAS, streams=STREAMS, seed=seed, rollouts=AT_A_TIME
        )
        say(f"  {(seed + 1) * AT_A_TIME} rollouts: {dataclasses.replace(outcome, ends=[])}")
        assert outcome.lag < FRONT.settle_seconds, f"too busy a machine: {outcome.lag:.1f} s"
        assert outcome.clean, (seed, outcome)
        whole += outcome.whole
        refused += outcome.refused
        lag = max(lag, outcome.lag)
    result.tell(
        SECTION,
        f"* {ROLLOUTS} rollouts of {REPLICAS} replicas at {STREAMS} streams, the runtime over"
        f" stand-ins for vLLM: {whole} streams were whole, none was dropped or altered; {refused}"
        " requests were refused with Retry-After and served elsewhere. Endpoints named a pod for"
        f" at most {lag:.1f} s after its SIGTERM.",
    )


def test_streams_through_rollouts_of_real_engines(tmp_path: Path, result: Result) -> None:
    """vLLM on CPU with the tiny model, inside the image."""
    make_tiny(tmp_path)
    case = json.dumps([MODEL, ENGINE_ROLLOUTS, REPLICAS, STREAMS, ENGINE_TOKENS])
    seen = told("roll_engines", case, models=tmp_path, seconds=ENGINE_SECONDS)
    assert seen["clean"], seen
    assert seen["whole"] >= STREAMS * ENGINE_ROLLOUTS, seen
    result.tell(
        REAL_SECTION,
        f"* {ENGINE_ROLLOUTS} rollouts of {REPLICAS} replicas at {STREAMS} streams with vLLM on CPU"
        f" (tiny model, {ENGINE_TOKENS} tokens a stream): {seen['whole']} streams had the tokens of"
        f" an undisturbed run, none was dropped or altered; {seen['refused']} requests were refused"
        " with Retry-After and served elsewhere.",
    )
