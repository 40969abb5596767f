"""One question per model at a time, remembered for as long as the rollout lasts."""

import asyncio
from dataclasses import dataclass, field, replace

from tests.support.observed import KEY, child, decision, pod, revision, snapshot

from kindling_operator.model.names import SERVICE, Key
from kindling_operator.model.snapshot import Answers
from kindling_operator.observe.endpoint import Question
from kindling_operator.reconcile.asker import AGAIN_SECONDS, Asker

OLD, NEW = revision("0000000000", served=True), revision("1111111111")
WAITS = decision((NEW, 1), (OLD, 1), ask=True)
GOES_ON = replace(WAITS, ask=False)
OVER = decision((NEW, 1))
SERVICE_VIEW = replace(
    child(SERVICE, KEY.name),
    manifest={"spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 8000}]}},
)
SEEN = snapshot(
    pods=[pod("new", digest=NEW.hash, ready=True, address="10.0.0.2")],
    children=[SERVICE_VIEW],
    endpoints=["new"],
)


@dataclass
class World:
    """A clock and answers by hand; what was asked and told."""

    now: float = 100.0
    replies: list[Answers | Exception] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    told: list[Key] = field(default_factory=list)
    free: asyncio.Event = field(default_factory=asyncio.Event)

    def asker(self) -> Asker:
        return Asker(self.told.append, ask=self.ask, clock=lambda: self.now)

    async def ask(self, question: Question) -> Answers:
        self.asked.append(question)
        await self.free.wait()
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


async def ended() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_reaches_the_next_snapshot_and_wakes_the_model() -> None:
    world = World(replies=[Answers(frozenset({"uid-of-new"}))])
    asker = world.asker()

    asker.follow(SEEN, WAITS)
    asker.follow(SEEN, WAITS)
    await ended()
    assert len(world.asked) == 1, "two questions at a time"
    assert asker.answers == {}

    world.free.set()
    await ended()
    assert asker.answers == {KEY: Answers(frozenset({"uid-of-new"}))}
    assert world.told == [KEY]


async def test_what_is_known_stays_until_the_rollout_is_over() -> None:
    world = World(replies=[Answers(frozenset({"uid-of-new"}))])
    world.free.set()
    asker = world.asker()
    asker.follow(SEEN, WAITS)
    await ended()

    asker.follow(SEEN, GOES_ON)
    assert asker.answers[KEY].pods == {"uid-of-new"}

    asker.follow(SEEN, OVER)
    assert asker.answers == {}


async def test_without_an_answer_it_is_asked_again_after_a_while() -> None:
    known = Answers(frozenset({"uid-of-new"}))
    world = World(replies=[Answers(problem="nobody is there"), known])
    world.free.set()
    asker = world.asker()

    asker.follow(SEEN, WAITS)
    await ended()
    assert asker.answers[KEY].problem == "nobody is there"

    asker.follow(SEEN, WAITS)
    await ended()
    assert len(world.asked) == 1, "asked again at once"

    world.now += AGAIN_SECONDS
    asker.follow(SEEN, WAITS)
    await ended()
    assert asker.answers[KEY] == known
    assert world.told == [KEY, KEY]


async def test_an_unchanged_answer_wakes_nobody() -> None:
    world = World(replies=[Answers(problem="nobody is there")] * 2)
    world.free.set()
    asker = world.asker()
    for _ in range(2):
        asker.follow(SEEN, WAITS)
        await ended()
        world.now += AGAIN_SECONDS

    assert len(world.asked) == 2
    assert world.told == [KEY]


async def test_a_bug_in_asking_is_told_and_takes_no_answer_away() -> None:
    world = World(replies=[Answers(frozenset({"uid-of-new"})), ZeroDivisionError("a bug")])
    world.free.set()
    asker = world.asker()
    for _ in range(2):
        asker.follow(SEEN, WAITS)
        await ended()
        world.now += AGAIN_SECONDS

    assert asker.answers[KEY].pods == {"uid-of-new"}
    assert asker.answers[KEY].problem == "the operator failed to ask: see its log"


async def test_a_model_that_is_gone_and_a_process_that_ends_ask_no_more() -> None:
    world = World()
    asker = world.asker()

    asker.follow(SEEN, WAITS)
    await ended()
    asker.forget(KEY)
    await ended()
    assert asker.answers == {}
    assert world.told == []

    asker.follow(SEEN, WAITS)
    await ended()
    await asker.close()
    assert len(world.asked) == 2
    assert all(task is asyncio.current_task() for task in asyncio.all_tasks())
