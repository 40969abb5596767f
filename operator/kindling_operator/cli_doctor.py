"""``kindling doctor``: is this cluster ready for models, and what to do where it is not."""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kindling_operator.cli_connection import connected
from kindling_operator.cli_doctor_checks import findings
from kindling_operator.cli_doctor_facts import cluster_of
from kindling_operator.cli_doctor_finding import Finding, Level
from kindling_operator.cli_failure import REFUSED
from kindling_operator.cli_terminal import Terminal, Tone

_TONES: Final = {Level.OK: Tone.GOOD, Level.WARN: Tone.WARNING, Level.FAIL: Tone.BAD}
_CHECK, _LEVEL = 18, 4


def doctor_command(options: argparse.Namespace) -> int:
    """Print every finding; 1 if one of them is a failure."""
    found = findings(connected(options, cluster_of))
    print("\n".join(report(found, Terminal.of())))
    return REFUSED if any(each.level is Level.FAIL for each in found) else 0


def report(found: Sequence[Finding], terminal: Terminal) -> Iterator[str]:
    """One finding after the other, and their number."""
    left = " " * (_CHECK + _LEVEL + 2)
    for each in found:
        lines = textwrap.wrap(
            each.message,
            terminal.width - len(left),
            break_long_words=False,
            break_on_hyphens=False,
        )
        level = terminal.paint(f"{each.level.value:<{_LEVEL}}", _TONES[each.level])
        yield f"{each.check:<{_CHECK}} {level} {lines[0]}"
        yield from (f"{left}{line}" for line in lines[1:])
    count = Counter(each.level for each in found)
    yield ", ".join(f"{count[level]} {level.value}" for level in Level)
