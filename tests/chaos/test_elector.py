"""The election itself, in the test's process, with times that make its promises visible."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
from kubernetes.aio.client.configuration import Configuration
from tests.support.apiserver import ControlPlane
from tests.support.clients import configured
from tests.support.kube import Kube as Admin
from tests.support.proxy import proxied

from kindling_operator.kube.client import Kube
from kindling_operator.kube.fence import Fence, boottime
from kindling_operator.kube.kinds import LEASE
from kindling_operator.reconcile.lease import Elector, LeaseTiming

pytestmark = pytest.mark.cluster

SOON = 30.0
MEANWHILE = 3.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One elector with its fence; it runs."""

    elector: Elector
    fence: Fence
    task: asyncio.Task[None]

    async def leads_within(self, seconds: float) -> bool:
        """Whether it leads before that time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self.elector.leading.wait()
        except TimeoutError:
            return False
        return True


Run = Callable[..., Candidate]


@pytest.fixture
async def run(plane: ControlPlane, namespace: str) -> AsyncIterator[Run]:
    """Starts candidates for one Lease of the test's own; `retry` in seconds."""
    configuration = await configured(plane.kubeconfig())
    clients: list[Kube] = []
    tasks: list[asyncio.Task[None]] = []

    def begin(
        identity: str, *, lease: float, retry: float, where: Configuration = configuration
    ) -> Candidate:
        timing = LeaseTiming(duration=lease, renew_deadline=lease * 0.8, retry_period=retry)
        fence = Fence(lease_seconds=timing.duration, renew_seconds=timing.renew_deadline)
        clients.append(Kube(where))
        elector = Elector(
            clients[-1],
            fence,
            namespace=namespace,
            name="elected",
            identity=identity,
            timing=timing,
            known=lambda _version: None,
            led=lambda _leads: None,
            beat=lambda: None,
        )
        tasks.append(asyncio.create_task(elector.run()))
        return Candidate(elector, fence, tasks[-1])

    yield begin
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    for client in clients:
        await client.close()


async def test_a_lease_that_is_renewed_stays_where_it_is(run: Run) -> None:
    first = run("a", lease=2, retry=0.2)
    assert await first.leads_within(SOON)
    second = run("b", lease=2, retry=0.2)

    assert not await second.leads_within(MEANWHILE)
    assert first.fence.open


async def test_a_lease_that_is_not_renewed_is_taken_after_its_whole_duration(run: Run) -> None:
    first = run("a", lease=4, retry=60)
    assert await first.leads_within(SOON)
    second = run("b", lease=4, retry=0.1)
    await asyncio.sleep(0.5)  # it has seen the Lease
    began = boottime()

    assert await second.leads_within(SOON)
    assert boottime() - began > 3
    assert not first.fence.open, "the first stopped before the second began"


async def test_a_lease_that_somebody_deletes_binds_those_who_have_seen_it(
    run: Run, kube: Admin, namespace: str
) -> None:
    first = run("a", lease=5, retry=60)
    assert await first.leads_within(SOON)
    second = run("b", lease=5, retry=0.1)
    await asyncio.sleep(0.5)
    kube.delete(LEASE, "elected", namespace)

    assert not await second.leads_within(2.5)
    assert first.fence.open, "it cannot know yet"
    assert await second.leads_within(SOON)
    assert not first.fence.open


async def test_a_leader_whose_lease_was_deleted_takes_it_again(
    run: Run, kube: Admin, namespace: str
) -> None:
    first = run("a", lease=4, retry=0.2)
    assert await first.leads_within(SOON)

    kube.delete(LEASE, "elected", namespace)
    await asyncio.sleep(1)

    assert await first.leads_within(SOON)
    assert kube.have(LEASE, "elected", namespace)["spec"]["holderIdentity"] == "a"


async def test_a_renewal_counts_from_when_it_was_sent(run: Run, plane: ControlPlane) -> None:
    with proxied(plane.api_port) as proxy:
        where = await configured(plane.kubeconfig(server=f"https://127.0.0.1:{proxy.port}"))
        first = run("a", lease=20, retry=0.5, where=where)
        assert await first.leads_within(SOON)
        proxy.hold(held=True)
        await asyncio.sleep(3)
        left_before = first.fence.budget()
        proxy.hold(held=False)
        async with asyncio.timeout(5):
            while first.fence.budget() <= left_before:  # noqa: ASYNC110 - a value, not an event
                await asyncio.sleep(0.01)

        # The answer came just now; the request left about two and a half seconds earlier.
        assert first.fence.budget() < 18.5


async def test_giving_it_up_lets_another_lead_at_once(run: Run) -> None:
    first = run("a", lease=60, retry=0.2)
    assert await first.leads_within(SOON)
    second = run("b", lease=60, retry=0.2)
    await asyncio.sleep(0.5)
    first.task.cancel()

    await first.elector.release()

    assert await second.leads_within(SOON)
    assert not first.fence.open
