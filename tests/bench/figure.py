"""A measured number beside its target, and the table that `make bench` prints."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: the median of `samples`, its spread, and what it is compared with.

    `target` is in the same unit, None where there is none; the number should be no larger, or with
    `at_least` no smaller. `base` is a number of the same run and
    unit that the machine's speed moves in the same way, such as one bare API write; the ratio to
    it can be compared between machines, the number itself cannot.
    """

    name: str
    unit: str
    samples: tuple[float, ...]
    target: float | None = None
    base: float | None = None
    base_name: str = ""
    note: str = ""
    at_least: bool = False

    @property
    def value(self) -> float:
        return statistics.median(self.samples)

    def cells(self) -> tuple[str, ...]:
        spread = (
            f"{_short(min(self.samples))} … {_short(max(self.samples))}"
            if len(self.samples) > 1
            else ""
        )
        to_target = f"{self.value / self.target:.2f}" if self.target else ""
        to_base = f"{self.value / self.base:.1f} x {self.base_name}" if self.base else ""
        sign = "≥" if self.at_least else "≤"
        target = "" if self.target is None else f"{sign} {_short(self.target)}"
        return (
            f"{self.name} ({self.unit})",
            _short(self.value),
            spread,
            str(len(self.samples)),
            target,
            to_target,
            to_base,
        )


TITLES = ("figure", "median", "min … max", "n", "target", "of target", "of a base")


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table with aligned columns, and their notes below it."""
    rows = [TITLES, *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TITLES))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    notes = [f"* {figure.name}: {figure.note}" for figure in figures if figure.note]
    return "\n".join([lines[0], rule, *lines[1:], "", *notes])


def _short(number: float) -> str:
    if number == 0:
        return "0"
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"
