"""What runtimes say reaches the next snapshot, wakes a model if worth it, and is forgotten."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.observed import KEY, pod, snapshot

from kindling_operator.model.names import Key
from kindling_operator.model.reports import Report
from kindling_operator.reconcile.listener import PROGRESS_SECONDS, Listener

ONE = snapshot(pods=[pod("one", address="10.0.0.2")])
URL = {"uid-of-one": "http://10.0.0.2:9400"}
LOADS = Report(progress="10 of 90 GiB")
SERVES = Report(kv_blocks=128, kv_tokens=2048)


@dataclass
class World:
    """A clock and reports by hand; what was read and which models were woken."""

    now: float = 100.0
    says: dict[str, Report] = field(default_factory=dict)
    broken: bool = False
    read: list[Mapping[str, str]] = field(default_factory=list)
    woken: list[Key] = field(default_factory=list)

    def listener(self) -> Listener:
        return Listener(self.woken.append, read=self._read, clock=lambda: self.now)

    async def _read(self, urls: Mapping[str, str]) -> dict[str, Report]:
        self.read.append(urls)
        if self.broken:
            raise RuntimeError("a bug")
        return {uid: report for uid, report in self.says.items() if uid in urls}


async def test_a_report_reaches_the_next_snapshot_and_wakes_the_model_once() -> None:
    world = World(says={"uid-of-one": SERVES})
    listener = world.listener()
    listener.follow(ONE, KEY)

    await listener.round()
    await listener.round()

    assert world.read == [URL, URL]
    assert listener.reports == {"uid-of-one": SERVES}
    assert world.woken == [KEY]


async def test_a_progress_that_ticks_is_told_once_a_minute() -> None:
    world = World(says={"uid-of-one": LOADS})
    listener = world.listener()
    listener.follow(ONE, KEY)
    await listener.round()

    world.now += PROGRESS_SECONDS - 1
    world.says["uid-of-one"] = Report(progress="11 of 90 GiB")
    await listener.round()
    assert listener.reports["uid-of-one"] == LOADS
    world.now += 1
    await listener.round()

    assert listener.reports["uid-of-one"].progress == "11 of 90 GiB"
    assert world.woken == [KEY, KEY]


async def test_the_end_of_a_progress_is_told_at_once() -> None:
    world = World(says={"uid-of-one": LOADS})
    listener = world.listener()
    listener.follow(ONE, KEY)
    await listener.round()

    world.says["uid-of-one"] = SERVES
    await listener.round()

    assert listener.reports["uid-of-one"] == SERVES


async def test_pods_and_models_that_are_gone_are_forgotten() -> None:
    world = World(says={"uid-of-one": SERVES})
    listener = world.listener()
    listener.follow(ONE, KEY)
    await listener.round()

    listener.follow(snapshot(), KEY)
    assert listener.reports == {}
    await listener.round()
    assert len(world.read) == 1

    listener.follow(ONE, KEY)
    await listener.round()
    listener.forget(KEY)
    assert listener.reports == {}


async def test_a_pod_that_says_nothing_keeps_its_last_report_and_a_bug_ends_nothing() -> None:
    world = World(says={"uid-of-one": SERVES})
    listener = world.listener()
    listener.follow(ONE, KEY)
    await listener.round()

    world.says = {}
    await listener.round()
    world.broken = True
    await listener.round()

    assert listener.reports == {"uid-of-one": SERVES}
