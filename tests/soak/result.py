"""The page docs/soak.md."""

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tests.support.onenode import ROOT

PAGE: Final = ROOT / "docs" / "soak.md"

HEAD: Final = """# Last long run

`make soak`, {day}, {cores} cores. `KINDLING_SOAK_MINUTES` sets how long the chaos lasts (now
{minutes}), `KINDLING_SOAK_SEED` repeats an order of faults.
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

    def write(self) -> None:
        """Replace the page, if anything was measured."""
        if not self.sections:
            return
        head = HEAD.format(
            day=f"{datetime.now(UTC):%Y-%m-%d}", cores=os.cpu_count(), minutes=f"{minutes():g}"
        )
        parts = [f"## {title}\n\n" + "\n".join(lines) for title, lines in self.sections.items()]
        PAGE.write_text("\n".join([head, *(f"{part}\n" for part in parts)]))
