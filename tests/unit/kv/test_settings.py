"""What a deployment may ask of the tier, and what it is told when it asks for something else."""

import re

import pytest

from kindling_runtime.kv.policy.admission import Admission
from kindling_runtime.kv.settings import Deadlines, settings

LEAST = {"uri": "s3://kv/flint", "weights": "9c0f"}


def test_what_is_not_told_has_a_default() -> None:
    found = settings(LEAST)
    assert found.admission is Admission.SECOND_USE
    assert found.deadlines == Deadlines(search=1.0, load=10.0, store=30.0, hold=5.0)
    assert found.limits.read_bytes + found.limits.write_bytes == 256 << 20


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"uri": "s3://kv"}, "Object missing required field `weights`"),
        (LEAST | {"weights": ""}, "Expected `str` of length >= 1 - at `$.weights`"),
        (LEAST | {"admision": "Always"}, "Object contains unknown field `admision`"),
        (LEAST | {"admission": "Never"}, "Invalid enum value 'Never' - at `$.admission`"),
        (LEAST | {"deadlines": {"load": 0}}, "Expected `float` > 0.0 - at `$.deadlines.load`"),
    ],
    ids=lambda told: str(told)[:20],
)
def test_what_is_wrong_is_named(told: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"object tier of the KV cache: {says}")):
        settings(told)
