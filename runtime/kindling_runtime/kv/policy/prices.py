"""What a store costs: an estimate from list prices, for comparisons and not for bills.

US dollars, the standard class in one region of the United States, without traffic between regions
and taxes. The prices of a contract differ; what counts is which part of the sum is large.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MONTH_SECONDS: Final = 30 * 86_400
GB: Final = 1_000_000_000
_WRITES: Final = frozenset({"put", "list"})
_FREE: Final = frozenset({"delete"})


@dataclass(frozen=True, slots=True)
class Prices:
    """Of 1,000 requests that write or list, of 1,000 that read, and of a GB for a month."""

    writes: float
    reads: float
    month: float


PRICES: Final[Mapping[str, Prices]] = {
    "s3": Prices(0.005, 0.0004, 0.023),
    "gs": Prices(0.005, 0.0004, 0.020),
    "az": Prices(0.0055, 0.00044, 0.018),
}


def requests_cost(scheme: str, asked: Mapping[str, int]) -> float:
    """Dollars for requests, counted by kind."""
    prices = PRICES[scheme]
    return sum(
        count * (prices.writes if kind in _WRITES else prices.reads) / 1000
        for kind, count in asked.items()
        if kind not in _FREE
    )


def monthly_cost(scheme: str, asked: Mapping[str, int], *, seconds: float, kept: int) -> float:
    """Dollars in a month that goes on as the last `seconds` did, with `kept` bytes in the store."""
    rate = requests_cost(scheme, asked) / max(seconds, 1.0)
    return rate * MONTH_SECONDS + kept / GB * PRICES[scheme].month


def requests_per_gb(asked: Mapping[str, int], moved: int) -> float:
    """Requests for each GB that was read or written; 0 while nothing was."""
    return sum(asked.values()) / (moved / GB) if moved else 0.0
