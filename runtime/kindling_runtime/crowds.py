"""Who of a crowd of connections has to go: whoever asks nothing, the longest first."""

import heapq
from collections.abc import Mapping
from typing import TypeVar

_Guest = TypeVar("_Guest")


def unwanted(idle: Mapping[_Guest, int], *, most: int, longest: int) -> list[_Guest]:
    """Of connections, and for how many sweeps each has been idle (0: it is being answered, or was
    since the last one), those to end: idle for too long, and above `most` the longest idle."""
    patient = sorted((guest for guest in idle if idle[guest]), key=lambda guest: -idle[guest])
    over = max(0, len(idle) - most)
    return [guest for place, guest in enumerate(patient) if place < over or idle[guest] > longest]


def crowding(addresses: Mapping[_Guest, str], *, over: int) -> list[_Guest]:
    """Of connections, the oldest first, with the address that each comes from, `over` to end: each
    time the newest one of the address that has the most."""
    of: dict[str, list[_Guest]] = {}
    for guest, address in addresses.items():
        of.setdefault(address, []).append(guest)
    most = [(-len(guests), address) for address, guests in of.items()]
    heapq.heapify(most)
    ends: list[_Guest] = []
    while most and len(ends) < over:
        _, address = heapq.heappop(most)
        ends.append(of[address].pop())
        if of[address]:
            heapq.heappush(most, (-len(of[address]), address))
    return ends
