"""What a check of `kindling doctor` finds: one line with a number and, where needed, the fix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, and one sentence."""

    check: str
    level: Level
    message: str


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, message)


def warn(check: str, message: str) -> Finding:
    """Something that some models need is missing."""
    return Finding(check, Level.WARN, message)


def fail(check: str, message: str) -> Finding:
    """Nothing works before this is mended."""
    return Finding(check, Level.FAIL, message)


def unread(check: str, plural: str) -> Finding:
    """The user's rights do not let the check look."""
    return warn(
        check,
        f"Not looked at, because you may not list {plural}: ask for a ClusterRole with the verb"
        f" list on {plural}.",
    )
