"""Conditions: the table of reasons is complete, and setting one keeps what must stay."""

from datetime import UTC, datetime, timedelta

import pytest

from kindling_operator.model.conditions import (
    MESSAGE_BYTES,
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    fit_message,
    new_condition,
    set_condition,
)
from kindling_operator.model.conditions_table import REASONS, status_of
from kindling_operator.model.status import InferenceModelStatus, stored_conditions

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def condition(
    kind: ConditionType = ConditionType.ACCEPTED,
    status: ConditionStatus = ConditionStatus.TRUE,
    *,
    reason: Reason = Reason.SPEC_ACCEPTED,
    message: str = "TP1 on CPU.",
    generation: int = 1,
    now: datetime = NOON,
) -> Condition:
    return new_condition(
        kind, status, reason=reason, message=message, generation=generation, now=now
    )


def test_every_reason_has_a_row_and_every_row_a_reason() -> None:
    assert set(REASONS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_belongs_to_a_condition(reason: Reason) -> None:
    assert REASONS[reason].on


@pytest.mark.parametrize("reason", Reason)
def test_an_example_is_one_sentence_that_fits(reason: Reason) -> None:
    for text in (REASONS[reason].example, REASONS[reason].remedy):
        assert text == fit_message(text)
        assert text.endswith(".")
        assert ". " not in text, "one sentence"
        assert len(text.encode()) <= MESSAGE_BYTES


@pytest.mark.parametrize(
    "reason", [r for r in Reason if ConditionStatus.FALSE in REASONS[r].on.values()]
)
def test_a_failure_says_what_to_do(reason: Reason) -> None:
    assert len(REASONS[reason].remedy) > len("Nothing.") or reason is Reason.COMPLETE


@pytest.mark.parametrize("kind", ConditionType)
def test_every_condition_can_become_true(kind: ConditionType) -> None:
    statuses = {row.on[kind] for row in REASONS.values() if kind in row.on}
    assert ConditionStatus.TRUE in statuses


@pytest.mark.parametrize("kind", [k for k in ConditionType if k is not ConditionType.READY])
def test_every_condition_can_fail(kind: ConditionType) -> None:
    statuses = {row.on[kind] for row in REASONS.values() if kind in row.on}
    assert ConditionStatus.FALSE in statuses


@pytest.mark.parametrize(
    ("reason", "kind", "status"),
    [
        (Reason.NAME_CONFLICT, ConditionType.ACCEPTED, ConditionStatus.FALSE),
        (Reason.NAME_CONFLICT, ConditionType.READY, ConditionStatus.FALSE),
        (Reason.PODS_PENDING, ConditionType.READY, ConditionStatus.UNKNOWN),
        (Reason.SERVING, ConditionType.READY, ConditionStatus.TRUE),
        (Reason.SERVING, ConditionType.AVAILABLE, ConditionStatus.TRUE),
        # Good news of another condition does not make the object ready.
        (Reason.LOADING, ConditionType.READY, ConditionStatus.UNKNOWN),
        (Reason.COMPLETE, ConditionType.PROGRESSING, ConditionStatus.FALSE),
        (Reason.NOT_ACCEPTED, ConditionType.SCHEDULED, ConditionStatus.UNKNOWN),
    ],
)
def test_a_reason_brings_its_status(
    reason: Reason, kind: ConditionType, status: ConditionStatus
) -> None:
    assert status_of(reason, kind) is status


def test_a_reason_of_another_condition_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        status_of(Reason.NAME_CONFLICT, ConditionType.AVAILABLE)


def test_the_same_status_keeps_its_transition_time() -> None:
    before = set_condition((), condition())
    later = NOON + timedelta(minutes=5)
    (after,) = set_condition(
        before, condition(reason=Reason.UNVERIFIED, message="New.", generation=2, now=later)
    )
    assert after.last_transition_time == "2026-11-29T12:00:00Z"
    assert (after.reason, after.message, after.observed_generation) == ("Unverified", "New.", 2)


def test_another_status_moves_the_transition_time() -> None:
    before = set_condition((), condition())
    later = NOON + timedelta(minutes=5)
    refused = condition(
        status=ConditionStatus.FALSE, reason=Reason.NAME_CONFLICT, message="Taken.", now=later
    )
    (after,) = set_condition(before, refused)
    assert after.last_transition_time == "2026-11-29T12:05:00Z"


def test_conditions_stand_in_the_order_of_the_table_and_foreign_ones_last() -> None:
    foreign = Condition(
        type="other.dev/Billed",
        status=ConditionStatus.TRUE,
        observed_generation=1,
        last_transition_time="2026-11-29T12:00:00Z",
        reason="Paid",
        message="",
    )
    conditions: tuple[Condition, ...] = (foreign,)
    for kind in reversed(ConditionType):
        conditions = set_condition(conditions, condition(kind))
    assert [c.type for c in conditions] == [*(k.value for k in ConditionType), "other.dev/Billed"]


def test_what_is_written_can_be_read_back() -> None:
    conditions = set_condition((), condition())
    wire = InferenceModelStatus(conditions=conditions).to_wire()
    assert stored_conditions(wire) == conditions


@pytest.mark.parametrize("status", [None, {}, {"conditions": [{"type": 3}, "x", None]}])
def test_an_unreadable_condition_counts_as_absent(status: object) -> None:
    assert stored_conditions(status) == ()


def test_a_long_message_ends_after_a_word() -> None:
    cut = fit_message("überlanges Wort " * 200)
    assert len(cut.encode()) <= MESSAGE_BYTES
    assert cut.endswith((" Wort …", " überlanges …"))


def test_a_message_of_one_endless_word_still_fits() -> None:
    cut = fit_message("ü" * 2000)
    assert len(cut.encode()) <= MESSAGE_BYTES
    assert cut.startswith("üüü")


@pytest.mark.parametrize(
    "written", ["two\n lines\t here ", " two lines here", "two  lines here", "two lines here "]
)
def test_a_message_is_one_line(written: str) -> None:
    assert fit_message(written) == "two lines here"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m and \x1b[1;32mgreen", "red and green"),
        ("\x1b]0;title\x07done", "]0;titledone"),
        ("nothing\x00 here\x7f", "nothing here"),
        ("one\x85two\x1cthree\x0bfour", "one two three four"),
        ("\x9b31mC1\x80", "31mC1"),
        ("Grüße, 日本 😀", "Grüße, 日本 😀"),
    ],
)
def test_a_message_steers_no_terminal(written: str, shown: str) -> None:
    assert fit_message(written) == shown


def test_half_a_character_in_a_foreign_text_does_not_make_the_status_unwritable() -> None:
    message = fit_message("Connection closed by peer. GLHF! \U0001f3d6, see \u00fc \ud83d.")

    assert message == "Connection closed by peer. GLHF! \U0001f3d6, see \u00fc ."
