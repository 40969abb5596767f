"""A real vLLM behind the front is told to leave while twenty streams run."""

import json
from pathlib import Path

import pytest
from tests.images.built import build, container, inside
from tests.support.tinymodel.architectures import Architecture
from tests.support.tinymodel.make_model import make_model

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).with_name("leave_engine.py")
STREAMS, TOKENS = 20, 1500


def test_streams_finish_newcomers_are_refused_politely_and_nothing_is_cut(tmp_path: Path) -> None:
    make_model(tmp_path / "tiny", Architecture.QWEN3)
    for folder in (tmp_path, tmp_path / "tiny"):
        folder.chmod(0o755)  # the image's user is not the one who runs the tests
    case = json.dumps(["/models/tiny", STREAMS, TOKENS])
    with container(build("runtime-cpu")) as name:
        said = inside(
            name,
            *("env", "HOME=/tmp", "python", "-", case),
            given=SCRIPT.read_text(encoding="utf-8"),
            volumes={tmp_path: "/models"},
            seconds=1200,
        )
    seen = json.loads(said.splitlines()[-1])

    assert set(seen["denied"].values()) == {404}
    assert seen["ends"] == [["length", TOKENS, True]] * STREAMS
    # Served while endpoints let go, then refused; nobody listens once the engine has gone.
    answers = [answer for answer in seen["newcomers"] if answer is not None]
    assert {tuple(answer) for answer in answers} <= {(200, None), (503, "1")}
    assert answers == sorted(answers, key=lambda answer: int(answer[0]))
    assert (seen["exit_status"], " were cut" in seen["message"]) == (0, False), seen["message"]
