"""What HTTP says about asking again, read back for any of its spellings."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kindling_runtime.weights.backoff import drawn_wait
from kindling_runtime.weights.patience import asked_wait

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
seconds = st.integers(0, 86_400)


@given(seconds)
def test_a_wait_is_the_same_however_it_is_said(wait: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=wait), usegmt=True)
    for headers in (
        {"Retry-After": str(wait)},
        {"Retry-After": f" {wait} "},
        {"Retry-After": date},
        {"RateLimit": f'"api";r=0;t={wait}'},
    ):
        assert asked_wait(headers, now=NOW) == wait


@given(st.text(max_size=40), st.text(max_size=40))
def test_nothing_that_a_server_says_is_an_error_or_a_wait_without_end(
    said: str, quota: str
) -> None:
    wait = asked_wait({"Retry-After": said, "RateLimit": quota}, now=NOW)

    assert wait >= 0
    assert wait < 10**12


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Retry-After": "soon"},
        {"Retry-After": "-5"},
        {"Retry-After": "٣"},
        {"Retry-After": "Mon, 30 Nov 2026 11:59:00 GMT"},
        {"Retry-After": "Mon, 30 Nov 2026 11:59:00"},
        {"RateLimit": '"api";r=7;t=55'},
    ],
)
def test_where_no_wait_is_asked_for_none_is_heard(headers: dict[str, str]) -> None:
    assert asked_wait(headers, now=NOW) == 0


@given(st.integers(1, 40), st.floats(0.1, 1e4))
def test_who_was_asked_to_wait_comes_later_and_not_all_at_once(attempt: int, asked: float) -> None:
    wait = drawn_wait(attempt, asked=asked)

    assert wait >= asked
    assert wait <= max(asked + 1, 20)
