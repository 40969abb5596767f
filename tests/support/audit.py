"""The API server's audit log: who asked for what, when, and how it ended."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

LEASES: Final = "leases"
_READS: Final = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Request:
    """One answered request."""

    received: datetime
    done: datetime
    user: str
    agent: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    uri: str

    @property
    def writes(self) -> bool:
        """Whether it can have changed something."""
        return self.verb not in _READS


def end(log: Path) -> int:
    """Where the log ends now, for a later `requests(start=…)`."""
    return log.stat().st_size


def requests(log: Path, *, start: int = 0) -> Iterator[Request]:
    """Requests from byte `start` of the log on, when they were answered: a watch as it begins."""
    with log.open("rb") as lines:
        lines.seek(start)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            entry: dict[str, Any] = json.loads(line)
            answered = "ResponseStarted" if entry["verb"] == "watch" else "ResponseComplete"
            if entry["stage"] == answered:
                yield _request(entry)


def written(log: Path, user: str, *, start: int) -> list[Request]:
    """The writes of one user from byte `start` on; renewals of its Lease do not count."""
    found = requests(log, start=start)
    return [each for each in found if each.user == user and each.writes and each.resource != LEASES]


def _request(entry: dict[str, Any]) -> Request:
    target = entry.get("objectRef", {})
    return Request(
        received=datetime.fromisoformat(entry["requestReceivedTimestamp"]),
        done=datetime.fromisoformat(entry["stageTimestamp"]),
        user=entry["user"].get("username", ""),
        agent=entry.get("userAgent", ""),
        verb=entry["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=int(entry.get("responseStatus", {}).get("code", 0)),
        uri=entry["requestURI"],
    )
