"""Real vLLMs are replaced one after the other while clients stream."""

import json
from pathlib import Path

import pytest
from tests.contract.engine.in_image import MODEL, make_tiny, told

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

REPLICAS, STREAMS, TOKENS = 3, 20, 20


def test_nobody_notices_a_rollout_of_real_engines(tmp_path: Path) -> None:
    make_tiny(tmp_path)
    case = json.dumps([MODEL, 1, REPLICAS, STREAMS, TOKENS])
    seen = told("roll_engines", case, models=tmp_path, seconds=1700)

    assert seen["clean"], seen
    assert len(seen["ends"]) == REPLICAS
    assert seen["whole"] >= STREAMS
