"""Ranges of versions: is there one that is within both?"""

import pytest

from kindling_operator.plan.versions import overlap

VLLM = ">=5.16.1,<5.21"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", True),
        (">=5.16", True),
        (">=5.20", True),
        (">=5.21", False),
        (">=5.21.0", False),
        (">5.20.9", True),
        ("<5.16.1", False),
        ("<=5.16.1", True),
        ("<=5.16", False),
        ("==5.18.3", True),
        ("==5.21", False),
        (">=4.40,<5", False),
        (">=5.9,<5.17", True),
    ],
)
def test_against_the_range_of_vllm(wanted: str, found: bool) -> None:
    assert overlap(wanted, VLLM) is overlap(VLLM, wanted) is found


def test_ten_is_more_than_nine() -> None:
    assert not overlap(">=5.10", "<5.9.9")
    assert overlap(">=5.9", "<=5.10")
