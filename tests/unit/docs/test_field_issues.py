"""Every test that docs/field-issues.md names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "field-issues.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_thread_has_tests_and_every_test_is_there() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if "#" in line and line[0] == "|"]
    assert len(rows) >= 12
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no {name}"
