"""The page docs/soak.md: each section says when it was measured, and stays until it is again."""

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.support.onenode import ROOT

PAGE: Final = ROOT / "docs" / "soak.md"

HEAD: Final = """# Last long run

`make soak` writes a section when its test has ended; a part that was not run keeps its last one.
`KINDLING_SOAK_MINUTES` sets how long the chaos lasts (20 unless given), `KINDLING_SOAK_SEED`
repeats an order of faults.
"""


def minutes() -> float:
    """How long the chaos lasts."""
    return float(os.environ.get("KINDLING_SOAK_MINUTES", "20"))


@dataclass(slots=True)
class Result:
    """Sections of the page, in the order in which they were measured."""

    sections: dict[str, list[str]] = field(default_factory=dict)

    def tell(self, section: str, *lines: str) -> None:
        """Add lines to a section."""
        self.sections.setdefault(section, []).extend(lines)

    def write(self, page: Path = PAGE) -> None:
        """Put what was measured into the page, if anything was; other sections stay."""
        if not self.sections:
            return
        measured = f"Measured {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores."
        new = {title: "\n".join([measured, "", *lines]) for title, lines in self.sections.items()}
        sections = sections_of(page.read_text() if page.exists() else "") | new
        parts = [f"## {title}\n\n{text}\n" for title, text in sorted(sections.items())]
        page.write_text("\n".join([HEAD, *parts]))


def sections_of(text: str) -> dict[str, str]:
    """The sections of a page by title, without the blank lines around them."""
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    split = (part.partition("\n") for part in parts)
    return {title.strip(): body.strip() for title, _, body in split}
