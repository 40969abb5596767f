"""A real vLLM behind the front is told to leave while twenty streams run."""

import json
from pathlib import Path

import pytest
from tests.contract.engine import vllm_pod as pods
from tests.contract.engine.in_image import MODEL, make_tiny, told
from tests.support.engine.pod import ROOM
from tests.support.faultpage import Fault, Kind, Under

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

STREAMS, TOKENS = 20, 1500


def test_streams_finish_newcomers_are_refused_politely_and_nothing_is_cut(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        f"SIGTERM with {STREAMS} streams in flight",
        "all whole; new requests are served until no more come, then 503 with Retry-After; exit 0",
        under=Under.VLLM,
    )
    make_tiny(tmp_path)
    case = json.dumps([MODEL, STREAMS, TOKENS])
    seen = told("leave_engine", case, models=tmp_path, seconds=1200)

    assert set(seen["denied"].values()) == {404}
    assert seen["ends"] == [["length", TOKENS, True]] * STREAMS
    # Served while endpoints let go, then refused; nobody listens once the engine has gone.
    answers = [answer for answer in seen["newcomers"] if answer is not None]
    assert {tuple(answer) for answer in answers} <= {(200, None), (503, "1")}
    assert answers == sorted(answers, key=lambda answer: int(answer[0]))
    assert (seen["exit_status"], " were cut" in seen["message"]) == (0, False), seen["message"]
    fault.within(ROOM, "not ready", took=seen["unready_seconds"])
    drain = pods.DRAIN
    fault.within(
        drain.endpoint_seconds + drain.stream_seconds, "last stream", took=seen["finished_seconds"]
    )
    waits = drain.endpoint_seconds + drain.stream_seconds + drain.grace_seconds
    fault.within(waits, "exit 0", took=seen["exit_seconds"])
    refused = sum(answer[0] == 503 for answer in answers)
    fault.note(f"{len(answers) - refused} newcomers served, then {refused} refused")
