"""When a write that fails again and again is the user's business."""

from tests.support.observed import KEY

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.outcome import Outcome, Retry
from kindling_operator.reconcile.setbacks import Setbacks

AWAY = Outcome(retry=Retry("Unavailable", "apply Service ml/flint: no answer in time"))


def test_a_failure_that_lasts_is_told_in_its_own_words() -> None:
    setbacks = Setbacks()
    first = [setbacks.judged(KEY, AWAY, now=now) for now in (0, 5, 9.9)]
    found = setbacks.judged(KEY, AWAY, now=10)

    assert first == [AWAY, AWAY, AWAY]
    assert found.verdict is not None
    assert (found.verdict.condition, found.verdict.reason) == (
        ConditionType.PROGRESSING,
        Reason.APPLY_REFUSED,
    )
    assert "(apply Service ml/flint: no answer in time)" in found.verdict.message
    assert found.retry == AWAY.retry, "and it is tried again"


def test_few_failures_are_not_told_however_far_apart() -> None:
    setbacks = Setbacks()

    assert [setbacks.judged(KEY, AWAY, now=now) for now in (0, 300)] == [AWAY, AWAY]


def test_a_pass_that_writes_everything_ends_the_run() -> None:
    setbacks = Setbacks()
    for now in (0, 5, 10):
        setbacks.judged(KEY, AWAY, now=now)

    assert setbacks.judged(KEY, Outcome(), now=11) == Outcome()
    assert setbacks.judged(KEY, AWAY, now=12) == AWAY


def test_that_another_process_leads_is_no_failure() -> None:
    fenced = Outcome(retry=Retry("Fenced", "closed", counts=False))
    setbacks = Setbacks()

    assert [setbacks.judged(KEY, fenced, now=now) for now in (0, 5, 10, 15)] == [fenced] * 4
