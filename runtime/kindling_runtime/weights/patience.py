"""How long a store asks not to be asked again, as HTTP says it."""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from kindling_runtime import wire

_QUOTA: Final = re.compile(r'"[^"]*"\s*;\s*r=(\d+)\s*;\s*t=(\d+)')
"""The hub's RateLimit: `"api";r=0;t=55` are no requests left for 55 s
(draft-ietf-httpapi-ratelimit-headers-09; huggingface_hub reads the same)."""
_LONGEST_DIGITS: Final = 6


def asked_wait(headers: Mapping[str, str], *, now: datetime) -> float:
    """Seconds until the store wants to be asked again, 0 where it does not say: Retry-After in
    seconds or as a date (RFC 9110, 10.2.3), else the end of a quota that is used up.

    `headers` know no difference of case; `now` has a time zone.
    """
    said = headers.get("Retry-After", "").strip()
    seconds = wire.number(said, digits=_LONGEST_DIGITS)
    if said and seconds is None:
        return max(0.0, _until(said, now))
    quota = _QUOTA.search(headers.get("RateLimit", ""))
    if seconds is None and quota is not None and not quota[1].strip("0"):
        seconds = wire.number(quota[2], digits=_LONGEST_DIGITS)
    return float(seconds or 0)


def _until(date: str, now: datetime) -> float:
    try:
        return (parsedate_to_datetime(date) - now).total_seconds()
    except (ValueError, TypeError, OverflowError):  # no date, or one without a zone
        return 0.0
