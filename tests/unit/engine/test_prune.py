"""What is deleted, and above all what is not."""

from collections.abc import Iterable
from dataclasses import replace

from tests.support.observed import KEY, NOW, child, model, snapshot

from kindling_operator.apply.prune import left_over
from kindling_operator.model.names import (
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from kindling_operator.model.objects import ObjectRef

OLD = (
    child(SERVICE_ACCOUNT, "flint"),
    child(CONTROLLER_REVISION, "flint-old"),
    child(CONFIG_MAP, "flint-old"),
    child(DEPLOYMENT, "flint-old"),
    child(DEPLOYMENT, "flint-new"),
)
WANTED = ((SERVICE_ACCOUNT, "flint"), (DEPLOYMENT, "flint-new"))


def names(refs: Iterable[ObjectRef]) -> list[str]:
    return [f"{ref.kind.kind}/{ref.name}" for ref in refs]


def test_what_is_ours_and_not_wanted_goes_in_reverse_order_of_apply() -> None:
    leave = left_over(snapshot(children=OLD), KEY, WANTED)

    assert names(leave) == [
        "Deployment/flint-old",
        "ConfigMap/flint-old",
        "ControllerRevision/flint-old",
    ]


def test_a_deletion_names_the_very_object_that_was_seen() -> None:
    (ref, *_) = left_over(snapshot(children=OLD), KEY, WANTED)

    assert (ref.uid, ref.resource_version) == ("uid-of-flint-old", "7")


def test_nothing_goes_before_every_watch_has_delivered() -> None:
    assert left_over(snapshot(children=OLD, synced=False), KEY, WANTED) == ()


def test_nothing_goes_while_the_model_is_being_deleted() -> None:
    leaving = model(deletionTimestamp=NOW.isoformat())

    assert left_over(snapshot(leaving, children=OLD), KEY, WANTED) == ()


def test_nothing_goes_of_a_model_that_is_not_there() -> None:
    assert left_over(replace(snapshot(children=OLD), models={}), KEY, WANTED) == ()


def test_an_object_that_carries_our_labels_and_is_owned_by_another_stays() -> None:
    foreign = (
        child(SERVICE, "other", owner_uid="uid-of-another"),
        child(CONFIG_MAP, "nobody", owner_uid=""),
    )

    assert left_over(snapshot(children=foreign), KEY, ()) == ()


def test_a_model_without_uid_owns_nothing() -> None:
    ownerless = (child(CONFIG_MAP, "nobody", owner_uid=""),)

    assert left_over(snapshot(model(uid=""), children=ownerless), KEY, ()) == ()


def test_an_object_that_goes_already_is_not_deleted_again() -> None:
    going = (child(DEPLOYMENT, "flint-old", terminating=True),)

    assert left_over(snapshot(children=going), KEY, ()) == ()


def test_a_decision_that_wants_nothing_takes_no_running_model_away() -> None:
    assert left_over(snapshot(children=OLD), KEY, ()) == ()


def test_what_an_unfinished_creation_has_left_goes_when_nothing_is_wanted() -> None:
    begun = (
        child(SERVICE_ACCOUNT, "flint"),
        child(CONTROLLER_REVISION, "flint-new"),
        child(SERVICE, "flint"),
    )

    assert names(left_over(snapshot(children=begun), KEY, ())) == [
        "ControllerRevision/flint-new",
        "ServiceAccount/flint",
    ]


def test_a_kind_that_render_never_makes_stays() -> None:
    secret = (child(Kind("v1", "Secret", "secrets"), "flint"),)

    assert left_over(snapshot(children=secret), KEY, ()) == ()
