"""The fence: when a write may start, and when it must have ended."""

import pytest
from tests.support.clock import Clock

from kindling_operator.kube.errors import FencedError
from kindling_operator.kube.fence import Fence, boottime


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fence(clock: Clock) -> Fence:
    return Fence(lease_seconds=15, renew_seconds=10, clock=clock)


def test_it_is_closed_until_the_first_renewal(fence: Fence) -> None:
    assert not fence.open
    assert fence.budget() == 0
    with pytest.raises(FencedError, match="was not renewed in time"):
        fence.check()


def test_it_counts_from_when_the_renewal_was_sent(fence: Fence, clock: Clock) -> None:
    sent = clock.now
    clock.now += 4  # the answer took that long
    fence.extend(sent)

    assert fence.budget() == 11
    clock.now = sent + 9.99
    fence.check()
    clock.now = sent + 10
    with pytest.raises(FencedError):
        fence.check()


def test_a_write_that_starts_late_gets_what_is_left_of_the_lease(
    fence: Fence, clock: Clock
) -> None:
    fence.extend(clock.now)
    clock.now += 9.5

    assert fence.open
    assert fence.budget() == 5.5


def test_an_answer_that_comes_late_does_not_shorten_a_newer_renewal(
    fence: Fence, clock: Clock
) -> None:
    fence.extend(clock.now)
    fence.extend(clock.now - 5)

    assert fence.budget() == 15


def test_closing_it_is_final_until_the_next_renewal(fence: Fence, clock: Clock) -> None:
    fence.extend(clock.now)
    fence.close()
    assert not fence.open

    fence.extend(clock.now)
    assert fence.open


def test_the_clock_goes_on_while_the_machine_sleeps() -> None:
    with open("/proc/uptime") as uptime:  # noqa: PTH123 - a file of the kernel
        seconds = float(uptime.read().split()[0])

    assert boottime() == pytest.approx(seconds, abs=1)
