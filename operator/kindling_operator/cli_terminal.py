"""The terminal that a command writes to: its width, its colours, wrapped text, bars, tables."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TextIO

NARROWEST: Final = 80
WIDEST: Final = 120
"""Longer lines are hard to read, shorter ones break tables."""
DEFAULT_WIDTH: Final = 100
"""Of files and pipes, so that what is kept or compared does not depend on a window."""

_RESET: Final = "\x1b[0m"
_EIGHTHS: Final = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


class Tone(StrEnum):
    """What a colour says; the value is the terminal's code for it (ECMA-48, SGR)."""

    STRONG = "1"
    FAINT = "2"
    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    SURE = "36"


@dataclass(frozen=True, slots=True)
class Terminal:
    """How to write for one reader. No text says something by its colour alone.

    `width` in characters, `blocks` whether the reader can show block characters.
    """

    width: int = DEFAULT_WIDTH
    colour: bool = False
    blocks: bool = True

    @classmethod
    def of(
        cls, stream: TextIO | None = None, environment: Mapping[str, str] | None = None
    ) -> Terminal:
        """The terminal behind a stream (default: standard output).

        Colours only on a terminal that knows them and where NO_COLOR is unset or empty
        (https://no-color.org).
        """
        stream = sys.stdout if stream is None else stream
        environment = os.environ if environment is None else environment
        shown = stream.isatty()
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        columns = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns if shown else DEFAULT_WIDTH
        return cls(
            width=max(NARROWEST, min(WIDEST, columns)),
            colour=shown
            and not environment.get("NO_COLOR")
            and environment.get("TERM", "") not in ("", "dumb"),
            blocks=encoding.startswith("utf"),
        )

    def paint(self, text: str, tone: Tone | None) -> str:
        """The text in a colour, or as it is."""
        if tone is None or not self.colour or not text:
            return text
        return f"\x1b[{tone.value}m{text}{_RESET}"

    def wrapped(self, text: str, *, indent: str = "", after: str | None = None) -> list[str]:
        """Lines that fit; those after the first have their own indent if one is given."""
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent if after is None else after,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def words(self, words: Iterable[str], *, indent: str, after: str, end: str) -> list[str]:
        """Words that must stay whole, on lines that fit; every line but the last gets `end`."""
        lines: list[str] = []
        line = indent
        for word in words:
            if line.strip() and len(line) + 1 + len(word) + len(end) > self.width:
                lines.append(line)
                line = after
            line += word if not line.strip() else f" {word}"
        return [f"{each}{end}" for each in lines] + [line]

    def bar(self, part: float, whole: float, *, width: int) -> str:
        """`part` of `whole` as a bar of at most `width` characters; something if it is not 0."""
        if whole <= 0 or part <= 0:
            return ""
        if not self.blocks:
            return "#" * max(1, round(width * part / whole))
        eighths = max(1, round(8 * width * part / whole))
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]

    def table(
        self, rows: Sequence[Sequence[str]], *, indent: str = "  ", tone: Tone | None = None
    ) -> list[str]:
        """Rows under the head, which is the first; long cells are wrapped in their column.

        Columns are as wide as their cells, up to two fifths of the line; the last takes what is
        left. `tone` is the head's colour.
        """
        widths = [
            min(max(len(row[place]) for row in rows), self.width * 2 // 5)
            for place in range(len(rows[0]) - 1)
        ]
        taken = len(indent) + sum(width + 2 for width in widths)
        widths.append(max(NARROWEST // 4, self.width - taken))
        lines = []
        for number, row in enumerate(rows):
            for line in _row(row, widths):
                text = f"{indent}{line}".rstrip()
                lines.append(self.paint(text, tone) if number == 0 else text)
        return lines


def _row(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The lines of one row."""
    cells = [
        # Names of products are long, and have hyphens.
        textwrap.wrap(cell, width, break_long_words=False)
        for cell, width in zip(row, widths, strict=True)
    ]
    for texts in itertools.zip_longest(*cells, fillvalue=""):
        yield "  ".join(f"{text:<{width}}" for text, width in zip(texts, widths, strict=True))
