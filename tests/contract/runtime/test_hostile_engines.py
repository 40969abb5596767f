"""Engines that answer garbage: the runtime lives on, says what came, and gives up in time."""

from pathlib import Path

import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_runtime.contract import ExitCode, Phase, Probe, Reason

EVIL = Path(pods.__file__).with_name("evil.py")
PROBE = Probe(startup_seconds=45, token_seconds=3, interval_seconds=1, wedged_seconds=20)
SAYS = {
    "charset": "no JSON",
    "nested": "no JSON",
    "redirect": "it answered HTTP 307",
    "bomb": "no JSON",
    "no numbers": "it did not answer a one-token request within 3 s",
    "empty": "no JSON",
    "no token": "without a token",
    "terminal": "it answered HTTP 500: ]0;owned",
    "endless": "with more than 1048576 bytes",
}
TO_THE_END = ("no numbers", "endless")
MIB = 1 << 20


@pytest.mark.parametrize("harm", SAYS)
async def test_an_engine_that_answers_garbage_is_given_up_by_its_name(
    harm: str, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        f"after a first token the engine answers garbage ({harm})",
        "`Stalled`, then `Wedged` and exit 70 with what it answered; `/status` answers meanwhile",
    )
    plan = pods.plan_for(pods.weights(tmp_path / "model"), probe=PROBE)
    argv = [str(EVIL) if item == str(pods.STANDIN) else item for item in plan.engine.argv]
    engine = msgspec.structs.replace(plan.engine, argv=(*argv, "--harm", harm))
    plan = msgspec.structs.replace(plan, engine=engine)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY, Phase.STALLED)
        fault.begins()
        stalled = await pod.reach(Phase.STALLED)
        fault.within(1 + 2 * (3 + 6) + pods.ROOM, "stalled")
        assert stalled.evidence.last_miss is not None
        assert SAYS[harm] in stalled.evidence.last_miss
        assert stalled.message.isprintable()
        assert pods.resident(pod.process.pid) < 150 * MIB
        assert "Traceback" not in pod.log
        if harm not in TO_THE_END:
            return
        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(1 + 2 * (3 + 6) + 20 + pods.ROOM, "exit 70")
    assert pod.reason is Reason.WEDGED
    assert SAYS[harm] in pod.message
