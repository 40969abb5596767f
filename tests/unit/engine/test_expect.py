"""A pass waits until the watches show what the last one wrote."""

from dataclasses import replace

from tests.support.observed import KEY, child, model, snapshot

from kindling_operator.kube.kinds import MODEL
from kindling_operator.kube.versions import at_least
from kindling_operator.model.names import DEPLOYMENT, SERVICE
from kindling_operator.model.objects import ChildView, ObjectRef
from kindling_operator.reconcile.expect import GIVE_UP_SECONDS, Expectations

WRITTEN = ObjectRef(SERVICE, "ml", "flint", "uid-of-flint", "12")


def seen(version: str) -> ChildView:
    shown = child(SERVICE, "flint")
    return replace(shown, ref=replace(shown.ref, resource_version=version))


def test_without_writes_nothing_is_awaited() -> None:
    assert Expectations().met(KEY, snapshot(), now=0)


def test_a_write_that_is_not_shown_yet_is_awaited() -> None:
    expectations = Expectations()
    expectations.expect(KEY, [WRITTEN], now=0)

    assert not expectations.met(KEY, snapshot(), now=1)
    assert not expectations.met(KEY, snapshot(children=[seen("11")]), now=1)
    assert expectations.met(KEY, snapshot(children=[seen("12")]), now=1)


def test_something_newer_than_the_write_is_as_good() -> None:
    expectations = Expectations()
    expectations.expect(KEY, [WRITTEN], now=0)

    assert expectations.met(KEY, snapshot(children=[seen("100")]), now=1)


def test_every_write_must_be_shown() -> None:
    expectations = Expectations()
    other = ObjectRef(DEPLOYMENT, "ml", "flint-1", "uid", "13")
    expectations.expect(KEY, [WRITTEN, other], now=0)

    assert not expectations.met(KEY, snapshot(children=[seen("12")]), now=1)


def test_a_status_is_awaited_in_the_model_itself() -> None:
    expectations = Expectations()
    expectations.expect(KEY, [ObjectRef(MODEL, "ml", "flint", "u", "101")], now=0)

    assert not expectations.met(KEY, snapshot(model(resourceVersion="100")), now=1)
    assert expectations.met(KEY, snapshot(model(resourceVersion="101")), now=1)


def test_waiting_ends_when_the_watch_is_too_late() -> None:
    expectations = Expectations()
    expectations.expect(KEY, [WRITTEN], now=0)

    assert not expectations.met(KEY, snapshot(), now=GIVE_UP_SECONDS - 0.1)
    assert expectations.met(KEY, snapshot(), now=GIVE_UP_SECONDS)


def test_resource_versions_are_compared_as_numbers() -> None:
    assert at_least("10", "9")
    assert not at_least("9", "10")
    assert not at_least("", "10")
    assert at_least("a", "a")
    assert not at_least("a", "b")
