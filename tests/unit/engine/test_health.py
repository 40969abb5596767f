"""When the liveness probe fails, and with which sentence."""

import pytest
from tests.support.clock import Clock

from kindling_operator.reconcile.health import Health


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    """Of a process whose watches have delivered everything."""
    made = Health(clock=clock)
    made.synced()
    return made


def test_a_fresh_process_is_alive(health: Health) -> None:
    assert health.problem() == ""


def test_the_watch_owes_nothing_before_the_first_lists_are_done(clock: Clock) -> None:
    health = Health(clock=clock)
    for version in range(11, 111):
        clock.now += 2
        health.lease_known(str(version))

    assert (health.watch_lag, health.problem()) == (0, "")
    health.synced()
    assert health.problem() == ""


def test_the_first_lists_have_a_deadline(clock: Clock) -> None:
    health = Health(clock=clock)
    clock.now += 899
    assert health.problem() == ""
    clock.now += 2

    assert health.problem() == (
        "the watches have not delivered every object within 901 s of at most 900 s"
    )
    health.synced()
    assert health.problem() == ""


def test_a_task_that_has_not_come_round_is_named(health: Health, clock: Clock) -> None:
    beat = health.beater("worker-0")
    health.beater("audit")
    clock.now += 100
    health.beat("audit")
    clock.now += 25

    assert health.problem() == "worker-0 has not come round for 125 s of at most 120 s"
    beat()
    assert health.problem() == ""


def test_a_watch_that_does_not_show_a_known_change_of_the_lease_is_dead(
    health: Health, clock: Clock
) -> None:
    health.lease_seen("10")
    for version in range(11, 45):
        clock.now += 2
        health.lease_known(str(version))

    assert health.watch_lag == 66
    assert health.problem() == (
        "the watch has not shown a change of the Lease for 66 s of at most 60 s"
    )
    health.lease_seen("44")
    assert health.problem() == ""


def test_an_event_that_overtakes_the_answer_to_our_own_write_counts(
    health: Health, clock: Clock
) -> None:
    health.lease_seen("11")
    clock.now += 1
    health.lease_known("11")
    clock.now += 500

    assert health.watch_lag == 0


def test_a_silent_watch_proves_nothing_while_the_api_server_is_away(
    health: Health, clock: Clock
) -> None:
    health.lease_seen("10")
    health.lease_known("11")
    clock.now += 600

    assert health.watch_lag == 0
    assert health.problem() == ""


def test_the_audit_of_one_kind_does_not_hide_that_of_another(health: Health) -> None:
    health.audited("pods", "the watch of pods has missed 1 objects; a restart lists them again")
    health.audited("nodes", "")

    assert health.problem().startswith("the watch of pods has missed 1 objects")
    health.audited("pods", "")
    assert health.problem() == ""
