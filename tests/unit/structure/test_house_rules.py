"""The house rules catch what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.lint.rules import broken_rules

ROOT = Path(__file__).parents[3]


def test_operator_folder_is_not_a_package() -> None:
    """With it, `import collections` from the repository root dies inside the library."""
    assert not (ROOT / "operator" / "__init__.py").exists()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("tests/long.py", "x = 1\n" * 401, "401 lines, the limit is 400"),
        ("tests/f.py", "def f():\n" + "    x = 1\n" * 40, "f has 41 lines, the limit is 40"),
        ("docs/utils.py", "", "name the domain"),
        ("scratch/a.txt", "", "does not belong at the top level"),
        ("operator/__init__.py", "", "shadows the standard library"),
        ("tests/t.py", "# " + "TO" + "DO later\n", "unfinished work"),
        ("tests/run", "#!/bin/sh\ncd /wo" + "rk/main\n", "a path of one machine"),
    ],
)
def test_a_broken_rule_is_named(
    name: str, content: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    path.parent.mkdir(parents=True)
    path.write_text(content)

    found = list(broken_rules([path]))

    assert len(found) == 1
    assert expected in found[0]
